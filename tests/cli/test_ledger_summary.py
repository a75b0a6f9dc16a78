"""The command behind the shipped summary: what it evaluates, what it compares with what, and that it yields what ships."""

from __future__ import annotations

import csv
from dataclasses import fields, replace

import numpy as np
import pytest
from measured_points import bare_point
from shared_data import shared_data

from evaluator.evaluate import capture_requests, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.scenarios import scenario_of
from queries.errors import (
    DEVICES,
    ENGINE,
    KNOWN_NAMES,
    POINTS,
    SERVER_POINTS,
    SPREADS,
    SUMMARY,
    Region,
    ShippedDevice,
)
from store.records import SideRecord
from tools import ledger_summary as module
from tools.error_regions import Field, PointError, read_points, write_points
from tools.ledger_summary import (
    VARIANTS,
    Error,
    Variant,
    asked_under,
    errors_of,
    measured_values,
    pair_errors_of,
    points_of,
    shipped_devices,
    shown_values,
    told,
)

WAVES, BY_ENGINE = Variant("calibrated", "physical", "waves"), Variant("calibrated", "physical", ENGINE)


def record(number=0, **changes):
    """A measured point of Qwen3-32B on four H100, 16 users."""
    values = {
        "key": f"{number:064x}", "source": f"own:{number}", "model": "Qwen/Qwen3-32B",
        "device": "h100_sxm", "engine": "vllm", "engine_version": "0.10.0", "mode": "aggregated", "precision": "fp8",
        "num_devices": 4, "input_length": 1024.0, "output_length": 257.0, "concurrency": 16.0,
        "metrics": {"ttft_ms_mean": 100.0, "tpot_exclusive_ms_mean": 10.0},
    }  # fmt: skip
    side = SideRecord(instances=1, tp=4, pp=1, dp=1)
    return bare_point(**{**values, "prefill": side, "decode": side, **changes})


def point(**changes):
    (found,) = points_of([record(**changes)])
    return found


def test_a_point_is_evaluated_as_evaluate_would():
    one = point()
    asked = asked_under(one, WAVES, "asked")
    assert (asked.scenario.phase, asked.scenario.serving_model, asked.scenario.engine) == ("aggregated", "waves", None)
    assert (asked.scenario.workload.input_length, asked.scenario.workload.output_length) == (1024, 257)
    (error,) = [found for found in errors_of([one], WAVES) if found.metric == "tpot_exclusive_ms"]
    operators = {trace: capture_operators(request) for trace, request in capture_requests(asked.scenario).items()}
    block = evaluate_scenario(asked.scenario, np.asarray([16], dtype=np.int64), operators)
    assert error.error == block.tpot_exclusive_ms[0] / 10.0 - 1.0
    assert error.error != 0


def test_only_points_whose_engine_is_known_are_served_by_one():
    assert asked_under(point(engine=None), BY_ENGINE, "asked") is None
    assert asked_under(point(engine=None), WAVES, "asked") is not None
    assert asked_under(point(), BY_ENGINE, "asked").scenario == scenario_of(point().deployment, "asked")


def test_families_and_conventions_are_what_the_variant_says():
    for variant in VARIANTS:
        scenario = asked_under(point(), variant, "asked").scenario
        assert (scenario.device.family, scenario.convention) == (variant.family, variant.convention)


def test_a_rate_and_an_inclusive_tpot_follow_from_both_latencies():
    one = point()
    # 100 + 256 x 10 = 2,660 ms; over 257 tokens 10.350 ms; 16 x 257 / 2.66 s = 1,545.9 tokens/s
    assert measured_values(one, "asked", engine=False) == {
        "ttft_ms": 100.0,
        "tpot_exclusive_ms": 10.0,
        "tpot_inclusive_ms": pytest.approx(10.350, abs=1e-3),
        "output_tokens_per_s": pytest.approx(1545.9, abs=0.1),
    }
    stated = point(metrics={"ttft_ms_mean": 100.0, "tpot_exclusive_ms_mean": 10.0, "output_tokens_per_s": 1500.0})
    assert measured_values(stated, "asked", engine=False)["output_tokens_per_s"] == 1500.0
    alone = point(metrics={"tpot_exclusive_ms_mean": 10.0})
    assert measured_values(alone, "asked", engine=False) == {"tpot_exclusive_ms": 10.0}


def test_a_batch_that_nobody_follows_is_no_closed_loop():
    batched = replace(point(metrics={"e2e_ms": 2570.0}), deployment=replace(point().deployment, batched=True))
    assert measured_values(batched, "asked", engine=True) == {}
    # A source that sends one prompt a user is known for it; formulas follow nobody anyway.
    assert measured_values(batched, "known", engine=True) == {"tpot_inclusive_ms": 10.0}
    assert measured_values(batched, "asked", engine=False) == {"tpot_inclusive_ms": 10.0}


class Probe:
    def value(self, column, batch_size):
        assert batch_size == 16
        return {"makespan_ms": 400.0, "ttft_ms": 250.0, "tpot_exclusive_ms": 8.0, "e2e_ms": 2570.0}[column]


def test_values_of_a_probe_by_phase():
    whole = shown_values(point(), "asked", Probe(), 16)
    # 2,570 / 257 = 10 ms a token; 16 users x 257 tokens / 2.57 s = 1,600 tokens/s
    assert whole == {
        "ttft_ms": 250.0, "tpot_exclusive_ms": 8.0, "tpot_inclusive_ms": 10.0,
        "output_tokens_per_s": pytest.approx(1600.0),
    }  # fmt: skip
    prompts = shown_values(point(mode="prefill"), "asked", Probe(), 16)
    assert prompts == {"ttft_ms": 250.0, "prefill_latency_ms": 400.0}
    apart = replace(point(), deployment=replace(point().deployment, mode="disaggregated"))
    assert shown_values(apart, "asked", Probe(), 16)["tpot_exclusive_ms"] == 8.0


def test_phases_alone_are_measured_by_their_own_names():
    prompts = point(mode="prefill", metrics={"prefill_latency_ms": 300.0})
    assert measured_values(prompts, "asked", engine=False) == {"prefill_latency_ms": 300.0}
    (error,) = errors_of([prompts], WAVES)
    assert error.metric == "ttft_ms"  # the only latency that an answer shows of a prefill instance
    steps = point(mode="decode", metrics={"decode_step_ms": 12.0})
    assert measured_values(steps, "asked", engine=False) == {"tpot_exclusive_ms": 12.0}


def test_decode_instances_of_sides_apart_are_met_and_their_prompts_are_not():
    side = SideRecord(instances=2, tp=4, pp=1, dp=1)
    apart = point(mode="disaggregated", prefill=side, decode=side, num_devices=16)
    asked = asked_under(apart, WAVES, "asked")
    assert (asked.scenario.phase, asked.batch_size) == ("decode", 8)  # 16 users over two instances
    assert measured_values(apart, "asked", engine=False) == {"tpot_exclusive_ms": 10.0}


def test_an_error_counts_where_its_pair_and_what_is_known_of_it_belong():
    for knowledge in ("asked", "known"):
        one = Error(variant=BY_ENGINE, knowledge=knowledge, point=point(), metric="ttft_ms", error=0.25)
        assert told(one) == PointError(
            field=Field(
                family="calibrated", convention="physical", serving_model=ENGINE, basis=knowledge,
                phase="aggregated", metric="ttft_ms",
            ),
            device="h100_sxm", model="Qwen/Qwen3-32B", kind="dense", engine="vllm_sync", error=0.25,
        )  # fmt: skip


def test_the_command_writes_what_it_finds_the_same_each_time(tmp_path):
    measured = tmp_path / "own.csv"
    head = "model,device,engine,engine_version,mode,precision,num_devices,input_length,output_length,concurrency,tp,"
    lines = [
        f"Qwen/Qwen3-32B,h100_sxm,vllm,0.10.0,aggregated,fp8,4,1024,257,{users},4,{90 + users},10"
        for users in range(1, 7)
    ]
    measured.write_text("\n".join([head + "ttft_ms_mean,tpot_exclusive_ms_mean", *lines]) + "\n")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
        module.main([measured], [measured], folder)
    for name in (SUMMARY.name, DEVICES.name, POINTS.name, SPREADS.name, SERVER_POINTS.name, KNOWN_NAMES.name):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    with (folders[0] / SUMMARY.name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [item.name for item in fields(Region)] == list(rows[0])
    # four metrics; of the device and of the one whose kernels it has, of dense and of any kind; by engine and by any
    assert len([row for row in rows if row["serving_model"] == "waves"]) == 4 * 4 * 4
    # as asked and as known, of two families
    assert len([row for row in rows if row["serving_model"] == ENGINE]) == 2 * 2 * 4 * (4 + 2)
    assert {row["points"] for row in rows} == {"6"}
    # waves, and the engine as asked and as known: four metrics each of calibrated devices
    assert len(read_points(folders[0] / POINTS.name)) == 6 * 4 * 3
    with (folders[0] / DEVICES.name).open(newline="") as file:
        assert {row["device"] for row in csv.DictReader(file)} >= {"h100_sxm", "TEST_DEVICE"}


FEW_POINTS = {"gb200", "a100_sxm_40gb", "rtx_pro_6000_server"}  # 130 of 2,434


@pytest.mark.survival
def test_errors_of_devices_with_few_points_are_what_the_command_finds(tmp_path):
    assert assert_found(tmp_path, FEW_POINTS.__contains__) > 50
    module.write_csv(tmp_path / DEVICES.name, ShippedDevice, shipped_devices())
    assert (tmp_path / DEVICES.name).read_text() == DEVICES.read_text()


@pytest.mark.long
def test_the_errors_that_ship_are_what_the_command_finds(tmp_path):
    """Of every device but the two with most points, H100 and B200: all of them take minutes. What the summary states
    follows from the errors (tests/cli/test_error_regions.py)."""
    assert assert_found(tmp_path, lambda device: device not in {"h100_sxm", "b200_sxm"}) > 100


def assert_found(folder, wanted):
    """The errors of these devices are those that ship; returns how many."""
    files = [shared_data("e2e", name) for name in ("serving.csv", "published.csv")]
    records = (record for path in files for record in read_measurements(path).records)
    points = [one for one in points_of(records) if wanted(one.deployment.device.name)]
    devices = {one.deployment.device.name for one in points}
    errors = [
        told(error)
        for variant, knowledge in ((WAVES, "asked"), (BY_ENGINE, "asked"), (BY_ENGINE, "known"))
        for error in (*errors_of(points, variant, knowledge), *pair_errors_of(points, variant, knowledge))
    ]
    write_points(folder / POINTS.name, errors)
    found = (folder / POINTS.name).read_text().splitlines()
    shipped = [line for line in POINTS.read_text().splitlines()[1:] if line.split(",")[6] in devices]
    assert found[1:] == shipped
    return len(shipped)
