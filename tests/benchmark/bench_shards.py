"""What a sweep on workers costs beside evaluating: coordinator, files, engine; and two workers against one. JSON lines.

Run: python tests/benchmark/bench_shards.py [lengths [batch sizes]]. CPU is of every thread and process. Waves are priced in
microseconds a probe, engines in milliseconds a scenario: both are measured."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_scale import on_workers, request_of, timed
from figures import say

from evaluator.request import SweepRequest
from store.opening import open_store
from sweepdb.working import run_on_workers
from sweepdb.working.process_engine import InlineEngine
from sweepdb.working.tasks import ShardOutcome, ShardTask, Workers, run_shard

SHARDS = 8
ALONE = Workers(kind="share")
AIMS = {"waves": {"aim": ">= 150000"}}  # evaluated, stored and registered


class Timed:
    """Does shards in this process, and counts CPU seconds: of all of it, and of its parts."""

    def __init__(self) -> None:
        self.tasks: list[ShardTask] = []
        self.spent = self.evaluated = 0.0
        self.probes = 0

    def __call__(self, task: ShardTask) -> ShardOutcome:
        self.tasks.append(task)
        started = time.process_time()
        outcome = run_shard(task)
        self.spent += time.process_time() - started
        self.evaluated += outcome.evaluate_cpu_s
        self.probes += sum(last - first + 1 for item in task.items for first, last in item.missing)
        return outcome


def store_at(folder: Path, name: str) -> str:
    with open_store(f"sqlite:///{folder}/{name}.sqlite", create=True) as store:
        return store.url


def alone(url: str, request: SweepRequest) -> tuple[Timed, float]:
    """A sweep in this process alone: its shards as they were timed, and the CPU seconds of everything."""
    work = Timed()
    with open_store(url) as store:
        cpu, _ = timed(lambda: run_on_workers(store, request, ALONE, engine=InlineEngine(work)))
    return work, cpu


def measured(folder: Path, name: str, request: SweepRequest) -> None:
    os.environ["SWEEPDB_SHARD_PROBES"] = "1000000000"
    warm, _ = alone(store_at(folder, f"{name}-warm"), request)
    os.environ["SWEEPDB_SHARD_PROBES"] = str(max(1, warm.probes // SHARDS))
    work, cpu = alone(store_at(folder, f"{name}-alone"), request)
    scenarios, coordinator = sum(len(task.items) for task in work.tasks), cpu - work.spent
    more = {"probes": work.probes, "scenarios": scenarios, "shards": len(work.tasks)}
    say(f"shards_function_{name}", 1000 * work.evaluated / scenarios, "ms CPU a scenario", **more)
    say(f"shards_files_{name}", 1000 * (work.spent - work.evaluated) / scenarios, "ms CPU a scenario", **more)
    say(f"shards_coordinator_{name}", 1000 * coordinator / scenarios, "ms CPU a scenario", **more)
    say(f"shards_alone_{name}", 2 * work.probes / cpu, "probes/s on two cores, by CPU", **AIMS.get(name, {}), **more)
    walls = {}
    for count in (1, 2):
        with open_store(store_at(folder, f"{name}-{count}")) as store:
            spent, walls[count] = timed(lambda: on_workers(store, request, count))  # noqa: B023
        figures = {"wall_s": round(walls[count], 2), "probes_a_wall_s": round(work.probes / walls[count])}
        say(f"shards_workers_{count}_{name}", work.probes / spent, "probes/CPU-s", **figures, **more)
    say(f"shards_two_of_one_{name}", walls[1] / walls[2], "ratio of wall", aim=">= 1.8", **more)
    say(f"shards_two_of_one_cpu_{name}", 2 * work.spent / cpu, "ratio by CPU, two cores", aim=">= 1.8", **more)
    say(f"shards_workers_fed_{name}", work.spent / coordinator, "workers that one coordinator keeps busy", **more)
    for label, task, spent in (
        ("", work.tasks[0], work.spent / len(work.tasks)),
        ("_whole", warm.tasks[0], warm.spent),
    ):
        cost, probes = engine_s(task), sum(last - first + 1 for item in task.items for first, last in item.missing)
        figures = {"of_shard_ms": round(1000 * spent), "percent": round(100 * cost / spent, 2), "shard_probes": probes}
        say(f"shards_engine{label}_{name}", 1000 * cost, "ms CPU a shard", **figures)


def engine_s(task: ShardTask) -> float:
    """CPU seconds that a pool of processes takes to hand a shard out and take its outcome, beside doing it."""
    from sweepdb.working.process_engine import ProcessEngine

    def handed(times: int) -> float:
        def work() -> None:
            engine = ProcessEngine(1, same_outcome)
            for _ in range(times):
                engine.submit(task)
                list(engine.results())
            engine.cancel()

        return least(work)

    return (handed(22) - handed(2)) / 20


def least(work: Callable[[], None]) -> float:
    from multiprocessing import forkserver

    def whole() -> None:
        work()
        forkserver._forkserver._stop()

    return min(timed(whole)[0] for _ in range(3))


def same_outcome(task: ShardTask) -> ShardOutcome:
    return ShardOutcome(key=task.key, part=None, registered=None, failures={}, evaluate_cpu_s=0.0)


def main() -> None:
    lengths = int(sys.argv[1]) if len(sys.argv) > 1 else 83
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 2_000
    waves = replace(request_of(lengths * 24_000), batch_range=(1, batches))
    engine = replace(request_of(max(1, lengths // 4) * 24_000), serving_model="vllm", phases=("aggregated",))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        measured(Path(folder), "waves", waves)
        measured(Path(folder), "engine", engine)


if __name__ == "__main__":
    main()
