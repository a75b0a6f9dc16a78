"""The command behind the shipped summary: what it evaluates, what it compares with what, and that it yields what ships."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import fields, replace

import numpy as np
import pytest
from shared_data import shared_data

from cli.flows import ledger_summary as module
from cli.flows.ledger_summary import (
    VARIANTS,
    Error,
    Point,
    Variant,
    asked_under,
    errors_of,
    measured_values,
    points_of,
    regions_of,
    shipped_devices,
    shown_values,
)
from evaluator.capture import capture
from evaluator.evaluate import capture_requests, evaluate_scenario
from evaluator.measured.scenarios import scenario_of
from evaluator.measurements import read_measurements
from queries.expected_error import ANY, DEVICES, ENGINE, LEAST_POINTS, SUMMARY, Region, ShippedDevice
from store.records import MeasurementRecord, SideRecord

WAVES, BY_ENGINE = Variant("calibrated", "physical", "waves"), Variant("calibrated", "physical", ENGINE)


def record(number=0, **changes):
    """A measured point of Qwen3-32B on four H100, 16 users."""
    nothing = dict.fromkeys(set(MeasurementRecord.__slots__) - {"prefill", "decode", "metrics", "definitions", "extra"})
    values = {
        "key": f"{number:064x}", "source": f"own:{number}", "source_format": "own", "model": "Qwen/Qwen3-32B",
        "device": "h100_sxm", "engine": "vllm", "engine_version": "0.10.0", "mode": "aggregated", "precision": "fp8",
        "num_devices": 4, "input_length": 1024.0, "output_length": 257.0, "concurrency": 16.0,
        "metrics": {"ttft_ms_mean": 100.0, "tpot_exclusive_ms_mean": 10.0},
    }  # fmt: skip
    side = SideRecord(instances=1, tp=4, pp=1, dp=1)
    return MeasurementRecord(**{**nothing, **values, "prefill": side, "decode": side, **changes})


def point(**changes):
    (found,) = points_of([record(**changes)])
    return found


def test_a_point_is_evaluated_as_evaluate_would():
    one = point()
    asked = asked_under(one, WAVES, "asked")
    assert (asked.scenario.phase, asked.scenario.serving_model, asked.scenario.engine) == ("aggregated", "waves", None)
    assert (asked.scenario.workload.input_length, asked.scenario.workload.output_length) == (1024, 257)
    (error,) = [found for found in errors_of([one], WAVES) if found.metric == "tpot_exclusive_ms"]
    operators = {trace: capture(request) for trace, request in capture_requests(asked.scenario).items()}
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
    """The columns of a probe."""

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
    prompts = point(mode="prefill", metrics={"prefill_latency_ms": 80.0})
    assert measured_values(prompts, "asked", engine=False) == {"prefill_latency_ms": 80.0}
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


def naive_figures(errors):
    """(points, median, bias) of some errors, by sorting."""

    def middle(values):
        ordered = sorted(values)
        half = len(ordered) // 2
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

    return len(errors), 100 * middle([abs(one) for one in errors]), 100 * middle(errors)


def test_regions_and_what_they_are_rolled_up_to_hold_what_belongs_to_them():
    generator = np.random.default_rng(5)
    base = [point(), point(engine="sglang"), point(device="h200_sxm"), point(device="h100_pcie")]
    base.append(Point(record=record(), deployment=replace(base[0].deployment, model=_sparse())))
    errors = [
        Error(
            variant=variant,
            knowledge="asked",
            point=base[int(generator.integers(len(base)))],
            metric=metric,
            error=float(error),
        )
        for variant in (WAVES, BY_ENGINE)
        for metric in ("ttft_ms", "tpot_exclusive_ms")
        for error in generator.normal(0, 0.3, 60)
    ]
    donor_of = {one.device: one.calibrated_from for one in shipped_devices()}
    assert donor_of["h100_pcie"] == "h100_sxm"
    regions = regions_of(errors, donor_of)
    expected = defaultdict(list)
    for one in errors:
        deployment, engine_known = one.point.deployment, one.variant.serving_model == ENGINE
        for kind in (ANY, "moe" if deployment.moe else "dense"):
            for engine in {ANY, deployment.engine if engine_known else ANY}:
                expected[
                    (one.variant.serving_model, "device", deployment.device.name, kind, engine, one.metric)
                ].append(one)
            donor = donor_of[deployment.device.name]
            expected[(one.variant.serving_model, "donor", donor, kind, ANY, one.metric)].append(one)
    enough = {key: members for key, members in expected.items() if len(members) >= LEAST_POINTS}
    found = {(one.serving_model, one.reach, one.device, one.kind, one.engine, one.metric): one for one in regions}
    assert found.keys() == enough.keys()
    assert len(found) == len(regions)
    for key, members in enough.items():
        points, median, bias = naive_figures([one.error for one in members])
        one = found[key]
        assert (one.points, one.median_ape_percent) == (points, pytest.approx(median, abs=0.006))
        assert one.bias_percent == pytest.approx(bias, abs=0.006)
        assert one.pairs == len({member.point.deployment.pair for member in members})
        assert one.engines == "+".join(sorted({member.point.deployment.engine for member in members}))


def _sparse():
    from evaluator.models import load_model

    return load_model("Qwen/Qwen3-30B-A3B")[1]


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
        module.main([measured], folder)
    for name in (SUMMARY.name, DEVICES.name):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    with (folders[0] / SUMMARY.name).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [item.name for item in fields(Region)] == list(rows[0])
    # four metrics; of the device and of the one whose kernels it has, of dense and of any kind; by engine and by any
    assert len([row for row in rows if row["serving_model"] == "waves"]) == 4 * 4 * 4
    assert len([row for row in rows if row["serving_model"] == ENGINE]) == 2 * 4 * (4 + 2)
    assert {row["points"] for row in rows} == {"6"}
    with (folders[0] / DEVICES.name).open(newline="") as file:
        assert {row["device"] for row in csv.DictReader(file)} >= {"h100_sxm", "TEST_DEVICE"}


@pytest.mark.survival
def test_the_shipped_summary_is_what_the_command_yields(tmp_path):
    """For every device but the two with most points, H100 and B200: all of them take minutes."""
    files = [shared_data("e2e", name) for name in ("serving.csv", "published.csv")]
    points = [
        one
        for one in points_of(record for path in files for record in read_measurements(path).records)
        if one.deployment.device.name not in {"h100_sxm", "b200_sxm"}
    ]
    devices = {one.deployment.device.name for one in points}
    donors = {one.device: one.calibrated_from for one in shipped_devices()}
    errors = [error for variant in VARIANTS for error in errors_of(points, variant)]
    found = [one for one in regions_of(errors, donors) if one.reach == "device" and one.device in devices]
    module.write_csv(tmp_path / "found.csv", Region, found)
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        shipped = [row for row in csv.reader(file) if row[3:4] == ["device"] and row[4] in devices]
    with (tmp_path / "found.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1:] == shipped
    assert len(shipped) > 200
    module.write_csv(tmp_path / DEVICES.name, ShippedDevice, shipped_devices())
    assert (tmp_path / DEVICES.name).read_text() == DEVICES.read_text()
