"""Fitting an engine to a user's own points: known numbers are found again, kept, and serve; nothing is written over."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from calibrate_screen import PAGE, TRUTH, answered, screen_of, written
from conftest_cli import sweepdb
from evaluated_blocks import fitted_to

from evaluator.inputs.engines.engine_profiles import engine_from_file, unfitted_engine, with_numbers
from evaluator.inputs.launch import Client
from evaluator.ledger.deployments import central_metrics, deployment_of
from evaluator.ledger.fitting import user_points
from evaluator.ledger.fitting.fit_points import fit_points
from evaluator.ledger.fitting.user_points import OwnFit, ServedPoints, fit_engine
from evaluator.ledger.readers import read_measurements
from evaluator.serving import ENGINE_OWNER
from store.errors import InputError
from store.opening import open_store
from store.writing.beside import list_calibrations
from sweepdb.measuring.engine_fitting import expected_of


def served_command(profile):
    return (
        "evaluate Qwen/Qwen3-0.6B --device h100_sxm --input-length 1000 --output-length 400 --batch-range 8 8"
        f" --quantization BF16 --mode aggregated --serving-model {profile}"
    )


def shown_errors(url):
    """The expected errors of the best row, all of the same region, by metric."""
    full = json.loads(sweepdb("query best --tpot-definition exclusive --format json-full", url).out)
    (region,) = {one["region"] for one in full["expected_error"]}
    assert region.startswith("held out of the fit vllm-calibrated@")
    return {one["metric"]: one for one in full["expected_error"]}


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Twenty points of one server, one of another engine, one without TPOT and one that is no point."""
    more = (
        "Qwen/Qwen3-0.6B,h100_sxm,sglang,bf16,1,500,100,4,50,4\r\n"
        "Qwen/Qwen3-0.6B,h100_sxm,vllm,bf16,1,500,100,5,50,\r\n"
        "Qwen/Qwen3-0.6B,h100_sxm,vllm,bf16,1,500,100,5,fast,4\r\n"
    )
    return written(tmp_path_factory.mktemp("points") / "mine.csv", TRUTH, more=more)


def test_how_far_users_drift_is_found_again_where_nobody_stated_the_client(tmp_path):
    for shortest in (1.0, 0.98):
        plain = with_numbers(unfitted_engine("vllm"), {"prefill_factor": 1.35, "request_ms": 60.0})
        truth = replace(plain, client=replace(plain.client, shortest=shortest))
        path = written(tmp_path / f"{shortest}.csv", truth)
        known = [central_metrics(one.metrics) for one in read_measurements(path).records]
        deployments = [deployment_of(one) for one in read_measurements(path).records]
        measured = list(zip(deployments, known, strict=True))
        fitted = fitted_to(fit_points(measured, unfitted_engine("vllm")), unfitted_engine("vllm"))
        assert fitted.client.shortest == pytest.approx(shortest, abs=0.0021)  # 0.2 % apart is hardly told from in step
    # A client that draws its lengths says nothing of drift: the profile keeps its own.
    said = [(replace(one, client=Client(shortest=0.8)), numbers) for one, numbers in measured]
    fitted = fitted_to(fit_points(said, unfitted_engine("vllm")), unfitted_engine("vllm"))
    assert fitted.client == unfitted_engine("vllm").client


def test_known_numbers_are_found_again_and_kept_and_serve(points, tmp_path):
    url, profile = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "mine.yaml"
    outcome = sweepdb(
        [
            "calibrate",
            "--serving",
            "vllm",
            "--measurements",
            str(points),
            "--profile",
            str(profile),
            "--format",
            "json",
        ],
        url,
    )
    assert outcome.code == 0, outcome.err
    found = {(row["metric"], row["stage"]): row for row in json.loads(outcome.out)}
    assert {row["points"] for row in found.values()} == {20}
    for metric in ("ttft", "tpot"):
        assert found[metric, "before"]["mean_ape_percent"] > 10
        assert found[metric, "in sample"]["mean_ape_percent"] < 2
        assert found[metric, "held out"]["mean_ape_percent"] < 3
    for said in (
        "mine.csv:24: ttft_ms: 'fast' is not a number",
        "20 of 22 points of vllm used",
        "1 left out: of another engine",
        "1 left out: no TTFT with a TPOT: both are needed",
        "corrected near 20 of these points",
        "version 1 of vllm-calibrated is stored as vllm-calibrated@",
        f"--serving-model {profile} --store",
    ):
        assert said in outcome.err
    fitted = engine_from_file(profile).profile
    # Kernels of a model this small are too short to tell their factors from host time; what there is of it is found.
    assert fitted.step_ms == pytest.approx(TRUTH.step_ms, rel=0.1)
    assert fitted.request_ms == pytest.approx(TRUTH.request_ms, rel=0.1)
    with open_store(url, read_only=True) as store:
        (record,) = list_calibrations(store)
    assert record.device_name == f"{ENGINE_OWNER}vllm-calibrated"
    assert json.loads(record.errors)["ttft, held out"]["rows"] == 20
    assert "20 points of mine.csv, from vllm@" in record.source
    served = sweepdb(served_command(profile), url)
    assert served.code == 0, served.err
    asked = "SELECT ttft_ms, tpot_exclusive_ms FROM aggregated"
    (row,) = json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    (measured,) = [
        one.metrics for one in read_measurements(points).records
        if one.engine == "vllm" and (one.input_length, one.concurrency) == (1000, 8)
    ]  # fmt: skip
    assert row["ttft_ms"] == pytest.approx(measured["ttft_ms_mean"], rel=0.02)
    assert row["tpot_exclusive_ms"] == pytest.approx(measured["tpot_exclusive_ms_mean"], rel=0.02)
    # Answers under the profile show the errors of points held out of it, here and in a store that only got the file.
    errors = shown_errors(url)
    assert {one["points"] for one in errors.values()} == {20}
    for metric, name in (("ttft", "ttft_ms"), ("tpot", "tpot_exclusive_ms")):
        said = found[metric, "held out"]
        assert errors[name]["median_ape_percent"] == pytest.approx(said["median_ape_percent"], abs=0.006)
        assert errors[name]["p90_ape_percent"] == pytest.approx(said["p90_ape_percent"], abs=0.006)
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.sqlite"
    asked_again = served_command(profile)
    assert sweepdb(asked_again, elsewhere).code == 0
    assert shown_errors(elsewhere) == errors


@pytest.mark.survival
def test_the_same_points_are_the_same_version_and_others_the_next(points, tmp_path, monkeypatch):
    monkeypatch.setattr(user_points, "fit_engine", partial(fit_engine, most_rounds=1))  # versions, not numbers
    url = f"sqlite:///{tmp_path}/store.sqlite"
    slower = written(tmp_path / "slower.csv", with_numbers(TRUTH, {"step_ms": 6.0}))
    versions = []
    for number, file in enumerate((points, points, slower)):
        outcome = sweepdb(
            [
                "calibrate",
                "--serving",
                "vllm",
                "--measurements",
                str(file),
                "--profile",
                str(tmp_path / f"{number}.yaml"),
            ],
            url,
        )
        assert outcome.code == 0, outcome.err
        versions.append(outcome.err.partition("; version ")[2][:1])
    assert versions == ["1", "1", "2"]
    # Without files: every stored point, of both servers.
    outcome = sweepdb(["calibrate", "vllm", "--serving", "--profile", str(tmp_path / "both.yaml")], url)
    assert "40 of 42 points of vllm used" in outcome.err
    # Of one server, told by its model and device; all are.
    outcome = sweepdb(
        [
            "calibrate",
            "vllm",
            "--serving",
            "--only",
            "qwen3-0.6b",
            "--only",
            "H100",
            "--profile",
            str(tmp_path / "h.yaml"),
        ],
        url,
    )
    assert "40 of 42 points of vllm used" in outcome.err
    # From a profile: it keeps its name, its budget and its client.
    start = tmp_path / "start.yaml"
    start.write_text("name: ours\nadmission: mixed\nprofile: {token_budget: 2048}\nclient: {prompts_per_user: 4}\n")
    again = ["calibrate", str(start), "--serving", "--measurements", str(slower), "--profile", str(tmp_path / "o.yaml")]
    assert sweepdb(again, url).code == 0
    fitted = engine_from_file(tmp_path / "o.yaml").profile
    assert (fitted.name, fitted.token_budget, fitted.client.prompts_per_user) == ("ours", 2048, 4)


def test_errors_of_an_end_to_end_time_follow_from_both_latencies_of_a_point(points):
    records = [one for one in read_measurements(points).records if one.engine == "vllm"][:1]
    served = ServedPoints(engine="vllm", records=tuple(records), deployments=(deployment_of(records[0]),), excluded=())
    metrics = {"ttft_ms_mean": 100.0, "tpot_exclusive_ms_mean": 10.0}
    served = replace(served, records=(replace(records[0], metrics=metrics),))
    fit = OwnFit(
        profile=unfitted_engine("vllm"),
        start=unfitted_engine("vllm"),
        points=served,
        figures={},
        held_out=np.asarray([[0.1, -0.2]]),
    )
    found = expected_of(fit)
    # 100 tokens: measured 100 + 99 x 10 = 1,090 ms, predicted 110 + 99 x 8 = 902 ms; 902 / 1,090 - 1 = -17.25 %
    by_metric = {name: one["bias_percent"] for name, one in found["metrics"].items()}
    assert by_metric == {
        "ttft_ms": 10.0, "tpot_exclusive_ms": -20.0, "tpot_inclusive_ms": -17.25, "output_tokens_per_s": 20.84,
    }  # fmt: skip
    assert found["devices"] == ["h100_sxm"]


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ("{devices: [a], metrics: {ttft_ms: {points: many}}}", r"line 4: expected\.metrics\.ttft_ms\.points"),
        ("{places: [a]}", "unknown key 'places'"),
        ("{devices: [a]}", "metrics missing"),
        ("{devices: [a], metrics: [1]}", "metrics must be a mapping"),
    ],
)
def test_held_out_errors_that_nobody_can_read_are_refused(tmp_path, expected, said):
    profile = tmp_path / "ours.yaml"
    profile.write_text(f"name: ours\nadmission: mixed\nprofile: {{token_budget: 2048}}\nexpected: {expected}\n")
    with pytest.raises(InputError, match=said):
        engine_from_file(profile)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--serving --kernels x", "--serving fits an engine"),
        ("h100_sxm --measurements x", "--measurements and --only are for --serving"),
        ("--serving nobody --measurements {points}", "Unknown engine 'nobody'"),
        ("--serving --measurements {points}", "Points of several engines: sglang (1 points), vllm (20 points)"),
        ("--serving sglang --measurements {points}", "1 points of sglang are left: a fit needs at least 10"),
        ("--serving vllm --measurements {points} --only a100", "0 points of vllm are left: a fit needs at least 10"),
        ("--serving vllm --measurements {points} --profile {points}", "is there already"),
        ("--serving vllm --measurements {nothing}", "no such file"),
    ],
)
def test_what_is_refused(points, tmp_path, arguments, said):
    before = points.read_bytes()
    command = f"calibrate {arguments}".format(points=points, nothing=tmp_path / "nothing.csv")
    outcome = sweepdb(command, f"sqlite:///{tmp_path}/store.sqlite")
    assert outcome.code == 2
    assert said in outcome.err
    assert points.read_bytes() == before


def numbers_of(screen: str) -> list[list[float]]:
    return [[float(word) for word in line.split() if word[-1].isdigit()] for line in screen.splitlines()[3:]]


def test_the_page_shows_what_the_command_prints(tmp_path):
    printed, shown = answered(tmp_path).out, screen_of(PAGE.read_text(encoding="utf-8"))
    assert [line.split()[:3] for line in printed.splitlines()] == [line.split()[:3] for line in shown.splitlines()]
    assert len(numbers_of(printed)) == 6
    for now, page in zip(numbers_of(printed), numbers_of(shown), strict=True):
        # The page promises three digits on every processor.
        assert now == pytest.approx(page, rel=5e-3, abs=5e-4), (
            "run: PYTHONPATH=.:tests python tests/calibrate_screen.py"
        )
