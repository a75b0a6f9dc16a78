"""Device profiles: the shipped figures, names, and the sentence for each impossible file."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from evaluator_cases import upstream_device
from restated import rows

from evaluator.inputs.devices.device_profiles import (
    check_device_count,
    effective_rate,
    list_devices,
    list_shipped,
    load_device,
    profile_from_file,
    resolve,
)
from evaluator.inputs.devices.shipped_calibrations import CARRIED, FITTED, PARTLY_MEASURED, kernels_of
from store.errors import InputError

FOLDER = Path(str(resources.files("evaluator"))) / "inputs" / "devices"


def test_every_shipped_profile_is_as_its_declaration_reads_it():
    """Shipped files are read without the declaration, which takes 0.1 s to import."""
    for name in list_shipped():
        found = load_device(name, family="theoretical")
        declared = profile_from_file(FOLDER / f"{name}.yaml")
        assert (found.name, found.links) == (name, declared.links)
        # As texts: 700 and 700.0 are equal, and make two keys.
        assert repr(found) == repr(replace(declared, family="theoretical", calibration=None))


def test_s21_effective_figures_of_the_seed():
    device = load_device("TEST_DEVICE")
    assert round(effective_rate(device.matrix_flops_per_s, device.compute_efficiency) / 1e12, 2) == 247.73
    assert round(effective_rate(device.vector_flops_per_s, device.compute_efficiency) / 1e12, 2) == 7.70
    assert round(device.memory_bandwidth_bytes_per_s * device.memory_efficiency / 2**40, 3) == 0.960
    assert device.memory_bytes == 64 * 2**30
    assert device.grid == (256, 8)
    assert [link.bandwidth_bytes_per_s * link.efficiency / 1e9 for link in device.links] == pytest.approx([35, 137.2])
    other = load_device("ATLAS_800_A2_376T_64G")
    assert round(effective_rate(other.vector_flops_per_s, other.compute_efficiency) / 1e12, 2) == 15.40
    assert other.grid == (128, 8)
    assert [link.bandwidth_bytes_per_s * link.efficiency / 1e9 for link in other.links] == pytest.approx([17.5, 137.2])


def test_the_seeds_devices_have_the_figures_of_their_program():
    names = [row["device"] for row in rows("upstream_devices")]
    assert set(names) <= set(list_devices())
    for name in names:
        ours, theirs = load_device(name, family="theoretical"), upstream_device(name)
        assert ours.memory_bytes == theirs.memory_bytes
        assert ours.memory_bandwidth_bytes_per_s == pytest.approx(theirs.memory_bandwidth_bytes_per_s, rel=1e-9)
        assert dict(ours.matrix_flops_per_s)["fp16"] == pytest.approx(dict(theirs.matrix_flops_per_s)["fp16"])
        assert ours.grid == theirs.grid
        assert ours.links == pytest.approx(theirs.links)
        assert ours.communication_static_s == pytest.approx(theirs.communication_static_s)


def test_data_sheet_devices_are_there():
    assert {
        "a100_pcie", "a100_sxm", "a30", "b200_sxm", "b300_sxm", "b60", "gb200", "gb300", "gh200", "gh200_144gb", "h100_pcie",
        "h100_sxm", "h200_sxm", "l4", "l40s", "rtx_pro_6000_server",
    } <= set(list_devices())  # fmt: skip


@pytest.mark.parametrize(
    "alias, name",
    [
        ("H200", "h200_sxm"),
        ("h200-sxm", "h200_sxm"),
        ("test_device", "TEST_DEVICE"),
        ("A3", "ascend_910c"),
        ("910C", "ascend_910c"),
        ("Ironwood", "tpu7x"),
        ("Trn3", "trainium3"),
        ("gaudi-3", "gaudi3"),
        ("Intel Gaudi 3", "gaudi3"),
        ("H100 SXM5", "h100_sxm"),
        ("A100-SXM", "a100_sxm"),
        ("B200-SXM", "b200_sxm"),
        ("Ascend 910C", "ascend_910c"),
        ("Instinct MI355X", "mi355x"),
        ("TPU v7", "tpu7x"),
        ("Trainium 3", "trainium3"),
    ],
)
def test_aliases_resolve(alias, name):
    assert resolve(alias) == name


def test_an_unknown_device_lists_the_nearest():
    with pytest.raises(InputError, match="unknown device 'H300'") as caught:
        load_device("H300")
    assert "h100_sxm" in caught.value.hint


GOOD = """
name: mine
matrix_flops_per_s: {bf16: 1.0e+14}
vector_flops_per_s: {bf16: 1.0e+12}
memory_bytes: 68719476736
memory_bandwidth_bytes_per_s: 1e12
grid: [4]
links: [{bandwidth_bytes_per_s: 1.0e+11, latency_s: 1.0e-6, efficiency: 0.8}]
compute_efficiency: 0.7
memory_efficiency: 0.6
matrix_static_s: 0.0
vector_static_s: 0.0
communication_static_s: 0.0
"""


def test_a_profile_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    device = load_device(str(path))
    assert (device.name, device.family, device.memory_bandwidth_bytes_per_s) == ("mine", "theoretical", 1e12)
    check_device_count(device, 4)
    with pytest.raises(InputError, match=r"5 devices are more than mine's grid holds \(4 = 4\)"):
        check_device_count(device, 5)


@pytest.mark.parametrize(
    "before, after, complaint",
    [
        ("memory_efficiency: 0.6", "memory_efficiency: 1.6", "memory_efficiency must lie between 0.01 and 1, not 1.6"),
        ("memory_efficiency: 0.6", "", "memory_efficiency missing"),
        ("memory_efficiency", "memory_eficiency", "unknown key 'memory_eficiency'"),
        ("68719476736", "-5", "memory_bytes must lie between"),
        ("68719476736", ".nan", "memory_bytes must be a number"),
        ("grid: [4]", "grid: [4, 0]", r"line 7: grid\[1\] must be at least 1, not 0"),
        ("grid: [4]", "grid: [4, 2]", r"links must be a list with one link a grid dimension \(2\)"),
        ("{bf16: 1.0e+14}", "{bf17: 1.0e+14}", "line 3: matrix_flops_per_s: a key must be one of fp32, bf16"),
        ("latency_s: 1.0e-6, ", "", r"links\[0\]: latency_s missing"),
        ("efficiency: 0.8", "efficiency: 80", r"links\[0\].efficiency must lie between"),
        ("latency_s: 1.0e-6", "latency_s: [1]", r"line 8: links\[0\].latency_s must be a number, not \[1\]"),
        ("68719476736", "true", "line 5: memory_bytes must be a number, not True"),
        ("{bf16: 1.0e+14}", "{int8: 1.0e+14}", "line 3: matrix_flops_per_s needs a rate of bf16, fp16 or fp32"),
        ("name: mine", "name: [", "not a YAML file"),
    ],
)
def test_a_bad_profile_names_file_key_and_range(tmp_path, before, after, complaint):
    path = tmp_path / "bad.yaml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(InputError, match=complaint) as caught:
        profile_from_file(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("name", "fp8_to_bf16", "fp4", "gib"),
    [("tpu7x", 2.0, False, 192), ("trainium3", 3.751, True, 144), ("gaudi3", 1.0, False, 128)],
)
def test_data_sheets_of_other_makers(name, fp8_to_bf16, fp4, gib):
    """FP4 only where the data sheet has a dense rate of it; nothing of them was measured."""
    device = load_device(name)
    rates = dict(device.matrix_flops_per_s)
    assert device.family == "theoretical"
    assert rates["fp8"] / rates["bf16"] == pytest.approx(fp8_to_bf16, rel=1e-3)
    assert ("fp4" in rates) == fp4
    assert device.memory_bytes == gib * 2**30
    assert "assumed" in device.source


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("h100_sxm", "measured"), ("l40s", "measured in part, else carried from h100_sxm"), ("b60", "measured in part"),
     ("rtx_pro_6000_server", "measured in part, else carried from b200_sxm"), ("l4", "carried from l40s"),
     ("gh200", "carried from h100_sxm"), ("mi300x", "fitted to serving points"), ("mi325x", "carried from mi300x"),
     ("ascend_910c", "data sheet"), ("TEST_DEVICE", "data sheet")],
)  # fmt: skip
def test_a_device_says_where_its_kernels_come_from_and_nothing_crosses_vendors(name, kernels):
    profile = load_device(name)
    assert kernels_of(profile) == kernels
    by_sheet = kernels == "data sheet" or profile.fitted_from
    assert profile.family == ("theoretical" if by_sheet else "calibrated")


def test_what_is_carried_stays_within_a_vendor():
    for name, donor in [*CARRIED.items(), *PARTLY_MEASURED.items()]:
        assert donor is None or load_device(name).vendor == load_device(donor).vendor


def test_only_devices_with_kernels_of_their_vendor_are_calibrated():
    measured = {load_device(name).vendor for name in (*FITTED, *PARTLY_MEASURED)}
    for name in list_shipped():
        profile = load_device(name)
        by_sheet = kernels_of(profile) == "data sheet" or profile.fitted_from
        assert (profile.family == "theoretical") == bool(by_sheet)
        assert profile.family == "theoretical" or profile.vendor in measured
