"""Accidents that workers have, once a shard each: a process of its own imports this and is killed by it.

Not here: what must be stored all the same (test_working_survival)."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

from poison import poisoned_where

from evaluator.graph.operators import operators_from_json
from evaluator.shards import evaluate_shard
from store.parts import registering, write_part
from store.placing import shelf_at
from sweepdb.working.tasks import ShardOutcome, ShardTask, run_shard


def _first_time(task: ShardTask, what: str) -> bool:
    """Whether this accident has not befallen the shard yet."""
    mark = Path(task.folder).parent.with_name("accidents")
    mark.mkdir(exist_ok=True)
    try:
        (mark / f"{what}-{task.key}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_before_the_file(task: ShardTask) -> ShardOutcome:
    if _first_time(task, "before"):
        _die()
    return run_shard(task)


def killed_between_file_and_commit(task: ShardTask) -> ShardOutcome:
    if _first_time(task, "between"):
        operators = {key: operators_from_json(text) for key, text in task.operators.items()}
        write_part(shelf_at(task.folder), task.key, evaluate_shard(task.items, operators).blocks)
        _die()
    return run_shard(task)


def killed_after_the_commit(task: ShardTask) -> ShardOutcome:
    outcome = run_shard(task)
    if _first_time(task, "after"):
        _die()
    return outcome


def surroundings(task: ShardTask) -> tuple[str | None, set[str], set[str]]:
    """A variable, what was imported before the shard, and what the shard imported of ours and of DuckDB."""
    before = set(sys.modules)
    run_shard(task)
    tops = ("evaluator", "store", "sweepdb", "duckdb")
    after = {name for name in set(sys.modules) - before if name.partition(".")[0] in tops}
    return os.environ.get("SWEEPDB_TRIED"), before, after


def slow(task: ShardTask) -> ShardOutcome:
    time.sleep(1.0)
    return run_shard(task)


def server_killed_before_the_commit(task: ShardTask) -> ShardOutcome:
    """Everything is inserted, and the server dies: PostgreSQL restarts itself, with every connection cut."""
    if not _first_time(task, "server"):
        return run_shard(task)
    real = registering._record_intervals

    def dying(connection, *rest):
        real(connection, *rest)
        os.kill(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one(), signal.SIGKILL)

    registering._record_intervals = dying
    try:
        return run_shard(task)
    finally:
        registering._record_intervals = real


def killed_while_comparing(task: ShardTask) -> ShardOutcome:
    mark = Path(os.environ["SWEEPDB_TRIED"]) / "accidents"
    mark.mkdir(exist_ok=True)
    if not (once := mark / task.key).exists():
        once.touch()
        _die()
    return run_shard(task)


def killed_by_one_log(task: ShardTask) -> ShardOutcome:
    """One log kills whatever replays it, each time."""
    if task.log is not None and task.log.point == os.environ["SWEEPDB_TRIED"]:
        _die()
    return run_shard(task)


def disk_full_twice(task: ShardTask) -> ShardOutcome:
    return _on_a_full_disk(task) if task.attempt <= 2 else run_shard(task)


def disk_full_for_decodes(task: ShardTask) -> ShardOutcome:
    return _on_a_full_disk(task) if task.items[0].scenario.phase == "decode" else run_shard(task)


def _on_a_full_disk(task: ShardTask) -> ShardOutcome:
    """No file may grow beyond a kilobyte: the system refuses the write that would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        return run_shard(task)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def poisoned(task: ShardTask) -> ShardOutcome:
    """One plan of three has a figure that nothing divides by."""
    with poisoned_where(lambda scenario: scenario.plan.tp == 2):
        return run_shard(task)
