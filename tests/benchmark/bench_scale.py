"""What grows with what: sweeps on one and two workers, and one subject's question over parts, 300 of them at most. JSON lines.

Run: python tests/benchmark/bench_scale.py [probes [probes a part [parts,...]]]. CPU is of every thread and worker process; parts are of real
rows, fewer a part than a sweep writes, since what is measured is how cost grows with files. With a FOLDER that
`large_store.py` has filled in place of a number: one subject among 10^8 rows, and among 10^9."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from multiprocessing import forkserver
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import large_store
from evaluated_blocks import evaluate_all
from evaluator_cases import QWEN3_32B, TEST_DEVICE
from figures import cpu_s, say
from generator import block, scenarios, sweep_record

from evaluator.inputs.formats import Precision
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.request import NamedModel, SweepRequest
from evaluator.sweep import run_sweep
from queries.asking.options import Limits, Scope
from queries.asking.question import Question
from queries.session import Session
from store.location import parse_url
from store.opening import Store, open_store
from store.parts import ShardBlock, part_shelf, register_part, write_part
from store.placing import parts_in_use
from store.reading import read_transaction
from store.sealing import unsealed
from store.writing import begin_sweep, finish_sweep, put_scenarios
from sweepdb.working import parse_workers, run_on_workers

BATCHES = 2_000


def timed(work: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = cpu_s(), time.perf_counter()
    work()
    return cpu_s() - cpu, time.perf_counter() - wall


def request_of(probes: int) -> SweepRequest:
    """A request of about so many probes: eight lengths, three phases, 2,000 batch sizes a scenario."""
    lengths = max(1, probes // (BATCHES * 12))
    return SweepRequest(
        models=(NamedModel(name="Qwen/Qwen3-32B", spec=QWEN3_32B),),
        devices=(TEST_DEVICE,),
        workloads=tuple(workload_of(input_length=500 + 100 * number, output_length=200) for number in range(lengths)),
        precisions=(Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC"),),
        num_devices=8,
        batch_range=(1, BATCHES),
    )


def on_workers(store: Store, request: SweepRequest, count: int) -> None:
    """Sweep on so many processes, and end what they are copied of: its CPU time, and theirs, is counted once it ended."""
    run_on_workers(store, request, parse_workers(f"processes:{count}"))
    forkserver._forkserver._stop()


def sweeps(folder: Path, probes: int) -> None:
    """Store one request in one process, then with one and with two workers; evaluation alone for comparison."""
    request = request_of(probes)
    operators: dict = {}
    list(islice(evaluate_all(request, operators), 1))  # imports and captures
    for _ in evaluate_all(request, operators):
        pass
    total = sum(len(made.batch_size) for made in evaluate_all(request, operators))
    os.environ["SWEEPDB_SHARD_PROBES"] = str(max(total // 8, 1))
    cpu, _ = timed(lambda: [None for _ in evaluate_all(request, operators)])
    say("scale_evaluation", total / cpu, "probes/CPU-s", probes=total)
    with open_store(f"sqlite:///{folder}/rows.sqlite", create=True) as store:
        cpu, wall = timed(lambda: run_sweep(store, request))
        say("scale_one_process", total / cpu, "probes/CPU-s", wall_s=round(wall, 2))
    walls = {}
    for count in (1, 2):
        with open_store(f"sqlite:///{folder}/parts{count}.sqlite", create=True) as store:
            cpu, walls[count] = timed(partial(on_workers, store, request, count))
            say(f"scale_workers_{count}", total / cpu, "probes/CPU-s", wall_s=round(walls[count], 2))
    say("scale_two_of_one", walls[1] / walls[2], "ratio of wall", aim=">= 1.8")


def many_parts(url: str, parts: int, rows: int) -> tuple[str, str]:
    """A store of so many parts; returns the model and workload of one subject."""
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="scale"))
        found = [record for record in scenarios(seed=1) if record.status == "ok"]
        asked = next(record for record in found if record.subject.phase == "aggregated")
        records = [asked, *(record for record in islice(found, parts) if record is not asked)][:parts]
        shelf = part_shelf(store)
        refs = put_scenarios(store, sweep_id, records)
        for number, (record, ref) in enumerate(zip(records, refs, strict=True)):
            plan = record.subject.plan
            made = ShardBlock(
                scenario_id=ref.id, scenario_key=ref.key, replicas=plan.dp * plan.pp, record=block(record, 1, rows)
            )
            key = f"{number:064d}"
            register_part(store, sweep_id, key, write_part(shelf, key, [made]))
        finish_sweep(store, sweep_id, "finished")
    return asked.subject.model.name, asked.subject.workload.name or asked.subject.workload.label


def questions(folder: Path, rows: int, sizes: tuple[int, ...] = (1, 100, 300)) -> None:
    """One model and workload, asked first and with a new limit, with parts pruned and with all of them opened."""
    for parts in sizes:
        url = f"sqlite:///{folder}/parts-{parts}.sqlite"
        model, workload = many_parts(url, parts, rows)
        for pruned in (True, False):
            unsealed.MOST_SCENARIOS = 20_000 if pruned else -1
            asked = [
                Question(report="best", scope=Scope(models=(model,), workload=workload), limits=Limits(tpot_ms=limit))
                for limit in (50.0, 60.0, 70.0)
            ]
            opened: list[Session] = []
            opening, _ = timed(lambda: opened.append(Session(parse_url(url))))  # noqa: B023
            say(f"scale_opening_{parts}", 1000 * opening, "ms CPU", aim="<= 50")
            with opened[0] as session:
                first, _ = timed(partial(session.ask, asked[0]))
                session.ask(asked[1])
                warm, _ = timed(partial(session.ask, asked[2]))
            how = "pruned" if pruned else "all parts"
            told = {"aim": "<= 1000"} if pruned else {}
            say(f"scale_first_answer_{parts}", 1000 * first, "ms CPU", parts=how, rows_a_part=rows, **told)
            say(
                f"scale_new_limit_{parts}",
                1000 * warm,
                "ms CPU",
                parts=how,
                rows_a_part=rows,
                **({"aim": "<= 100"} if pruned else {}),
            )
        unsealed.MOST_SCENARIOS = 20_000


LARGE_LIMITS = (50.0, 60.0, 70.0, 80.0, 90.0)


def large(folder: Path) -> None:
    """One subject among 10^8 rows, and 10^9: opened, asked by a process of its own from a disk that is cold, and again."""
    record = next(large_store.records())
    model, workload = record.subject.model.name, record.subject.workload.label
    for name in ("real", "linked"):
        url = f"sqlite:///{folder}/{name}.sqlite"
        with read_transaction(parse_url(url)) as transaction:
            parts = parts_in_use(transaction)
        rows = {"rows": sum(part.row_count for part in parts), "parts": len(parts)}
        forget_files(folder)
        command = [
            *(sys.executable, "-m", "cli.main", "query", "best", "--store", url, "--model", model),
            *("--workload", workload, "--tpot-limit", "50"),
        ]
        cpu, wall = timed(partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL))
        say(f"large_command_cold_{name}", cpu, "s CPU with imports", wall_s=round(wall, 2), **rows)
        forget_files(folder)
        asked = [
            Question(report="best", scope=Scope(models=(model,), workload=workload), limits=Limits(tpot_ms=limit))
            for limit in LARGE_LIMITS
        ]
        opened: list[Session] = []
        cpu, wall = timed(lambda: opened.append(Session(parse_url(url))))  # noqa: B023
        say(f"large_opening_{name}", 1000 * cpu, "ms CPU", aim="<= 50", wall_ms=round(1000 * wall, 1), **rows)
        with opened[0] as session:
            for number, question in enumerate(asked):
                what = ("first", "again")[number] if number < 2 else "new_limit"
                cpu, wall = timed(partial(session.ask, question))
                told = {"files": len(session._connection.files)} | ({"aim": "<= 100"} if what == "new_limit" else {})
                say(f"large_{what}_{name}", 1000 * cpu, "ms CPU", wall_ms=round(1000 * wall, 1), **told, **rows)


def forget_files(folder: Path) -> None:
    """Let the system forget what it keeps in memory of these files, so that they are read from the disk again."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    if len(sys.argv) > 1 and not sys.argv[1].isdecimal():
        large(Path(sys.argv[1]))
        return
    probes = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        if probes:
            sweeps(Path(folder), probes)
        if len(sys.argv) > 3:
            questions(Path(folder), rows, tuple(map(int, sys.argv[3].split(","))))
        else:
            questions(Path(folder), rows)


if __name__ == "__main__":
    main()
