"""Collectives over PCIe: two protocols that change at a size, rates that fall with the hops of a group, and their fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import shared_data

from evaluator.calibration.carrying import completed, form_of, scaled
from evaluator.calibration.device_fit import fit_device, fit_kernel
from evaluator.calibration.forms import HOST_COLLECTIVE
from evaluator.calibration.forms.base import DeviceFigures, figures_of
from evaluator.calibration.kernels import kernel_sets
from evaluator.calibration.tables import KernelTable
from evaluator.graph.operators import Affine, CollectiveExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.calibration_record import calibration_from_json, calibration_to_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import shipped_calibration
from evaluator.pricing.calibrated import calibrated_cost
from tools.engine_tables import newest_tables

FIGURES = DeviceFigures(
    matrix_flops_per_s=(("bf16", 1e14),), memory_bytes_per_s=1e12, link_bytes_per_s=3.2e10, compute_units=100
)
VALUES = {"fixed_us": 5.0, "step_us": 1.0, "low_efficiency": 0.25, "low_at_4": 0.5, "low_at_8": 0.5, "high_us": 10.0,
          "high_efficiency": 0.5, "high_at_4": 0.5, "high_at_8": 0.25, "change_mb": 1.0, "staged_mb": 10.0,
          "staged_share": 1.0}  # fmt: skip


def us(message, group, passes=1.0, **values):
    inputs = {"message_bytes": np.asarray([message]), "group": np.asarray([group]), "passes": np.asarray([passes])}
    return 1e6 * float(HOST_COLLECTIVE.seconds(VALUES | values, inputs, FIGURES)[0])


@pytest.mark.parametrize(
    ("message", "group", "passes", "expected"),
    [
        # 8,000 bytes, a pair: half of it over a quarter of 32 GB/s takes 0.5 us, with a step of 1 and 5 fixed.
        (8e3, 2.0, 1.0, 5 + 1 + 0.5),
        (8e3, 2.0, 2.0, 5 + 1 + 1.0),
        # Four: three quarters of it at half the rate of a pair, three steps. Eight: seven eighths at a quarter.
        (8e3, 4.0, 1.0, 5 + 3 + 1.5),
        (8e3, 8.0, 1.0, 5 + 7 + 3.5),
        # 32 MB: half of it over half of 32 GB/s is 1,000 us; eight have an eighth of a pair's rate.
        (3.2e7, 2.0, 1.0, 5 + 1 + 10 + 1000),
        (3.2e7, 8.0, 1.0, 5 + 7 + 10 + 1750 * 8),
        # More than eight have the hops of eight.
        (3.2e7, 16.0, 1.0, 5 + 15 + 10 + 1875 * 8),
    ],
)
def test_each_protocol_takes_its_latency_and_what_is_sent_at_its_rate(message, group, passes, expected):
    assert us(message, group, passes) == pytest.approx(expected, rel=1e-3)


def test_the_protocol_changes_at_a_size_even_where_the_other_one_is_faster():
    # Of eight the second protocol has 500 MB/s here and the first 2 GB/s: four times the bytes take 15 times as long.
    before, after = (us(size, 8.0, high_at_8=0.0625) for size in (0.5e6, 2e6))
    assert before == pytest.approx(5 + 7 + 219, rel=0.01)
    assert after == pytest.approx(5 + 7 + 10 + 3500, rel=0.01)
    # And a message just above the size may take less time than one just below it, as measured on both devices.
    assert us(1.3e6, 2.0, high_efficiency=1.0, low_efficiency=0.05) < us(0.8e6, 2.0, low_efficiency=0.05)


def test_beyond_what_the_host_stages_the_rate_of_four_falls_by_the_share_and_a_pairs_does_not():
    assert us(3.2e8, 4.0, staged_share=0.5) == pytest.approx(2 * us(3.2e8, 4.0), rel=2e-3)
    assert us(3.2e8, 2.0, staged_share=0.5) == pytest.approx(us(3.2e8, 2.0), rel=1e-6)


@pytest.mark.parametrize("device", ["l40s", "rtx_pro_6000_server", "b60"])
def test_collectives_of_measured_devices_over_pcie(device):
    """Half held out. With the form of devices inside a fabric the medians were 19 to 37 % on L40S, means 60 to 77."""
    shipped = shipped_calibration(device)
    found = {name: error for name, error in shipped.accuracy.items() if name.startswith("collective.")}
    assert len(found) == (3 if device == "b60" else 5)
    for name, error in found.items():
        assert HOST_COLLECTIVE.holds(shipped.kernels[name])
        assert error.median_ape <= 8.1, name
        assert error.mean_ape <= 12.6, name


def test_the_command_yields_the_shipped_collectives():
    profile = load_device("l40s", family="theoretical")
    tables = newest_tables(shared_data("kernels_by_engine", "l40s"), ("nccl",))
    (rows,) = [one for one in kernel_sets(tables, figures_of(profile)) if one.name == "collective.all_gather"]
    assert rows.form == "host_collective"
    fit = fit_kernel(rows, figures_of(profile))
    values, error = fit.values, fit.accuracy
    shipped = shipped_calibration("l40s")
    assert values == pytest.approx(shipped.kernels[rows.name], rel=2e-3)
    assert error.median_ape == pytest.approx(shipped.accuracy[rows.name].median_ape, abs=0.1)


def all_reduce(group):
    extents = CollectiveExtents(group_size=group, stride=1, payload_bytes=Affine(tokens=8192.0))
    return Operator(kind="all_reduce", label="x", counts=(1,), collective=extents)


def test_a_ring_through_hosts_is_no_faster_between_servers_than_inside_one():
    cost = calibrated_cost(load_device("l40s"))
    sums = BatchSums(tokens=np.asarray([4096.0]), sequences=np.ones(1), pairs=np.ones(1), keys=np.ones(1))
    inside, across = (float(cost.operator_seconds(all_reduce(group), sums).total()[0]) for group in (8, 16))
    assert across > inside


def test_a_server_with_a_fabric_keeps_the_form_of_one():
    for device in ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"):
        assert not figures_of(load_device(device)).through_host
        kernels = shipped_calibration(device).kernels
        assert not any(HOST_COLLECTIVE.holds(values) for values in kernels.values())


OPERATIONS = ("custom_allreduce", "nccl_all_reduce", "nccl_all_gather", "nccl_reduce_scatter", "nccl_alltoall")


def comm_table(operations):
    sizes = 2.0 ** np.arange(9, 30)
    rows = [(one, group, size) for one in operations for group in (2.0, 4.0) for size in sizes]
    return KernelTable(
        kind="comm",
        numbers={"ngpus": np.asarray([row[1] for row in rows]), "message_bytes": np.asarray([row[2] for row in rows])},
        words={"op": np.asarray([row[0] for row in rows])},
        latency_s=np.asarray([1e-5 + row[2] * row[1] / 2e10 for row in rows]),
        source="made",
    )


@pytest.mark.parametrize("device", ["h100_pcie", "rtx_pro_6000_server"])
def test_tables_of_some_collectives_lose_none_whatever_the_form_of_the_donors(device):
    """H100 PCIe carries those of a device with a fabric: they are scaled as they are, in their own form."""
    profile, tables = load_device(device, family="theoretical"), [comm_table(OPERATIONS[:2])]
    donor = shipped_calibration(device)
    whole = completed(fit_device(tables, profile), tables, profile, donor)
    assert set(whole.kernels) >= set(donor.kernels)
    assert HOST_COLLECTIVE.holds(whole.kernels["collective.all_reduce"])
    assert HOST_COLLECTIVE.holds(whole.kernels["collective.all_gather"]) == (device != "h100_pcie")
    assert whole.carried["collective.all_gather"] == whole.carried["collective.all_to_all"]
    cost = calibrated_cost(replace(profile, family="calibrated", calibration=_json(whole)))
    sums = BatchSums(tokens=np.asarray([64.0]), sequences=np.ones(1), pairs=np.ones(1), keys=np.ones(1))
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        assert cost.operator_seconds(replace(all_reduce(2), kind=kind), sums).total()[0] > 0


def _json(calibration):
    text = calibration_to_json(calibration)
    assert calibration_from_json(text) == calibration
    return text


@given(st.sampled_from([2.0, 4.0, 8.0, 16.0]), st.floats(1.0, 1e10), st.floats(0.2, 5.0))
def test_scaled_coefficients_take_the_factor_at_every_size(group, message, factor):
    more = scaled(form_of("collective.all_gather", VALUES), VALUES, factor)
    assert us(message, group, **more) == pytest.approx(factor * us(message, group), rel=1e-6)
