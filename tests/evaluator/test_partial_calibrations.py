"""Devices whose kernels were measured in part: the command that fits them, and what they lack."""

import pytest
from shared_data import shared_data

from evaluator.inputs.devices.shipped_calibrations import PARTLY_MEASURED, shipped_calibration
from tools.partial_calibrations import SOURCES, fit_in_part, tables_of

# Held-out medians by family, in percent, of kernels of head sizes 64 and 128 and at most 32 query heads a KV head.
MEDIANS = {
    "l40s": {"gemm": 9.0, "moe": 6.5, "prefill_attention": 10.5, "decode_attention": 5.5, "collective": 5.0},
    "rtx_pro_6000_server": {
        "gemm": 7.0, "moe": 7.0, "prefill_attention": 5.0, "decode_attention": 6.5, "collective": 4.0,
    },
    "b60": {"gemm": 8.5, "moe": 8.0, "prefill_attention": 7.0, "decode_attention": 9.5, "collective": 2.0},
}  # fmt: skip


def median(values):
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


@pytest.mark.parametrize("device", sorted(PARTLY_MEASURED))
def test_held_out_medians_are_those_of_the_page(device):
    accuracy = shipped_calibration(device).accuracy
    for family, largest in MEDIANS[device].items():
        found = [
            entry.median_ape
            for name, entry in accuracy.items()
            if name.startswith(f"{family}.") and ".wide." not in name and "d192" not in name and "d256" not in name
        ]
        assert found, family
        assert median(found) <= largest, family


@pytest.mark.parametrize("device", sorted(PARTLY_MEASURED))
def test_what_a_device_lacks_is_its_donors_and_nothing_it_cannot_run(device):
    shipped, donor = shipped_calibration(device), PARTLY_MEASURED[device]
    assert shipped.carried_from is None
    assert shipped.donor == donor
    assert set(shipped.kernels) == {*shipped.accuracy, *shipped.carried, *shipped.assumed}
    if donor is not None:
        lost = set(shipped_calibration(donor).kernels) - set(shipped.kernels)
        assert all(name.endswith(str(SOURCES[device].without)) for name in lost)
        assert bool(lost) == (device == "rtx_pro_6000_server")
    else:
        assert set(shipped.carried.values()) == {1.0}


def test_a_kernel_that_the_host_started_for_each_row_is_no_table_of_b60():
    kinds = [table.source.partition("_perf")[0] for table in tables_of(shared_data("kernels_by_engine"), "b60")]
    assert kinds == ["gemm", "moe", "context_attention", "generation_attention", "oneccl"]


@pytest.mark.survival
def test_the_command_yields_the_shipped_file():
    again, shipped = fit_in_part(shared_data("kernels_by_engine"), "b60"), shipped_calibration("b60")
    for name in ("engine", "own", "includes", "apart", "assumed", "carried", "donor", "seed"):
        assert getattr(again, name) == getattr(shipped, name), name
    assert set(again.kernels) == set(shipped.kernels)
    for name, entry in shipped.accuracy.items():
        assert again.accuracy[name].median_ape == pytest.approx(entry.median_ape, abs=0.2), name
