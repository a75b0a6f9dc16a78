"""Measured points that workers evaluate are compared as one process compares them, whoever fails, and shares add up."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest
import worker_faults

import evaluator.ledger.predicting
import evaluator.together.side_evaluation
import sweepdb
from evaluator.evaluate import evaluate_scenario
from evaluator.ledger import evaluated_or_why
from evaluator.ledger.readers import read_measurements
from store.errors import EvaluationError, StoreError
from sweepdb.measuring.validating import compare
from sweepdb.working.comparing import comparing_by, evaluated_on
from sweepdb.working.process_engine import InlineEngine, ProcessEngine
from sweepdb.working.tasks import EngineLostError, Workers, run_shard

HEADER = "model,device,engine,precision,input_length,output_length,concurrency,tp,pp,ttft_ms,tpot_exclusive_ms"
SQL = """
    SELECT m.key, v.metric, s.key, v.batch_size, v.predicted, v.knowledge FROM validation v
    JOIN measurement m ON m.id = v.measurement_id JOIN scenario s ON s.id = v.scenario_id ORDER BY 1, 2, 3, 4
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "50000")  # two scenarios a shard


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """Eight points of two engines, two of each scenario."""
    path = tmp_path_factory.mktemp("points") / "measured.csv"
    lines = [
        f"Qwen/Qwen3-8B,h100_sxm,{engine},bf16,{length},32,{users},1,1,{20 + users + extra},{5 + users / 4 + extra}"
        for extra, engine in enumerate(("vllm", "sglang"))
        for length in (512, 1024)
        for users in (2, 7)
    ]
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def alone(measured):
    """The comparison of one process."""
    return compare(list(read_measurements(measured).records))


def compared_on(engine, measured):
    def evaluate(sizes, captured, on_progress):
        return evaluated_on(engine, sizes, captured, on_progress)

    return compare(list(read_measurements(measured).records), evaluate=evaluate)


def same(one, other) -> bool:
    return (one.comparisons, one.excluded, one.points) == (other.comparisons, other.excluded, other.points)


def test_workers_give_the_numbers_of_one_process(measured, alone):
    engine = InlineEngine(seen := Counting())
    assert same(compared_on(engine, measured), alone)
    assert len(alone.comparisons) == 32  # eight points, two metrics, as asked and as known
    assert seen.shards == len(alone.probes) / 2 > 1
    assert all(task.folder is None and task.store_url is None for task in seen.tasks)


class Counting:
    def __init__(self):
        self.tasks = []

    def __call__(self, task):
        self.tasks.append(task)
        return run_shard(task)

    @property
    def shards(self) -> int:
        return len({task.key for task in self.tasks})


def test_processes_that_are_killed_change_no_number(measured, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEPDB_TRIED", str(tmp_path))
    assert same(compared_on(ProcessEngine(1, worker_faults.killed_while_comparing), measured), alone)
    assert len(list((tmp_path / "accidents").iterdir())) > 1


def test_progress_covers_every_worker(measured):
    said = []
    records = list(read_measurements(measured).records)
    evaluate = lambda sizes, captured, told: evaluated_on(InlineEngine(), sizes, captured, told)  # noqa: E731
    done = compare(records, evaluate=evaluate, on_progress=lambda *one: said.append(one))
    assert said[-1] == (len(done.probes), len(done.probes))
    assert [one for one, _ in said] == sorted(one for one, _ in said)


@pytest.mark.parametrize("on_workers", [False, True])
def test_a_poisoned_scenario_is_left_out_with_its_reason(measured, alone, monkeypatch, on_workers):
    def fragile(scenario, sizes, operators):
        if scenario.workload.input_length == 512:
            raise ZeroDivisionError("a figure of zero")
        return evaluate_scenario(scenario, sizes, operators)

    monkeypatch.setattr(evaluator.together.side_evaluation, "evaluate_scenario", fragile)
    monkeypatch.setattr(evaluator.ledger.predicting, "evaluate_scenario", fragile)
    records = list(read_measurements(measured).records)
    done = compared_on(InlineEngine(), measured) if on_workers else compare(records)
    (left_out,) = done.excluded
    assert (left_out.rule, left_out.rows) == ("not evaluated: ZeroDivisionError: a figure of zero", 4)
    assert {one.input_length for one in done.comparisons} == {1024}
    assert done.comparisons == tuple(one for one in alone.comparisons if one.input_length == 1024)


def test_a_shard_that_fails_three_times_is_named_and_the_others_go_on(measured, alone):
    tried = []

    def full(task):
        if any(item.scenario.serving_model.startswith("vllm") for item in task.items):
            tried.append(task.attempt)
            raise StoreError("No memory left.")
        return run_shard(task)

    done = compared_on(InlineEngine(full), measured)
    assert {one.rule for one in done.excluded} == {"not evaluated: its shard failed 3 times: No memory left."}
    assert sorted(set(tried)) == [1, 2, 3]
    assert 0 < len(done.points) < len(alone.points)


def test_an_engine_that_is_lost_says_what_to_do(measured):
    class Lost(InlineEngine):
        def results(self):
            raise EngineLostError("the Dask scheduler is gone")

    with pytest.raises(EvaluationError, match="nothing was compared: the Dask scheduler is gone") as caught:
        compared_on(Lost(), measured)
    assert "same command again" in caught.value.hint


def validations(url):
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        return connection.execute(SQL).fetchall()


def test_shares_of_an_array_keep_each_its_points_and_add_up(measured, tmp_path):
    whole, shared = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("whole", "shared"))
    everything = sweepdb.validate(measured, store=whole)
    shares = [sweepdb.validate(measured, store=shared, workers=f"shard:{number}/3") for number in (1, 2, 3)]
    assert sorted(key for one in shares for key in one.points) == sorted(everything.points)
    assert validations(shared) == validations(whole)
    assert len(validations(whole)) >= 16  # as asked and as known are one where nothing more is known


def test_the_command_takes_workers(measured, tmp_path):
    whole, worked = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("whole", "worked"))
    sweepdb.validate(measured, store=whole)
    sweepdb.validate(measured, store=worked, workers="processes:1")
    assert validations(worked) == validations(whole)


def test_a_share_evaluates_here():
    evaluate, mine = comparing_by(Workers(kind="share", share=1, count=2))
    assert evaluate is evaluated_or_why
    assert (mine("0" * 15 + "1" + "f"), mine("0" * 16 + "f")) == (True, False)


@pytest.mark.survival
@pytest.mark.filterwarnings("ignore")
def test_dask_compares_as_one_process_does(measured, alone, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    evaluate, mine = comparing_by(Workers(kind="dask", count=2))
    assert mine is None
    assert same(compare(list(read_measurements(measured).records), evaluate=evaluate), alone)
