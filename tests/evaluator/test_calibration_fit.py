"""Fits recover known coefficients, split rows reproducibly, and say how far they are off."""

from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.calibration.device_fit import accuracy_of, chosen, fit_device, fit_kernel, left_out, training_half
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.attention import padded_pairs
from evaluator.calibration.forms.base import DeviceFigures, figures_of, p_norm, root, whole_power
from evaluator.calibration.kernels import KernelSet, kernel_sets
from evaluator.calibration.least_squares import Box, Solution, fit_log
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import (
    calibration_from_json,
    calibration_from_mapping,
    calibration_to_json,
    calibration_to_mapping,
    carried_to,
)
from evaluator.inputs.devices.device import DeviceProfile, Link
from store.errors import InputError

FIGURES = DeviceFigures(
    matrix_flops_per_s=(("bf16", 100e12), ("fp8", 200e12)),
    memory_bytes_per_s=1e12,
    link_bytes_per_s=100e9,
    compute_units=100,
)
PROFILE = DeviceProfile(
    name="toy",
    vendor="none",
    family="calibrated",
    matrix_flops_per_s=FIGURES.matrix_flops_per_s,
    vector_flops_per_s=(("bf16", 10e12),),
    memory_bytes=2**36,
    memory_bandwidth_bytes_per_s=1e12,
    grid=(8,),
    links=(Link(bandwidth_bytes_per_s=100e9, latency_s=1e-6, efficiency=1.0),),
    compute_efficiency=0.7,
    memory_efficiency=0.6,
    matrix_static_s=5e-6,
    vector_static_s=2e-6,
    communication_static_s=5e-6,
    compute_units=100,
)


def middle(form_name):
    """Parameters of a form somewhere inside their bounds."""
    return {
        parameter.name: parameter.choices[-1] if parameter.choices else parameter.starts[0]
        for parameter in FORMS[form_name].parameters
    }


def gemm_rows(values, *, noise=0.0, size=400, seed=3):
    rng = np.random.default_rng(seed)
    m, n, k = (2.0 ** rng.integers(0, 13, size), 2.0 ** rng.integers(7, 14, size), 2.0 ** rng.integers(7, 14, size))
    inputs = {
        "m": m,
        "n": n,
        "k": k,
        "weight_bytes": np.full(size, 2.0),
        "activation_bytes": np.full(size, 2.0),
        "peak_flops_per_s": np.full(size, 100e12),
        "quantises": np.zeros(size),
    }
    seconds = FORMS["matmul"].seconds(values, inputs, FIGURES) * np.exp(noise * rng.standard_normal(size))
    return KernelSet(name="gemm.bf16", form="matmul", inputs=inputs, latency_s=seconds)


def test_a_fit_recovers_the_times_it_was_made_from():
    true = middle("matmul") | {"fixed_us": 4.5, "compute_efficiency": 0.66, "memory_efficiency": 0.77}
    fit = fit_kernel(gemm_rows(true), FIGURES)
    fitted, accuracy = fit.values, fit.accuracy
    assert fit.converged
    assert accuracy.rows == 200
    assert accuracy.median_ape < 0.5
    assert accuracy.mean_ape < 1.0
    assert fitted["fixed_us"] == pytest.approx(4.5, rel=0.05)
    assert fitted["memory_efficiency"] == pytest.approx(0.77, rel=0.05)


def test_outliers_do_not_move_the_fit():
    rows = gemm_rows(middle("matmul"), noise=0.03)
    spoiled = rows.latency_s.copy()
    spoiled[::20] *= 8.0  # one row in twenty measured eight times too long
    clean, robust = fit_kernel(rows, FIGURES).values, fit_kernel(replace(rows, latency_s=spoiled), FIGURES)
    assert robust.accuracy.median_ape < 5
    for name in ("fixed_us", "memory_efficiency", "compute_efficiency"):
        assert robust.values[name] == pytest.approx(clean[name], rel=0.1)


def test_the_held_out_half_is_not_fitted():
    half = training_half(11, seed=5)
    assert half.sum() == 6
    assert (half == training_half(11, seed=5)).all()
    assert (half != training_half(11, seed=6)).any()


def test_accuracy_by_hand():
    # predicted / measured: 1.1, 0.8, 1.0 -> errors 10, 20, 0 %: median 10, mean 10, bias median(+10, -20, 0) = 0
    accuracy = accuracy_of(np.array([1.1, 0.8, 1.0]), np.ones(3))
    assert (accuracy.median_ape, accuracy.mean_ape, accuracy.bias) == (10.0, 10.0, 0.0)


def test_least_squares_finds_a_power_law():
    # y = 3 x^2 from log parameters (log 3, log 2)
    x = np.linspace(1, 5, 400)
    solution = fit_log(
        lambda point: point[0] + np.exp(point[1]) * np.log(x) - np.log(3 * x**2),
        np.zeros(2),
        Box(low=np.full(2, -5.0), high=np.full(2, 5.0), standard=np.zeros(2)),
    )
    assert np.exp(solution.point) == pytest.approx([3.0, 2.0], rel=1e-4)


def test_what_rows_say_nothing_about_is_drawn_to_its_standard_value():
    # y = 3 x, and a second parameter that changes nothing
    x = np.linspace(1, 5, 400)
    box = Box(low=np.full(2, -5.0), high=np.full(2, 5.0), standard=np.array([1.0, -2.0]))
    solution = fit_log(lambda point: point[0] + np.log(x) - np.log(3 * x), np.array([0.0, 4.0]), box)
    assert np.exp(solution.point[0]) == pytest.approx(3.0, rel=1e-3)
    assert solution.point[1] == pytest.approx(-2.0, abs=1e-6)


def test_a_later_start_must_win_by_a_margin():
    form = FORMS["elementwise"]
    first, tied, better = (
        ({"start": float(index)}, Solution(point=np.zeros(1), cost=cost))
        for index, cost in enumerate((1.0, 1.0 - 1e-5, 0.99))
    )
    assert chosen([first, tied], form) is first
    assert chosen([first, tied, better], form) is better


def test_padded_pairs_count_whole_blocks():
    # length 256, causal: key blocks 1 + 2 of 128 x 128 each = 3 x 16384 = 49152; pairs attended 256 x 257 / 2 = 32896
    pairs = padded_pairs(np.array(256.0), np.array(1.0), np.array(256 * 257 / 2))
    assert pairs == pytest.approx(49152, rel=1e-9)
    # one new token after 999 cached: one row block of 128 rows, 1000 keys plus half a block
    assert padded_pairs(np.array(1.0), np.array(1.0), np.array(1000.0)) == pytest.approx(128 * 1063.5)


def test_matmul_waves_by_hand():
    # 128 x 256 tiles only pay off at 1 tile a unit: m = 1280, n = 2560: 10 x 10 = 100 tiles = 1 wave on 100 units.
    # FLOPs a tile: 2 x 128 x 256 x (4096 + 0.001) at 1e12 x 0.5 a unit = 536.9 us; prologue and overhead negligible.
    values = middle("matmul") | {
        "fixed_us": 0.1,
        "compute_efficiency": 0.5,
        "tile_traffic": 1e-3,
        "prologue": 1e-3,
        "overlap": 12.0,
        "split_us": 30.0,
        "element_ns": 1e-4,
    }
    inputs = {
        "m": np.array([1280.0]),
        "n": np.array([2560.0]),
        "k": np.array([4096.0]),
        "weight_bytes": 2.0,
        "activation_bytes": 2.0,
        "peak_flops_per_s": 100e12,
        "quantises": 0.0,
    }
    seconds = FORMS["matmul"].seconds(values, inputs, FIGURES)
    assert seconds[0] == pytest.approx(2 * 128 * 256 * 4096 / 0.5e12 + 0.1e-6, rel=2e-3)


def test_elementwise_by_hand():
    # 2 launches x 2 us + 8 MB at 0.8 x 1 TB/s = 4 us + 10 us
    values = {"fixed_us": 2.0, "memory_efficiency": 0.8, "cache_mb": 1e4, "beyond_efficiency": 1.0}
    assert FORMS["elementwise"].seconds(
        values, {"moved_bytes": np.array(8e6), "launches": 2.0}, FIGURES
    ) == pytest.approx(14e-6)


def test_collectives_take_the_fastest_protocol():
    values = middle("collective") | {
        "fixed_us": 5.0,
        "sharpness": 20.0,
        "high_efficiency": 0.8,
        "high_us": 10.0,
        "multicast": 0.0,
    }
    inputs = {"message_bytes": np.array([1e9]), "group": 8.0, "passes": 2.0, "one_shot": 0.0}
    # 1 GB over 8: each sends 2 x 7/8 GB at 0.8 x 100 GB/s = 21.875 ms, latencies of microseconds
    assert FORMS["collective"].seconds(values, inputs, FIGURES)[0] == pytest.approx(21.875e-3, rel=0.01)
    # in the switch: 9/8 GB instead of 14/8 -> 14.06 ms
    assert FORMS["collective"].seconds(values | {"multicast": 1.0}, inputs, FIGURES)[0] == pytest.approx(
        14.0625e-3, rel=0.01
    )


@given(st.sampled_from([1.0, 2.0, 3.0, 4.0, 8.0]), st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_p_norm_lies_between_the_larger_and_the_sum(exponent, compute, memory):
    parts = p_norm(np.array(compute), np.array(memory), exponent)
    total = float(parts[0] + parts[1])
    assert max(compute, memory) * (1 - 1e-9) <= total <= (compute + memory) * (1 + 1e-9)
    assert root(whole_power(np.array(compute), exponent), exponent) == pytest.approx(compute)


@settings(max_examples=examples(25))
@given(st.integers(1, 4096), st.integers(1, 200), st.sampled_from([1.0, 2.0, 8.0]))
def test_more_work_never_takes_less_time(keys, sequences, kv_heads):
    inputs = {
        "sequences": np.array([sequences, sequences + 1, sequences], float),
        "keys": np.array([keys * sequences, keys * (sequences + 1), (keys + 64) * sequences], float),
        "heads": 32.0,
        "kv_heads": kv_heads,
        "key_dim": 128.0,
        "value_dim": 128.0,
        "stored_dim": 256.0,
        "kv_bytes": 2.0,
        "peak_flops_per_s": 100e12,
    }
    base, more_sequences, more_keys = FORMS["decode_attention"].seconds(middle("decode_attention"), inputs, FIGURES)
    assert more_sequences >= base
    assert more_keys >= base


def copy_table(rows=40):
    moved = np.geomspace(1e3, 1e9, rows)
    latency = 3e-6 + moved / 0.7e12
    return KernelTable(
        kind="elementwise",
        numbers={"moved_bytes": moved},
        words={"operation": np.full(rows, "norm")},
        latency_s=latency,
        source="made",
    )


def test_fit_device_keeps_errors_and_survives_json():
    calibration = fit_device([copy_table()], PROFILE, includes=())
    assert calibration.kernels["elementwise"]["memory_efficiency"] == pytest.approx(0.7, rel=0.05)
    assert calibration.kernels["elementwise"]["fixed_us"] == pytest.approx(3.0, rel=1e-3)
    assert calibration.accuracy["elementwise"].median_ape < 0.1
    assert calibration_from_json(calibration_to_json(calibration)) == calibration
    assert fit_device([copy_table()], PROFILE, includes=()).hash == calibration.hash


def test_kernels_nobody_measured_are_said_to_be_assumed():
    calibration = fit_device([], PROFILE)
    assert calibration.assumed == ("elementwise",)
    assert "elementwise" not in calibration.accuracy


def test_a_changed_calibration_is_refused():
    content = calibration_to_mapping(fit_device([copy_table()], PROFILE))
    content["kernels"]["elementwise"]["fixed_us"] = 1.0
    with pytest.raises(InputError, match="changed after it was fitted"):
        calibration_from_mapping(content)
    content["version"] = 0
    with pytest.raises(InputError, match="version 0"):
        calibration_from_mapping(content)


def test_carried_parameters_say_so_and_carry_no_errors():
    calibration = fit_device([copy_table()], PROFILE)
    carried = carried_to(calibration, "other")
    assert (carried.device, carried.carried_from) == ("other", "toy")
    assert carried.accuracy == {}
    assert carried.kernels == calibration.kernels


def test_the_order_of_rows_changes_nothing():
    table = copy_table()
    order = np.random.default_rng(1).permutation(40)
    shuffled = replace(
        table, numbers={"moved_bytes": table.numbers["moved_bytes"][order]}, latency_s=table.latency_s[order]
    )
    first, second = (kernel_sets([each], figures_of(PROFILE))[0] for each in (table, shuffled))
    assert (first.latency_s == second.latency_s).all()


def test_a_missing_dtype_is_widened():
    assert FIGURES.peak("fp4") == 200e12  # fp4 -> fp8
    assert FIGURES.peak("int8") == 100e12  # int8 -> bf16
    assert FIGURES.native("bf16") == "bf16"


def test_rows_left_out_are_counted_by_rule():
    layers = replace(copy_table(5), kind="mla_module")
    rules = left_out([copy_table(4), copy_table(40), layers], figures_of(PROFILE))
    assert list(rules.values()) == [0, 5]
    # as its own kernel and as the common one
    assert list(left_out([copy_table(4)], figures_of(PROFILE)).values()) == [8, 0]
