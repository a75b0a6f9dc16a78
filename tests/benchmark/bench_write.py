"""How fast blocks reach the database: SQLite, and PostgreSQL where its server is installed. Prints one JSON line each.

Run: python tests/benchmark/bench_write.py [probes]. Every key, index, check and trigger is on; only put_block is timed."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from generator import block, interval_length, scenarios, sweep_record

from store.opening import open_store
from store.writing import begin_sweep, put_block, put_scenarios

BATCH_SIZES = 512


def machine() -> str:
    """Describe the machine in a few words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )
    return f"{os.cpu_count()} x {model}, {platform.system()}"


def measure(url: str, probes: int) -> tuple[float, int]:
    """Write blocks of about 500 probes and return the rate and the number of probes."""
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="benchmark"))
        seconds, added = 0.0, 0
        records = (record for record in scenarios(seed=1) if record.status == "ok")
        while added < probes:
            chosen = [next(records) for _ in range(100)]
            refs = put_scenarios(store, sweep_id, chosen)
            blocks = [block(record, 1, interval_length(record, BATCH_SIZES)) for record in chosen]
            started = time.perf_counter()
            added += sum(put_block(store, sweep_id, ref.id, item) for ref, item in zip(refs, blocks, strict=True))
            seconds += time.perf_counter() - started
    return added / seconds, added


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
        for name, context in (
            ("write_sqlite", nullcontext(f"sqlite:///{directory}/bench.sqlite")),
            ("write_postgresql", postgresql_url()),
        ):
            with context as url:
                if url is None:
                    continue
                rate, rows = measure(url, probes if name == "write_sqlite" else probes // 4)
                line = {"name": name, "value": round(rate), "unit": "probes/s", "rows": rows, "machine": machine()}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
