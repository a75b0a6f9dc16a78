"""How fast blocks reach the database: SQLite, and PostgreSQL where its server is installed. Prints one JSON line each.

Run: python tests/benchmark/bench_write.py [probes]. Every key, index, check and trigger is on; only `put_blocks` is timed,
by the clock and by the processor time of this process and, with PostgreSQL, of its server's."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from figures import machine
from generator import block, interval_length, scenarios, sweep_record

from store.opening import open_store
from store.writing import begin_sweep, put_blocks, put_scenarios

BATCH_SIZES = 512
BLOCKS_A_TRANSACTION = 8  # as evaluator.sweep stores them
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def server_seconds() -> float:
    """Processor time of every PostgreSQL process of this machine that runs, and of those that they waited for."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, fields = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        if "(postgres" in name:
            ticks += sum(int(field) for field in fields.split()[11:15])
    return ticks / _TICKS_A_SECOND


def measure(url: str, probes: int, used_s: Callable[[], float]) -> dict[str, float]:
    """Write blocks of about 500 probes; rates by the clock and by processor time."""
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="benchmark"))
        seconds, processor_s, added = 0.0, 0.0, 0
        records = (record for record in scenarios(seed=1) if record.status == "ok")
        while added < probes:
            chosen = [next(records) for _ in range(100)]
            refs = put_scenarios(store, sweep_id, chosen)
            blocks = [
                (ref.id, block(record, 1, interval_length(record, BATCH_SIZES)))
                for ref, record in zip(refs, chosen, strict=True)
            ]
            started, used = time.perf_counter(), used_s()
            for first in range(0, len(blocks), BLOCKS_A_TRANSACTION):
                added += put_blocks(store, sweep_id, blocks[first : first + BLOCKS_A_TRANSACTION])
            seconds, processor_s = seconds + time.perf_counter() - started, processor_s + used_s() - used
    return {"value": round(added / processor_s), "by_wall": round(added / seconds), "rows": added}


@contextmanager
def postgresql_url():
    """Give a database on a server started for this, None where it cannot be had."""
    from postgresql_server import running_server, why_not

    if reason := why_not():
        print(f"bench_write: no PostgreSQL figure: {reason}", file=sys.stderr)
        yield None
        return
    with running_server() as server:
        yield server.new_database()


def main() -> None:
    probes = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory:
        for name, context, used_s in (
            ("write_sqlite", nullcontext(f"sqlite:///{directory}/bench.sqlite"), time.process_time),
            ("write_postgresql", postgresql_url(), lambda: time.process_time() + server_seconds()),
        ):
            with context as url:
                if url is None:
                    continue
                figures = measure(url, probes if name == "write_sqlite" else probes // 4, used_s)
                aim = {"aim": ">= 88000"} if name == "write_postgresql" else {}  # four times 22,000
                line = {"name": name, "unit": "probes/CPU-s", **figures, **aim, "machine": machine()}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
