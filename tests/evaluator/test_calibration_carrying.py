"""A fit from any subset of a device's kernels loses none: those that tables lack are the shipped ones, scaled."""

from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.calibration.carrying import OF_A_PEAK, completed, family_of, form_of, scaled
from evaluator.calibration.device_fit import fit_device
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.kernels import kernel_sets
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import calibration_from_json, calibration_to_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import shipped_calibration
from evaluator.pricing.calibrated import calibrated_cost

DEVICE = load_device("b200_sxm", family="theoretical")
DONOR = shipped_calibration("b200_sxm")
SLOWER = 1.3
PLAIN, FAST = "moe.nvfp4.gated.power_law_1.2", "moe.nvfp4.gated.power_law_1.2.low_latency"


def products(dtype, rows=20):
    generator = np.random.default_rng(3)
    numbers = {"m": 2.0 ** generator.integers(0, 13, rows), "n": 1024.0 * generator.integers(1, 9, rows)}
    numbers["k"] = 1024.0 * generator.integers(1, 9, rows)
    return table("gemm", numbers, {"dtype": np.full(rows, dtype)})


def experts(kernel, rows=20):
    numbers = {"tokens": 2.0 ** np.arange(rows).clip(0, 13), "hidden": 4096.0, "inter": 2048.0, "topk": 8.0}
    numbers |= {"experts": 128.0, "tp": 1.0, "ep": 1.0}
    words = {"dtype": "nvfp4", "kernel": kernel, "distribution": "power_law_1.2"}
    return table(
        "moe",
        {name: np.broadcast_to(np.asarray(value), rows).copy() for name, value in numbers.items()},
        {name: np.full(rows, value) for name, value in words.items()},
    )


def table(kind, numbers, words):
    """Kernels that take 1.3 times as long as the shipped ones."""
    bare = KernelTable(
        kind=kind, numbers=numbers, words=words, latency_s=np.ones(len(next(iter(numbers.values())))), source="made"
    )
    # Rows are sorted by content, so times are asked row by row.
    rows = [sliced(bare, row) for row in range(bare.latency_s.size)]
    return replace(bare, latency_s=np.concatenate([seconds_of(row) for row in rows]))


def sliced(whole, row):
    return replace(
        whole,
        numbers={name: column[row : row + 1] for name, column in whole.numbers.items()},
        words={name: column[row : row + 1] for name, column in whole.words.items()},
        latency_s=whole.latency_s[row : row + 1],
    )


def seconds_of(row):
    (kernel,) = kernel_sets([row], figures_of(DEVICE))
    return SLOWER * FORMS[kernel.form].seconds(DONOR.kernels[kernel.name], kernel.inputs, figures_of(DEVICE))


TABLES = {
    "gemm.bf16": products("bfloat16"),
    "gemm.fp8": products("fp8"),
    "gemm.nvfp4": products("nvfp4"),
    PLAIN: experts("trtllm_gen"),
    FAST: experts("trtllm_min_latency"),
}


@cache
def fit_of(*measured):
    """The fit to the tables of these kernels: seconds each, so that tests share them."""
    return fit_device([TABLES[name] for name in measured], DEVICE)


@pytest.mark.survival
@settings(max_examples=examples(12))
@given(st.sets(st.sampled_from(sorted(TABLES)), min_size=1))
def test_a_fit_from_any_subset_of_kernels_loses_none(measured):
    nothing_is_lost(measured)


@pytest.mark.parametrize("measured", [{"gemm.bf16"}, {FAST}, {PLAIN, FAST}])
def test_a_fit_from_some_kernels_loses_none(measured):
    nothing_is_lost(measured)


def nothing_is_lost(measured):
    tables = [TABLES[name] for name in sorted(measured)]
    fitted = fit_of(*sorted(measured))
    whole = completed(fitted, tables, DEVICE, DONOR)
    assert set(whole.kernels) == set(DONOR.kernels)
    assert set(whole.accuracy) == measured
    assert set(whole.carried) == set(DONOR.kernels) - measured - set(fitted.assumed)
    assert {name: whole.kernels[name] for name in fitted.kernels} == dict(fitted.kernels)
    families = {family_of(name) for name in measured}
    for name, factor in whole.carried.items():
        assert factor == pytest.approx(SLOWER if family_of(name) in families else 1.0, rel=1e-3)
    assert calibration_from_json(calibration_to_json(whole)) == whole


def test_the_low_latency_kernel_that_tables_lack_takes_as_much_longer_as_the_other_one():
    tables = [TABLES[PLAIN]]
    whole = completed(fit_of(PLAIN), tables, DEVICE, DONOR)
    (rows,) = kernel_sets([TABLES[FAST]], figures_of(DEVICE))
    seconds = FORMS[rows.form].seconds(whole.kernels[FAST], rows.inputs, figures_of(DEVICE))
    assert seconds == pytest.approx(rows.latency_s, rel=1e-3)


def test_an_answer_says_which_kernels_were_carried():
    tables = [TABLES["gemm.bf16"]]
    whole = completed(fit_of("gemm.bf16"), tables, DEVICE, DONOR)
    cost = calibrated_cost(replace(DEVICE, family="calibrated", calibration=calibration_to_json(whole)))
    (said,) = [line for line in cost.assumptions if "not measured" in line]
    assert said.startswith(f"{len(whole.carried)} kernels that were not measured are the shipped ones of b200_sxm")
    assert "3 gemm x 1.3" in said
    assert "30 moe x 1" in said


def test_without_a_shipped_calibration_there_is_nothing_to_carry():
    fitted = fit_of("gemm.bf16")
    assert completed(fitted, [TABLES["gemm.bf16"]], DEVICE, None) is fitted


@pytest.mark.parametrize("name", ["gemm.fp8", "prefill_attention.bf16.kv_bf16.d128", "decode_attention.gqa.kv_fp8.d64",
    "mla_prefill.kv_fp8", "mla_decode.kv_bf16", "moe.fp8_block.gated.balanced", "collective.all_reduce_custom",
    "expert_exchange.ll.dispatch.fp8", "elementwise"])  # fmt: skip
@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_scaled_coefficients_take_the_factor_at_every_shape(name, factor):
    form = form_of(name, DONOR.kernels[name])
    sizes = np.geomspace(1.0, 4096.0, 40)
    inputs = defaultdict(lambda: sizes, peak_flops_per_s=1e15, quantises=1.0, skewed=1.0)
    before = form.seconds(DONOR.kernels[name], inputs, figures_of(DEVICE))
    after = form.seconds(scaled(form, DONOR.kernels[name], factor), inputs, figures_of(DEVICE))
    if factor >= 1.0 or not set(OF_A_PEAK) & set(DONOR.kernels[name]):
        assert after == pytest.approx(factor * before, rel=1e-6)  # no message at all takes 1e-12 s, whatever the factor
    else:  # nothing reads or computes beyond its peak
        assert (after >= (1 - 1e-6) * factor * before).all()
        assert (after < before).all()
        assert (
            max(scaled(form, DONOR.kernels[name], factor)[peak] for peak in OF_A_PEAK if peak in DONOR.kernels[name])
            <= 1
        )
