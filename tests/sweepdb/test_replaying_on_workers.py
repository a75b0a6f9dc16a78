"""Logs that workers replay have the times that one process gives them, whoever fails; what cannot be replayed says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import worker_faults

from evaluator.ledger import MeasuredLog, deployment_of, replayed_all
from evaluator.ledger.readers import read_measurements
from store.errors import EvaluationError, StoreError
from store.loads import MeasuredRequests
from sweepdb.measuring.log_scoring import replays
from sweepdb.working.comparing import replayed_on, replaying_by
from sweepdb.working.process_engine import InlineEngine, ProcessEngine
from sweepdb.working.tasks import EngineLostError, Workers, run_shard

HEADER = "model,device,engine,precision,input_length,output_length,concurrency,tp,pp,ttft_ms,tpot_exclusive_ms"
POINTS = [f"Qwen/Qwen3-8B,h100_sxm,vllm,bf16,{length},32,4,1,1,30,8" for length in (512, 1024, 2048)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> list[MeasuredLog]:
    """Three logs, of which the last does not say when its requests were sent."""
    path: Path = tmp_path_factory.mktemp("points") / "measured.csv"
    path.write_text("\n".join([HEADER, *POINTS]) + "\n")
    places = np.arange(40)
    made = []
    for number, record in enumerate(read_measurements(path).records):
        requests = MeasuredRequests(
            sent_us=places * 50_000 if number < 2 else np.full(40, -1),
            prompt=500 + 10 * places,
            answer=20 + places % 7,
            ttft_us=np.full(40, 30_000),
            e2e_us=np.full(40, 200_000),
        )
        made.append(MeasuredLog(point=record.key, deployment=deployment_of(record), requests=requests))
    return made


@pytest.fixture(scope="module")
def here(logs):
    return replayed_all(logs)


def assert_same(got, expected):
    for one, other in zip(got, expected, strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[metric], other[metric]) for metric in other)


def test_workers_replay_as_one_process_does(logs, here):
    tasks = []

    def work(task):
        tasks.append(task)
        return run_shard(task)

    assert_same(replayed_on(InlineEngine(work), logs), here)
    assert here[2] == "log without the times of sending"
    assert len({task.key for task in tasks}) == 3
    assert here[0]["ttft"].size == 40
    assert here[0]["ttft"].std() > 0.0


def test_processes_that_are_killed_change_no_time(logs, here, tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEPDB_TRIED", str(tmp_path))
    assert_same(replayed_on(ProcessEngine(1, worker_faults.killed_while_comparing), logs), here)
    assert len(list((tmp_path / "accidents").iterdir())) == 3


def test_nobody_is_blamed_for_a_neighbour(logs, here, monkeypatch):
    monkeypatch.setenv("SWEEPDB_TRIED", logs[0].point)
    found = replayed_on(ProcessEngine(2, worker_faults.killed_by_one_log), logs)
    assert found[0] == "log not replayed: its shard failed 3 times: A worker was killed."
    assert_same(found[1:], here[1:])


def test_a_shard_that_fails_three_times_leaves_its_log_out_and_the_others_go_on(logs, here):
    tried = []

    def full(task):
        if task.log.point == logs[0].point:
            tried.append(task.attempt)
            raise StoreError("No memory left.")
        return run_shard(task)

    found = replayed_on(InlineEngine(full), logs)
    assert found[0] == "log not replayed: its shard failed 3 times: No memory left."
    assert tried == [1, 2, 3]
    assert_same(found[1:], here[1:])


def test_an_engine_that_is_lost_says_what_to_do(logs):
    class Lost(InlineEngine):
        def results(self):
            raise EngineLostError("the Dask scheduler is gone")

    with pytest.raises(EvaluationError, match="nothing was compared: the Dask scheduler is gone"):
        replayed_on(Lost(), logs)


def test_replays_are_scored_alike_wherever_they_were_played(logs):
    points = {log.point: log.deployment for log in logs}
    requests = {log.point: log.requests for log in logs}
    play = replaying_by(Workers(kind="processes", count=1))
    assert replays(points, requests, {}, None, play) == replays(points, requests, {}, None)
    assert replaying_by(Workers(kind="share", count=2)) is replayed_all  # the points of a share are its own


def test_a_log_of_a_server_whose_sides_are_apart_is_not_sent(logs):
    apart = replace(logs[0], deployment=replace(logs[0].deployment, mode="decode"))
    engine = InlineEngine(lambda task: pytest.fail("it was sent"))
    assert replayed_on(engine, [apart]) == ["log of a disaggregated server"] == replayed_all([apart])
