"""Every fit has one answer: last digits of what was measured, the order of rows and where a search begins decide nothing.

What is fitted: an engine to one's own points, a shipped engine, kernels, factors near points, expected errors. Under other
processors' arithmetic the same is held by test_same_bits.py and test_calibration_shipped.py, and by `make figures`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from calibrate_screen import TRUTH, written
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import shared_data

from evaluator.calibration.device_fit import fit_kernel
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.base import DeviceFigures
from evaluator.calibration.kernels import KernelSet, _ordered
from evaluator.calibration.least_squares import Box, Effort, fit_log
from evaluator.inputs.devices.calibration_record import Calibration, calibration_from_mapping, calibration_to_mapping
from evaluator.inputs.engines.engine_profiles import (
    NUMBERS,
    FittedEngine,
    Nearby,
    as_yaml,
    engine_from_file,
    engine_profile,
    fitted_engine,
    list_engines,
    unfitted_engine,
    with_numbers,
)
from evaluator.ledger.fitting import user_points
from evaluator.ledger.fitting.engine_fit import FITTED, fit_engine
from evaluator.ledger.fitting.near_fit import near_fit
from evaluator.ledger.fitting.user_points import OwnFit, _fit_points, _folds, fit_own, served_points
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.scoring import setting_of
from queries.errors import FOLDER, POINTS
from sweepdb.measuring.engine_fitting import KeptFit
from tools.engines import engine_points, fit_with_pairs_held_out
from tools.error_regions import read_points, regions_of
from tools.ledger_summary import shipped_devices

BOX = Box(low=np.full(2, -9.0), high=np.full(2, 9.0), standard=np.zeros(2))
DIGIT = 1e-12  # relative, of every measured value: more than two processors differ in
SAME_NUMBER, SAME_ERROR = 1e-3, 1e-2  # relative: what is promised of numbers, and of held-out errors


def nudged(records, seed):
    """The same records in another order, each measured value a few last digits away."""
    random = np.random.default_rng(seed)
    moved = [
        replace(one, metrics={name: value * (1 + DIGIT * random.uniform(-1, 1)) for name, value in one.metrics.items()})
        for one in records
    ]
    return [moved[place] for place in random.permutation(len(moved))]


def agree(ours, theirs, within):
    assert ours == pytest.approx(theirs, rel=within, abs=1e-6)


@cache
def noisy_records(folder):
    """Twenty points of a made-up server, 8 % of noise on each: nothing fits them without rest."""
    records = read_measurements(written(folder / "mine.csv", TRUTH)).records
    random = np.random.default_rng(11)
    return [
        replace(
            one, metrics={name: value * np.exp(0.08 * random.standard_normal()) for name, value in one.metrics.items()}
        )
        for one in records
    ]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return noisy_records(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def own_fit(records):
    return own(records)


def own(records) -> OwnFit:
    return fit_own(served_points(records, None), engine_profile("vllm"), "mine")


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.survival) for seed in range(2, 7))])
def test_own_points_have_one_fit(records, own_fit, seed):
    fit, other = own_fit, own(nudged(records, seed))
    assert fit.unconverged == other.unconverged == ()
    for name in NUMBERS:
        agree(getattr(other.profile, name), getattr(fit.profile, name), SAME_NUMBER)
    held_out = dict(zip(map(setting_of, fit.points.records), fit.held_out, strict=True))
    for record, errors in zip(other.points.records, other.held_out, strict=True):
        agree(errors, held_out[setting_of(record)], SAME_ERROR)


@settings(max_examples=examples(6), deadline=None)
@given(st.data())
def test_a_fit_ends_at_the_same_numbers_wherever_it_begins(records, data):
    points = _fit_points(served_points(records, None), engine_profile("vllm"), None)
    start = unfitted_engine("vllm")
    names = ("prefill_factor", "decode_factor", "step_ms", "request_ms")
    begin = with_numbers(
        start, {name: data.draw(st.floats(FITTED[name][0], min(FITTED[name][1], 100.0)), label=name) for name in names}
    )
    usual, other = (fit_engine(points, start, names=names, begin=one) for one in (None, begin))
    assert usual.converged
    assert other.converged
    agree(other.loss, usual.loss, SAME_NUMBER)
    for name in names:
        agree(getattr(other.profile, name), getattr(usual.profile, name), 5 * SAME_NUMBER)


def test_a_fit_that_is_stopped_says_so(records):
    points = _fit_points(served_points(records, None), engine_profile("vllm"), None)
    stopped = fit_engine(points, unfitted_engine("vllm"), most_rounds=1)
    assert (stopped.converged, stopped.rounds) == (False, 1)


def test_profiles_that_did_not_converge_say_so_in_their_files(records, monkeypatch, tmp_path):
    monkeypatch.setattr(user_points, "fit_engine", partial(fit_engine, most_rounds=1))
    fit = own(records)
    assert fit.unconverged == ("in sample", "held out")
    path = tmp_path / "mine.yaml"
    path.write_text(as_yaml(FittedEngine(profile=fit.profile, held_out={}, source="", unconverged=fit.unconverged)))
    assert engine_from_file(path).unconverged == ("in sample", "held out")
    kept = KeptFit(fit=fit, output=path, version=1, read=20, problems=())
    assert {(row[1], row[-1]) for row in kept.rows()} == {("before", None), ("in sample", "no"), ("held out", "no")}
    stopped = fit_log(lambda point: point - np.array([3.0, 1.0]), np.zeros(2), BOX, Effort(tolerance=0.0, iterations=1))
    assert not stopped.converged
    calibration = Calibration(device="toy", kernels={"a": {"b": 1.0}}, accuracy={}, unconverged=("a",))
    assert calibration_from_mapping(calibration_to_mapping(calibration)) == calibration


def test_runs_of_one_setting_are_held_out_together(records):
    again = [
        replace(one, key=one.key[::-1], metrics={name: 1.05 * value for name, value in one.metrics.items()})
        for one in records[:6]
    ]
    points = served_points([*records, *again], None)
    fifth = dict(zip(map(setting_of, points.records), _folds(points), strict=True))
    assert len(points.records) == 26
    assert _folds(points) == [fifth[setting_of(one)] for one in points.records]
    assert sorted(Counter(fifth.values()).values()) == [4, 4, 4, 4, 4]


@pytest.mark.parametrize(
    "name",
    [
        name
        if name == "eager"
        else pytest.param(name, marks=pytest.mark.survival if name == "vllm" else pytest.mark.long)
        for name in list_engines()
    ],
)
def test_a_shipped_engine_has_one_fit(name):
    records = [
        one
        for file in ("serving.csv", "published.csv")
        for one in read_measurements(shared_data("e2e", file)).records
    ]  # fmt: skip
    engine = fitted_engine(name)
    fits = [
        fit_with_pairs_held_out(engine_points(points, name), engine, "")
        for points in (records, nudged(records, seed=5))
    ]
    for one in ("profile", *engine.held_out):
        ours, theirs = (fit.profile if one == "profile" else fit.held_out.get(one) for fit in fits)
        for number in NUMBERS if ours else ():
            agree(getattr(theirs, number), getattr(ours, number), SAME_NUMBER)


FIGURES = DeviceFigures(
    matrix_flops_per_s=(("bf16", 100e12),), memory_bytes_per_s=1e12, link_bytes_per_s=100e9, compute_units=100
)


def products(seed=3, size=240):
    """Times of matrix products with 5 % of noise."""
    random = np.random.default_rng(seed)
    inputs = {name: 2.0 ** random.integers(low, 14, size) for name, low in (("m", 0), ("n", 7), ("k", 7))}
    inputs |= {name: np.full(size, value) for name, value in
               (("weight_bytes", 2.0), ("activation_bytes", 2.0), ("peak_flops_per_s", 100e12), ("quantises", 0.0))}  # fmt: skip
    values = {one.name: one.choices[-1] if one.choices else one.starts[0] for one in FORMS["matmul"].parameters}
    seconds = FORMS["matmul"].seconds(values, inputs, FIGURES) * np.exp(0.05 * random.standard_normal(size))
    return KernelSet(name="gemm.bf16", form="matmul", inputs=inputs, latency_s=seconds)


@settings(max_examples=examples(6), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_kernel_has_one_fit(seed):
    rows, random = products(), np.random.default_rng(seed)
    order = random.permutation(rows.latency_s.size)
    moved = _ordered(
        replace(
            rows,
            inputs={name: column[order] for name, column in rows.inputs.items()},
            latency_s=(rows.latency_s * (1 + DIGIT * random.uniform(-1, 1, order.size)))[order],
        )
    )
    fit, other = fit_kernel(_ordered(rows), FIGURES), fit_kernel(moved, FIGURES)
    assert fit.converged
    assert other.converged
    agree(other.values, fit.values, SAME_NUMBER)
    for name in ("median_ape", "mean_ape", "p90_ape"):
        assert getattr(other.accuracy, name) == pytest.approx(getattr(fit.accuracy, name), rel=SAME_ERROR, abs=0.011)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), size=st.sampled_from((0.02, 0.2, 1.0)))
def test_factors_near_points_have_one_answer(seed, count, size):
    random = np.random.default_rng(seed)
    places = [
        Nearby(
            users=float(2 ** random.integers(0, 8)),
            input_length=float(2 ** random.integers(7, 14)),
            output_length=float(2 ** random.integers(6, 11)),
            devices=float(2 ** random.integers(0, 4)),
        )
        for _ in range(count)
    ]
    errors = size * random.standard_t(2, (count, 2))
    (ours, still), (theirs, also) = (near_fit(places, errors * (1 + off)) for off in (0.0, DIGIT))
    assert still
    assert also
    for one, other in zip(ours, theirs, strict=True):
        assert (other.ttft, other.tpot) == pytest.approx((one.ttft, one.tpot), rel=SAME_NUMBER, abs=2e-6)


@settings(max_examples=examples(3), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_expected_errors_have_one_answer(seed):
    errors = read_points(FOLDER / POINTS)
    errors = [one for one in errors if one.field.serving_model == "engine" and one.field.basis == "asked"]
    random = np.random.default_rng(seed)
    moved = [replace(one, error=one.error * (1 + DIGIT * random.uniform(-1, 1))) for one in errors]
    donors = {one.device: one.calibrated_from for one in shipped_devices()}
    ours, theirs = (
        regions_of(points, donors) for points in (errors, [moved[at] for at in random.permutation(len(moved))])
    )
    assert len(ours) == len(theirs) > 50
    for one, other in zip(ours, theirs, strict=True):
        for name in ("median_ape_percent", "p90_ape_percent", "bias_percent"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=SAME_ERROR, abs=0.02), one
