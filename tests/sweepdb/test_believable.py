"""Relations that every evaluated row keeps, whatever evaluates it; and bundles whose rows break them are refused."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bundle_forgery import made_right, with_rows
from conftest_cli import sweepdb
from conftest_loads import evaluate_loads
from evaluator_cases import TEST_DEVICE, W8A8, both_traces
from examples import examples
from formula_cases import FAMILIES, LENGTHS, MODELS, PHASES, WORKLOADS, span
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.evaluate import evaluate_scenario
from evaluator.identity import RecordBuilder
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Launch
from evaluator.scenario import Scenario
from evaluator.serving.models import list_serving_models
from queries.bundles import Bundle
from store.errors import InputError
from store.records import BlockRecord
from sweepdb.sharing import export_bundle
from sweepdb.sharing.believable import refuse_unbelievable, refuse_unbelievable_load

SIZES = np.asarray([1, 2, 7, 50])


def believed(scenario):
    """Evaluate a scenario and hold its rows against it; whether it could be evaluated."""
    linear = W8A8
    operators = both_traces(
        scenario.model, scenario.plan, linear=linear, convention=scenario.convention, compile=scenario.launch.compile
    )
    try:
        block = evaluate_scenario(scenario, SIZES, operators)
    except InputError:
        return False
    record = RecordBuilder().scenario("a model", scenario)
    columns = {name: np.asarray(values) for name, values in block.columns().items()}
    refuse_unbelievable(record, BlockRecord(batch_sizes=SIZES, columns=columns))
    return True


def test_rows_of_every_engine_family_and_kind_of_lengths_are_believed():
    cases = itertools.product(FAMILIES, list_serving_models(), LENGTHS, PHASES)
    assert sum(believed(span(*case)) for case in cases) > 100


CHOICES = st.tuples(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(sorted(WORKLOADS)),
    st.sampled_from(PHASES),
    st.sampled_from(["physical", "upstream"]),
    st.sampled_from([1, 2, 100, 30_000]),
    st.sampled_from([0.0, 1.5, 40.0]),
    st.sampled_from([None, 5]),
)


@settings(max_examples=examples(40))
@given(CHOICES)
def test_rows_of_models_plans_and_workloads_are_believed(choice):
    model, workload, phase, convention, length, serving_cost_ms, seats = choice
    spec, plan = MODELS[model]
    asked = replace(WORKLOADS[workload], input_length=length)
    if asked.mtp_tokens and not spec.mtp_layers:
        asked = replace(asked, mtp_tokens=0, mtp_acceptance=())
    launch = Launch(seats=seats) if convention == "physical" else Launch()
    believed(
        Scenario(
            model=spec,
            device=TEST_DEVICE,
            precision=Precision(linear="W8A8_DYNAMIC"),
            plan=plan,
            workload=asked,
            phase=phase,
            convention=convention,
            serving_cost_ms=serving_cost_ms,
            launch=launch,
        )
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A bundle of an evaluated model, alone and beside engines."""
    folder = tmp_path_factory.mktemp("believable")
    url = f"sqlite:///{folder}/store.sqlite"
    for mode in ("aggregated", "decode", "prefill"):
        line = f"evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 1 --mode {mode}"
        done = sweepdb(f"{line} --input-length 300 --output-length 50 --batch-range 110 --serving-model waves", url)
        assert done.code == 0, done.err
    export_bundle(folder / "bundle", store=url)
    return folder / "bundle"


TIMES = ("ttft_ms", "e2e_ms", "tpot_inclusive_ms", "tpot_exclusive_ms")
FORGED = {
    "times a thousand times too long": ", ".join(f"{name} = {name} * 1000" for name in TIMES),
    "times in seconds": ", ".join(f"{name} = {name} / 1000" for name in TIMES),
    "a first token shorter than its step": "ttft_ms = ttft_ms / 1000",
    "the least number": "ttft_ms = 5e-324",
    "the largest number": "e2e_ms = 1e308",
    "no weights": "weight_bytes = 0",
    "weights in GiB": "weight_bytes = weight_bytes // 1073741824",
    "a tenth of the cache": "kv_cache_bytes = kv_cache_bytes // 10, kv_cache_mean_bytes = kv_cache_mean_bytes // 10",
    "a tenth of every cache": "kv_cache_bytes = kv_cache_bytes // 10, kv_cache_mean_bytes = kv_cache_mean_bytes // 10,"
    " kv_bytes_per_request = kv_bytes_per_request // 10",
    "half of the time per token": "tpot_exclusive_ms = CASE WHEN batch_size > 100 THEN tpot_exclusive_ms / 2"
    " ELSE tpot_exclusive_ms END",
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED.keys())
def test_a_bundle_of_forged_numbers_is_refused_in_a_sentence(exported, change, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "bundle")
    with_rows(folder, f"UPDATE probes SET {change}")
    made_right(folder)
    url = f"sqlite:///{tmp_path}/store.sqlite"
    outcome = sweepdb(["import", str(folder)], url)
    assert outcome.code == 2
    assert outcome.err.startswith("error: No evaluation gives scenario "), outcome.err
    assert json.loads(sweepdb("sweeps --format json", url).out) == []


def test_the_bundle_as_it_is_is_taken_in(exported, tmp_path):
    outcome = sweepdb(["import", str(exported)], f"sqlite:///{tmp_path}/store.sqlite")
    assert outcome.code == 0, outcome.err


def test_a_mean_of_requests_that_lies_beyond_them_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    evaluate_loads(url, requests=200, rates=(10.0, 90.0), mode="aggregated")
    evaluate_loads(url, requests=200, rates=(10.0,))
    export_bundle(tmp_path / "bundle", store=url)
    loads = [load for block in Bundle(tmp_path / "bundle").loads() for load in block.loads]
    assert len(loads) > 3
    for load in loads:
        refuse_unbelievable_load(load)
        for name, factor in (("ttft_mean_ms", 1000), ("load_tpot_mean_ms", 1000), ("ttft_mean_ms", 1e-3)):
            if getattr(load, name):
                with pytest.raises(InputError, match=name):
                    refuse_unbelievable_load(replace(load, **{name: getattr(load, name) * factor}))
        with pytest.raises(InputError, match="busy_share"):
            refuse_unbelievable_load(replace(load, busy_share=1.1))
