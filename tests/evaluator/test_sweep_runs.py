"""Sweeps: what is stored, what is known already, what fails with a reason, and what an interrupt leaves."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluated_blocks import evaluate_all
from evaluator_cases import DEEPSEEK_V3, OPT_125M, QWEN3_30B_A3B, TEST_DEVICE
from poison import poisoned_where

from evaluator.inputs.formats import Precision
from evaluator.inputs.plan_search import PlanSearch
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.request import NamedModel, SweepRequest, planned_scenarios
from evaluator.sweep import count_probes, run_sweep
from store.errors import InputError
from store.opening import open_store

OTHER = replace(TEST_DEVICE, name="OTHER")
W8A8 = Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC")


def request_of(model=OPT_125M, **options) -> SweepRequest:
    return SweepRequest(**{
        "models": (NamedModel(name="a/model", spec=model),),
        "devices": (TEST_DEVICE,),
        "workloads": (workload_of(input_length=100, output_length=20),),
        "precisions": (W8A8,),
        "num_devices": 4,
        "batch_range": (1, 5),
        **options,
    })  # fmt: skip


def sql(path: Path, statement: str) -> list[tuple]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def run(path: Path, request: SweepRequest, **options):
    with open_store(f"sqlite:///{path}", create=True) as store:
        return run_sweep(store, request, **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def test_every_plan_phase_and_batch_size_is_stored_once(path):
    # tp 1, 2, 4 (12 query heads) x three phases x batch sizes 1 to 5
    report = run(path, request_of())
    assert (report.scenarios, report.probes_stored, report.probes_known) == (9, 45, 0)
    assert report.operators_captured == 6  # a prefill and a decode set a plan
    again = run(path, request_of())
    assert (again.scenarios, again.probes_stored, again.probes_known) == (9, 0, 45)
    assert again.operators_captured == 0
    assert sql(path, "SELECT count(*), count(DISTINCT scenario_id || ':' || batch_size) FROM probe") == [(45, 45)]


def test_a_wider_range_adds_a_block_and_a_narrower_one_nothing(path):
    narrow = request_of(phases=("decode",), search=PlanSearch(tp_sizes=(2,)))
    assert run(path, replace(narrow, batch_range=(3, 5))).probes_stored == 3
    wider = run(path, replace(narrow, batch_range=(1, 8)))
    assert (wider.probes_stored, wider.probes_known) == (5, 3)  # 1, 2 and 6, 7, 8 beside 3, 4, 5
    assert run(path, replace(narrow, batch_range=(2, 7))).probes_stored == 0
    assert sql(path, "SELECT batch_size FROM probe ORDER BY 1") == [(size,) for size in range(1, 9)]


def test_stored_numbers_are_the_evaluated_ones(path):
    request = request_of(phases=("decode",), search=PlanSearch(tp_sizes=(4,)))
    run(path, request)
    (block,) = evaluate_all(request)
    stored = sql(path, "SELECT batch_size, decode_step_ms, weight_bytes FROM probe ORDER BY batch_size")
    assert stored == list(
        zip(block.batch_size.tolist(), block.decode_step_ms.tolist(), block.weight_bytes.tolist(), strict=True)
    )
    assert count_probes(request) == len(stored) == 5


def test_known_operators_need_no_torch(path):
    run(path, request_of())
    program = (
        "import sys, test_sweep_runs as cases, pathlib\n"
        f"report = cases.run(pathlib.Path({str(path)!r}), cases.request_of(devices=(cases.OTHER,)))\n"
        "assert report.probes_stored == 45, report\n"
        "assert 'torch' not in sys.modules\n"
    )
    tests, root = Path(__file__).parents[1], Path(__file__).parents[2]
    places = os.pathsep.join(map(str, (root, tests, tests / "evaluator")))
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": places})


def test_an_illegal_plan_that_was_asked_for_is_a_row_with_its_reason(path):
    report = run(path, request_of(phases=("decode",), search=PlanSearch(tp_sizes=(4, 8))))
    (failure,) = report.failures
    assert (failure.status, failure.scenarios, report.probes_stored) == ("illegal", 1, 5)
    assert failure.reason == "tp 8 x pp 1 x dp 1 is 8, not 4 devices"
    assert sql(path, "SELECT status, reason FROM scenario WHERE status <> 'ok'") == [("illegal", failure.reason)]


def test_drafts_of_a_model_without_a_module_are_unsupported(path):
    workload = workload_of(input_length=100, output_length=20, mtp_tokens=2)
    report = run(path, request_of(workloads=(workload,), phases=("decode",)))
    assert {failure.status for failure in report.failures} == {"unsupported"}
    assert report.probes_stored == 0
    assert sql(path, "SELECT DISTINCT status FROM scenario") == [("unsupported",)]


def test_one_scenario_that_fails_is_a_row_and_the_others_are_stored(path):
    with poisoned_where(lambda scenario: scenario.plan.tp == 2):
        report = run(path, request_of(phases=("decode",)))
    (failure,) = report.failures
    assert (failure.status, failure.reason) == ("error", "ZeroDivisionError: a figure of zero")
    assert report.probes_stored == 10
    assert run(path, request_of(phases=("decode",))).probes_stored == 5  # what failed is tried again
    assert sql(path, "SELECT DISTINCT status FROM scenario") == [("ok",)]


def test_progress_rises_with_what_is_stored_and_not_only_when_all_that_was_made_ready_is(path):
    said = []
    report = run(path, request_of(), on_progress=said.append)
    done = [one.scenarios_done for one in said]
    assert report.scenarios > 8  # blocks of a transaction
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] == report.scenarios


def test_an_interrupt_keeps_what_is_acknowledged_and_running_again_goes_on(path):
    def interrupt(progress):
        if progress.probes_stored >= 10:
            raise KeyboardInterrupt

    report = run(path, request_of(), on_progress=interrupt)
    assert report.interrupted
    assert report.probes_stored == 40  # of one transaction: eight blocks of five
    assert sql(path, "SELECT status, probes_stored FROM sweep") == [("interrupted", 40)]
    rest = run(path, request_of())
    assert (rest.probes_stored, rest.probes_known, rest.interrupted) == (5, 40, False)


def test_phases_have_instances_of_their_own(path):
    request = request_of(num_devices=None, prefill_devices=1, decode_devices=2, phases=("prefill", "decode"))
    run(path, request)
    asked = sql(
        path,
        "SELECT DISTINCT subject.phase, plan.tp * plan.pp * plan.dp FROM subject JOIN plan ON plan.id = plan_id ORDER BY 1",
    )
    assert asked == [("decode", 2), ("prefill", 1)]


def test_products_of_everything_are_planned(path):
    request = request_of(
        models=(NamedModel(name="a/dense", spec=OPT_125M), NamedModel(name="a/mixture", spec=QWEN3_30B_A3B)),
        devices=(TEST_DEVICE, OTHER),
        workloads=tuple(workload_of(input_length=size, output_length=20) for size in (100, 200)),
        precisions=(W8A8, Precision(linear="BF16", experts="BF16")),
        phases=("decode",),
        search=PlanSearch(rule="tp"),
    )
    # tp 1, 2, 4 each, with ep = 4 for the mixture
    assert len(list(planned_scenarios(request))) == 2 * 2 * 2 * 2 * 3
    assert {item.scenario.plan.ep for item in planned_scenarios(request) if item.model_name == "a/mixture"} == {4}


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"batch_range": (0, 5)}, "`batch_range`"),
        ({"batch_range": (6, 5)}, "`batch_range`"),
        ({"serving_cost_ms": -1.0}, "`serving_cost` must be at least 0 ms"),
        ({"serving_cost_ms": float("nan")}, "`serving_cost` must be at least 0 ms"),
        ({"num_devices": 0}, "at least 1 device"),
        ({"num_devices": 4096}, "4096 devices are more than TEST_DEVICE's grid holds"),
        ({"num_devices": None}, "the prefill phase needs `num_devices`"),
    ],
)
def test_a_request_no_scenario_could_be_made_of_is_refused_and_stores_nothing(path, options, complaint):
    with pytest.raises(InputError, match=complaint):
        run(path, request_of(**options))
    assert sql(path, "SELECT count(*) FROM sweep") == [(0,)]


def test_a_model_too_large_for_the_device_is_stored_at_batch_one(path):
    small = replace(TEST_DEVICE, memory_bytes=8 * 2**30)
    report = run(path, request_of(DEEPSEEK_V3, devices=(small,), num_devices=1, batch_range=(1, None)))
    assert report.fitting_scenarios == 0
    assert report.probes_stored == 3  # how far off it is can be asked
    assert np.array(sql(path, "SELECT weight_bytes FROM probe")).min() > small.memory_bytes


def test_jobs_change_no_number(path, tmp_path):
    run(path, request_of(), jobs=1)
    run(tmp_path / "other.sqlite", request_of(), jobs=4)
    columns = "batch_size, ttft_ms, decode_step_ms, e2e_ms, kv_cache_bytes"
    order = f"SELECT {columns} FROM probe ORDER BY {columns}"
    assert sql(path, order) == sql(tmp_path / "other.sqlite", order)
