"""Shipped calibrations, by the device they were measured on or carried to."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources

from evaluator.inputs.devices import calibration_record
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.engines.engine_profiles import begun_by
from evaluator.inputs.formats import Precision
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.triton_kernels import CHOSEN, TRITON, triton_kernels

FITTED_TO_SERVING = "fitted to serving points"
CALIBRATIONS_FOLDER = "inputs/devices/calibration"
FITTED = ("a100_sxm", "b200_sxm", "h100_sxm", "h200_sxm")
# Devices whose kernels were measured in part, and whose stand for the rest. Where no other device of the vendor was
# measured, its own.
PARTLY_MEASURED: Mapping[str, str | None] = {"b60": None, "l40s": "h100_sxm", "rtx_pro_6000_server": "b200_sxm"}
# Devices without measured kernels take the dimensionless parameters of the nearest generation of tensor cores. Those of
# other vendors have none of their kernels: they stay theoretical.
CARRIED: Mapping[str, str] = {
    "a100_pcie": "a100_sxm",
    "a100_sxm_40gb": "a100_sxm",
    "a30": "a100_sxm",
    "h100_pcie": "h100_sxm",
    "gh200": "h100_sxm",
    "gh200_144gb": "h200_sxm",
    "h800": "h100_sxm",
    "l4": "l40s",
    "h20": "h200_sxm",
    "h20_3e": "h200_sxm",
    "b300_sxm": "b200_sxm",
    "gb200": "b200_sxm",
    "gb300": "b200_sxm",
}


def kernels_of(profile: DeviceProfile) -> str:
    if profile.calibration is None:
        return fit_of(profile) or "data sheet"
    calibration = calibration_record.calibration_from_json(profile.calibration)
    if calibration.carried_from is not None:
        return f"carried from {calibration.carried_from}"
    if not calibration.carried:
        return "measured"
    rest = "" if calibration.donor is None else f", else carried from {calibration.donor}"
    return f"measured in part{rest}"


def fit_of(profile: DeviceProfile) -> str:
    if profile.fitted_from in {"", profile.name}:
        return FITTED_TO_SERVING if profile.fitted_from else ""
    return f"carried from {profile.fitted_from}"


def _whose(device: str) -> str | None:
    return device if device in FITTED or device in PARTLY_MEASURED else CARRIED.get(device)


@functools.cache
def shipped_calibration(device: str) -> calibration_record.Calibration | None:
    donor = _whose(device)
    if donor is None:
        return None
    file = resources.files("evaluator").joinpath(f"{CALIBRATIONS_FOLDER}/{donor}.json")
    if not file.is_file():
        return None
    calibration = calibration_record.calibration_from_json(file.read_text(encoding="utf-8"))
    return calibration if donor == device else calibration_record.carried_to(calibration, device)


@functools.cache
def shipped_calibration_text(device: str) -> str | None:
    shipped = shipped_calibration(device)
    return None if shipped is None else calibration_record.calibration_to_json(shipped)


# The device's own tables, which price engines whose kernels were not measured apart.
MEASURED_UNDER, ITS_NAME = "trtllm", "TensorRT-LLM"


def with_kernels_of(
    profile: DeviceProfile,
    serving_model: str,
    served: tuple[ModelSpec, Precision] | None = None,
    attention: str | None = None,
) -> DeviceProfile:
    """Kernels as the engine runs them on this device, where measured; for a model, those that it chooses for it.

    A profile's own calibration stays. A serving model of the user's is the engine that its name begins with."""
    engine = begun_by(serving_model)
    if engine is None or engine.kernels is None or not _as_shipped(profile):
        return profile
    instead = () if served is None else triton_kernels(engine.kernels, *served, attention)
    found = _under_engine(profile.name, engine.kernels, instead)
    return profile if found is None else replace(profile, calibration=found)


def with_any_kernels_of(profile: DeviceProfile, serving_model: str) -> tuple[DeviceProfile, ...]:
    """As the engine runs them for most models, and for those that it chooses others for."""
    usual = with_kernels_of(profile, serving_model)
    engine = begun_by(serving_model)
    if usual == profile or engine is None or engine.kernels is None:
        return (usual,)
    others = (_under_engine(profile.name, engine.kernels, instead) for instead in CHOSEN)
    return (usual, *(replace(profile, calibration=one) for one in others if one is not None))


def with_experts_at(profile: DeviceProfile, share: float) -> DeviceProfile:
    """Experts' kernels that reach this share of the device's rates."""
    if profile.calibration is None:
        return profile
    calibration = calibration_record.calibration_from_json(profile.calibration)
    reached = {"compute_efficiency": share, "memory_efficiency": share, "cache_gain": 1.0}
    kernels = {
        name: {**values, **reached} if name.startswith("moe.") else values
        for name, values in calibration.kernels.items()
    }
    return replace(profile, calibration=calibration_record.calibration_to_json(replace(calibration, kernels=kernels)))


def stands_in(profile: DeviceProfile, engine: str) -> str | None:
    """The engine whose kernels stand in for another's that were not measured here."""
    shipped = shipped_calibration(profile.name) if _as_shipped(profile) else None
    if shipped is None:
        return None
    name, _, version = (shipped.engine or MEASURED_UNDER).partition(" ")
    if engine.startswith(name):
        return None
    return f"{name} {version}" if version else ITS_NAME


def _as_shipped(profile: DeviceProfile) -> bool:
    return profile.calibration is not None and profile.calibration == shipped_calibration_text(profile.name)


@functools.cache
def _under_engine(device: str, engine: str, instead: tuple[str, ...] = ()) -> str | None:
    """`instead`: beginnings of names whose kernels are Triton's, where those were measured."""
    shipped, donor = shipped_calibration(device), _whose(device)
    theirs = _measured_under(engine, donor)
    if shipped is None or theirs is None:
        return None
    others = _measured_under(f"{engine}_{TRITON}", donor)
    if instead and others is not None:
        shipped, theirs = _without(shipped, instead), _joined(_without(theirs, instead), others, instead)
    under = replace(
        shipped,
        kernels={**shipped.kernels, **theirs.kernels},
        accuracy={**shipped.accuracy, **(theirs.accuracy if donor == device else {})},
        engine=theirs.engine,
        own=tuple(sorted(theirs.kernels)),
        carried={name: factor for name, factor in shipped.carried.items() if name not in theirs.kernels},
        includes=theirs.includes,
        apart=theirs.apart,
    )
    return calibration_record.calibration_to_json(under)


def _measured_under(folder: str, donor: str | None) -> calibration_record.Calibration | None:
    file = resources.files("evaluator").joinpath(f"{CALIBRATIONS_FOLDER}/{folder}/{donor}.json")
    return calibration_record.calibration_from_json(file.read_text(encoding="utf-8")) if file.is_file() else None


def _without(calibration: calibration_record.Calibration, names: tuple[str, ...]) -> calibration_record.Calibration:
    kept = {name: values for name, values in calibration.kernels.items() if not name.startswith(names)}
    errors = {name: error for name, error in calibration.accuracy.items() if name in kept}
    return replace(calibration, kernels=kept, accuracy=errors)


def _joined(
    theirs: calibration_record.Calibration, others: calibration_record.Calibration, names: tuple[str, ...]
) -> calibration_record.Calibration:
    taken = {name: values for name, values in others.kernels.items() if name.startswith(names)}
    errors = {name: others.accuracy[name] for name in taken if name in others.accuracy}
    return replace(theirs, kernels={**theirs.kernels, **taken}, accuracy={**theirs.accuracy, **errors})
