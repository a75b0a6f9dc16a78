"""Coefficients of kernels of sparse attention and linear states: fitted apart from a device's calibration.

They are those of the device, else of the one that its calibration was carried from, else of the nearest by whether it
computes in FP4. Not here: the fit (python -m tools.mixer_kernels)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

from evaluator.calibration.figures import DeviceFigures
from evaluator.inputs.devices.calibration_record import Calibration

MIXER_KERNELS = "calibration/mixer_kernels.yaml"
MIXER_KINDS = frozenset(
    {
        "index_scores", "index_choice", "sparse_attention", "block_attention", "state_scan", "state_update",
        "stream_collapse", "stream_expand", "space_scan", "space_update", "channel_scan", "channel_update",
        "encoder_attention",
    }
)  # fmt: skip
_OLDER, _NEWER = "h100_sxm", "b200_sxm"


UNMEASURED: Mapping[str, str] = {"space_scan": "state_scan", "space_update": "state_update"}  # whose figures these take


def mixer_device(calibration: Calibration, figures: DeviceFigures) -> str:
    """The device whose measured kernels price these kinds of operators on this one."""
    for name in (calibration.device, calibration.carried_from):
        if name in _shipped():
            return str(name)
    return _NEWER if figures.native("fp4") == "fp4" else _OLDER


def mixer_values(device: str, kind: str) -> Mapping[str, float]:
    """Coefficients of the roofline of one kind of kernel."""
    values: Mapping[str, float] = _shipped()[device][UNMEASURED.get(kind, kind)]["values"]
    return values


def mixer_error(device: str, kind: str) -> float:
    """Median error in percent of that roofline on rows held out."""
    error: float = _shipped()[device][UNMEASURED.get(kind, kind)]["accuracy"]["median_ape"]
    return error


@functools.cache
def _shipped() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    file = resources.files("evaluator").joinpath(MIXER_KERNELS)
    found: Mapping[str, Mapping[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506  both are safe loaders
    return found
