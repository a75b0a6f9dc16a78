"""Whose kernels price sparse attention, linear states and residual streams on a device."""

import numpy as np
import pytest

from evaluator.calibration.mixer_kernels import mixer_device
from evaluator.graph.operators import Affine, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.pricing.calibrated import calibrated_cost


@pytest.mark.parametrize(
    ("device", "kind", "whose"),
    [
        ("h200_sxm", "index_scores", "h200_sxm"),
        ("l40s", "state_scan", "l40s"),
        ("l40s", "index_scores", "h100_sxm"),
        ("rtx_pro_6000_server", "index_scores", "b200_sxm"),
        ("rtx_pro_6000_server", "channel_update", "rtx_pro_6000_server"),
        ("l4", "block_attention", "l40s"),
        ("l4", "channel_update", "h100_sxm"),
        ("b60", "state_scan", None),
    ],
)
def test_each_kind_takes_the_devices_own_kernels_else_the_nearest_of_its_maker(device, kind, whose):
    profile = load_device(device)
    assert mixer_device(profile, calibration_from_json(profile.calibration), kind) == whose


def test_a_device_of_another_maker_prices_them_by_its_data_sheet():
    cost = calibrated_cost(load_device("b60"))
    said = cost.said_of_mixers({"state_scan", "index_scores", "norm"})
    assert said == "index_scores, state_scan: by the device's data sheet, apart from the calibration"
    # 3 us to start, and 1e9 bytes at half of 456 GB/s.
    bare = Operator(kind="state_update", label="x", counts=(1,), bytes_read=Affine(constant=10**9))
    sums = BatchSums(tokens=np.ones(1), sequences=np.ones(1), pairs=np.ones(1), keys=np.ones(1))
    assert cost.operator_seconds(bare, sums).total() == pytest.approx(3e-6 + 1e9 / (0.5 * 4.56e11), rel=1e-6)
