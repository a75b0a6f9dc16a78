"""Calibrations that come with the program, read by the device they are of or carried to.

Not here: what wrote them (tools.calibrations). Other people's calibrations live in the store."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

import yaml

from evaluator.inputs.devices.calibration_record import Calibration, calibration_from_mapping, carried_to

CALIBRATIONS_FOLDER = "inputs/devices/calibration"
FITTED = ("a100_sxm", "b200_sxm", "h100_sxm", "h200_sxm")
# Devices without measured kernels take the dimensionless parameters of the nearest generation of tensor cores.
CARRIED: Mapping[str, str] = {
    "a100_pcie": "a100_sxm",
    "a100_sxm_40gb": "a100_sxm",
    "a30": "a100_sxm",
    "b60": "a100_sxm",
    "ascend_910b": "a100_sxm",
    "ascend_910c": "a100_sxm",
    "h100_pcie": "h100_sxm",
    "h800": "h100_sxm",
    "l4": "h100_sxm",
    "l40s": "h100_sxm",
    "mi300x": "h100_sxm",
    "h20": "h200_sxm",
    "h20_3e": "h200_sxm",
    "b300_sxm": "b200_sxm",
    "gb200": "b200_sxm",
    "gb300": "b200_sxm",
    "rtx_pro_6000_server": "b200_sxm",
}


def shipped_calibration(device: str) -> Calibration | None:
    """The calibration that comes with the program, fitted or carried over; None where there is neither."""
    donor = device if device in FITTED else CARRIED.get(device)
    if donor is None:
        return None
    file = resources.files("evaluator").joinpath(f"{CALIBRATIONS_FOLDER}/{donor}.yaml")
    if not file.is_file():
        return None
    calibration = calibration_from_mapping(_parsed(file.read_text(encoding="utf-8")))
    return calibration if donor == device else carried_to(calibration, device)


def _parsed(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
    return content
