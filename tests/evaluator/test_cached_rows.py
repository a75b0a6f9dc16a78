"""Measured rows that a device's cache answers: fitted at a rate of their own, and no kernel of a step is priced by it."""

from dataclasses import replace

import numpy as np
import pytest
from shared_data import shared_data

from evaluator.calibration.carrying import form_of, scaled
from evaluator.calibration.device_fit import fit_kernel
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.base import CACHED, DeviceFigures, figures_of, memory_seconds
from evaluator.calibration.kernels import REPEATED, KernelSet, kernel_sets
from evaluator.graph.operators import Affine, AttentionExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.identity import device_record
from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import (
    CARRIED,
    FITTED,
    PARTLY_MEASURED,
    shipped_calibration,
    with_kernels_of,
)
from evaluator.inputs.engines.engine_profiles import fitted_engine, list_engines
from evaluator.pricing.calibrated import calibrated_cost
from tools.engine_tables import newest_tables

FIGURES = DeviceFigures(
    matrix_flops_per_s=(("bf16", 1e15),),
    memory_bytes_per_s=2e12,
    link_bytes_per_s=1e11,
    compute_units=128,
    cache_bytes=50e6,
)
MEMORY, GAIN = 0.8, 3.0
MEASURED_APART = sorted({kernels for name in list_engines() if (kernels := fitted_engine(name).kernels)})


def decodes(figures=FIGURES, *, size=400, **values):
    """Decodes of one device, timed in a loop: half of them read less than its cache holds."""
    rng = np.random.default_rng(5)
    inputs = {
        "sequences": 2.0 ** rng.integers(0, 8, size),
        "heads": np.full(size, 32.0),
        "kv_heads": np.full(size, 8.0),
        "key_dim": np.full(size, 128.0),
        "value_dim": np.full(size, 128.0),
        "stored_dim": np.full(size, 256.0),
        "kv_bytes": np.full(size, 2.0),
        "peak_flops_per_s": np.full(size, 1e15),
        "repeated": np.ones(size),
    }
    inputs["keys"] = inputs["sequences"] * 2.0 ** rng.integers(6, 15, size)
    form = FORMS["decode_attention"]
    true = {
        parameter.name: parameter.choices[0] if parameter.choices else parameter.starts[0]
        for parameter in form.parameters
    }
    true |= {"memory_efficiency": MEMORY, CACHED.name: GAIN, **values}
    return KernelSet(name="made", form="decode_attention", inputs=inputs, latency_s=form.seconds(true, inputs, figures))


def test_bytes_by_hand():
    # 30 MB at 0.8 of 2e12 bytes/s are 18.75 us; from a cache of 50 MB, 1.5 times as fast, 12.5 us. 60 MB: 37.5 us.
    values = {"memory_efficiency": 0.8, CACHED.name: 1.5}
    moved, loop = np.array([30e6, 60e6]), {"repeated": np.ones(2)}
    assert memory_seconds(moved, values, loop, FIGURES) == pytest.approx([12.5e-6, 37.5e-6])
    # What a loop reads besides fills the cache, too; a step repeats nothing; an unknown cache holds nothing.
    assert memory_seconds(moved, values, loop, FIGURES, again=moved + 30e6)[0] == pytest.approx(18.75e-6)
    assert memory_seconds(moved, values, {}, FIGURES)[0] == pytest.approx(18.75e-6)
    assert memory_seconds(moved, values, loop, replace(FIGURES, cache_bytes=0.0))[0] == pytest.approx(18.75e-6)
    # Profiles that were fitted before have no such rate.
    assert memory_seconds(moved, {"memory_efficiency": 0.8}, loop, FIGURES)[0] == pytest.approx(18.75e-6)


def test_a_fit_tells_memory_from_a_cache():
    fit = fit_kernel(decodes(), FIGURES)
    found, accuracy = fit.values, fit.accuracy
    assert found["memory_efficiency"] == pytest.approx(MEMORY, rel=0.02)
    assert found[CACHED.name] == pytest.approx(GAIN, rel=0.1)
    assert accuracy.median_ape < 1.0
    # Where nobody says what the cache holds, one rate has to do for both.
    worse = fit_kernel(decodes(), replace(FIGURES, cache_bytes=0.0)).accuracy
    assert worse.mean_ape > 5 * accuracy.mean_ape


def test_a_table_without_a_cache_is_fitted_as_it_was():
    """Operands from a pool larger than any cache: the cache gains nothing, and nothing else moves."""
    fit = fit_kernel(decodes(cache_gain=1.0), FIGURES)
    found, accuracy = fit.values, fit.accuracy
    assert found["memory_efficiency"] == pytest.approx(MEMORY, rel=0.02)
    assert found[CACHED.name] == pytest.approx(1.0, rel=0.02)
    assert accuracy.median_ape < 1.0


def test_a_step_reads_from_memory_whatever_the_cache_holds():
    attention = AttentionExtents(query_heads=32, kv_heads=8, head_dim=128, value_head_dim=128, kv_bits=16)
    operator = Operator(kind="attention_decode", label="x", counts=(1,), attention=attention, bytes_read=Affine())
    sums = BatchSums(tokens=np.ones(1), sequences=np.full(1, 8.0), pairs=np.full(1, 8192.0), keys=np.full(1, 8192.0))
    device = load_device("rtx_pro_6000_server")
    seconds = [
        calibrated_cost(replace(device, cache_bytes=size)).operator_seconds(operator, sums).total()
        for size in (0, device.cache_bytes)
    ]
    assert seconds[0] == seconds[1]
    least = 8192 * 8 * 256 * 2 / device.memory_bandwidth_bytes_per_s  # 33.6 MB, a quarter of the cache
    assert seconds[1] > least


def test_the_size_of_a_cache_is_of_no_key():
    device = load_device("rtx_pro_6000_server")
    bare = replace(device, cache_bytes=0, cache_source="")
    assert device_record(device).key == device_record(bare).key
    assert device_record(device).spec != device_record(bare).spec


@pytest.mark.parametrize("device", [*FITTED, *PARTLY_MEASURED])
def test_measured_devices_state_their_cache_and_its_source(device):
    profile = load_device(device)
    assert 2**24 < profile.cache_bytes < 2**28
    assert f"{profile.cache_bytes // 2**20} MB" in profile.cache_source


@pytest.mark.parametrize("device", [*FITTED, *PARTLY_MEASURED, *CARRIED])
@pytest.mark.parametrize("engine", ["", *MEASURED_APART])
def test_no_kernel_reads_faster_than_memory(device, engine):
    profile = load_device(device)
    kernels = calibration_from_json((with_kernels_of(profile, engine) if engine else profile).calibration).kernels
    fast = {
        name: values["memory_efficiency"] for name, values in kernels.items() if values.get("memory_efficiency", 0) > 1
    }
    assert not fast


@pytest.mark.parametrize("device", ["l40s", "rtx_pro_6000_server"])
@pytest.mark.parametrize("engine", ["", *MEASURED_APART])
def test_decodes_of_large_caches_are_read_as_large_ones_were_measured(device, engine):
    """Rows that no cache holds reach 80 to 88 % of the data sheet's bandwidth there; fits of all rows said 100 %."""
    profile = load_device(device)
    kernels = calibration_from_json((with_kernels_of(profile, engine) if engine else profile).calibration).kernels
    common = [f"decode_attention.{one}.kv_{kv}.d128" for one in ("mha", "gqa") for kv in ("bf16", "fp8")]
    assert all(0.7 < kernels[name]["memory_efficiency"] < 0.98 for name in common), {
        name: kernels[name]["memory_efficiency"] for name in common
    }


@pytest.mark.parametrize("device", ["l40s", "rtx_pro_6000_server"])
def test_tables_show_the_cache(device):
    """Decodes that the cache holds pass the data sheet's bandwidth, those beyond it never do."""
    profile = load_device(device, family="theoretical")
    tables = newest_tables(shared_data("kernels_by_engine") / device, ("trtllm",))
    sets = {one.name: one for one in kernel_sets(tables, figures_of(profile))}
    for name in ("decode_attention.gqa.kv_bf16.d128", "decode_attention.mha.kv_bf16.d128"):
        x = sets[name].inputs
        moved = x["keys"] * x["kv_heads"] * x["stored_dim"] * x["kv_bytes"]
        share = moved / sets[name].latency_s / profile.memory_bandwidth_bytes_per_s
        held = moved <= profile.cache_bytes
        assert share[held].max() > 2.0
        assert share[moved > 1.5 * profile.cache_bytes].max() < 0.92
        assert (x["repeated"] == 1.0).all()


def test_a_scaled_kernel_stays_within_what_a_fit_may_find():
    values = shipped_calibration("b200_sxm").kernels["decode_attention.gqa.kv_bf16.d128"]
    form = form_of("decode_attention.gqa.kv_bf16.d128", values)
    faster = scaled(form, values, 0.5)
    assert faster["memory_efficiency"] == 1.0
    assert faster["fixed_us"] == pytest.approx(0.5 * values["fixed_us"])
    slower = scaled(form, values, 2.0)
    assert slower["memory_efficiency"] == pytest.approx(0.5 * values["memory_efficiency"])
    old = {name: value for name, value in values.items() if name != CACHED.name}
    assert set(scaled(form, old, 2.0)) == set(old)


def test_kernels_that_loops_repeat_are_those_whose_form_knows_a_cache():
    assert {name for name, form in FORMS.items() if CACHED in form.parameters} == REPEATED
