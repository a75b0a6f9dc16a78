"""Coefficients of sparse attention and linear states, fitted apart (tools.mixer_kernels).

Of the device, else of the one its calibration was carried from, else of the nearest by FP4. Devices of other makers
have none: data sheets price these kinds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

from evaluator.calibration.forms.base import figures_of
from evaluator.inputs.devices.calibration_record import Calibration
from evaluator.inputs.devices.device import DeviceProfile

MIXER_KERNELS = "calibration/mixer_kernels.yaml"
MIXER_KINDS = frozenset(
    {
        "index_scores", "index_choice", "sparse_attention", "block_attention", "state_scan", "state_update",
        "stream_collapse", "stream_expand", "space_scan", "space_update", "channel_scan", "channel_update",
        "encoder_attention", "entry_attention", "entry_decode", "entry_choice", "paged_scores",
        "block_decode", "block_scores", "block_choice",
        "state_convolution", "state_convolution_update", "channel_convolution", "channel_convolution_update",
        "space_convolution", "space_convolution_update",
    }
)  # fmt: skip
_OLDER, _NEWER, _MAKER = "h100_sxm", "b200_sxm", "nvidia"


# Parts of a kernel, or of several, that were measured as one: their times add up, the fixed one is that of the whole.
PARTS: Mapping[str, str] = {"block_scores": "block_decode", "block_choice": "block_decode"}
UNMEASURED: Mapping[str, str] = {"space_scan": "state_scan", "space_update": "state_update"}  # whose figures these take


def _fitted(kind: str) -> str:
    return PARTS.get(kind, UNMEASURED.get(kind, kind))


def mixer_device(profile: DeviceProfile, calibration: Calibration, kind: str) -> str | None:
    """None where nothing of its maker was measured."""
    if profile.vendor and _MAKER not in profile.vendor.lower():
        return None
    for name in (calibration.device, calibration.carried_from):
        if _fitted(kind) in _shipped().get(str(name), {}):
            return str(name)
    return _NEWER if figures_of(profile).native("fp4") == "fp4" else _OLDER


def sheet_values(profile: DeviceProfile) -> Mapping[str, float]:
    return {
        "fixed_us": profile.matrix_static_s * 1e6,
        "compute_efficiency": profile.compute_efficiency,
        "memory_efficiency": profile.memory_efficiency,
        "overlap": 4.0,
        "chain_us": 0.0,
    }


def mixer_values(device: str, kind: str) -> Mapping[str, float]:
    values: Mapping[str, float] = _shipped()[device][_fitted(kind)]["values"]
    return values


def mixer_error(device: str, kind: str) -> float:
    """Median percent error on rows held out."""
    error: float = _shipped()[device][_fitted(kind)]["accuracy"]["median_ape"]
    return error


@functools.cache
def _shipped() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    file = resources.files("evaluator").joinpath(MIXER_KERNELS)
    found: Mapping[str, Mapping[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506  both are safe loaders
    return found
