"""Device profiles by name or from a file, checked key by key."""

from __future__ import annotations

import difflib
import functools
import math
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.inputs.yaml_checking import checked_yaml
from evaluator.inputs.yaml_file import parse_mapping, read_text
from store.errors import InputError
from store.schema import Family

WantedFamily = Family | Literal["auto"]
LARGEST_FILE_BYTES = 1_000_000


def load_device(name: str, *, family: WantedFamily = "auto") -> DeviceProfile:
    """`name` is a profile, an alias or a YAML file. `auto`: calibrated where a calibration is there."""
    path = Path(name).expanduser()
    profile = profile_from_file(path) if path.suffix in {".yaml", ".yml"} else _shipped(resolve(name))
    return _of_family(profile, family)


def list_devices() -> tuple[str, ...]:
    added = user_folder().glob("*.yaml") if user_folder().is_dir() else ()
    return (*list_shipped(), *sorted((path.stem for path in added), key=str.lower))


def list_shipped() -> tuple[str, ...]:
    folder = resources.files("evaluator") / "inputs" / "devices"
    return tuple(
        sorted(
            (item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")), key=str.lower
        )
    )


def user_folder() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "sweepdb" / "devices"


def add_device(path: Path) -> DeviceProfile:
    """Refuses shipped names, and a name taken by another profile."""
    profile = profile_from_file(path)
    if _folded(profile.name) in _spellings() and profile.name in list_shipped():
        raise InputError(f"{path}: a profile called {profile.name} is shipped", hint="give yours another name")
    if not all(part.isalnum() for part in profile.name.replace("-", "_").replace(".", "_").split("_")):
        raise InputError(f"{path}: name may hold letters, digits, dots, - and _ only, not {profile.name!r}")
    target = user_folder() / f"{profile.name}.yaml"
    if target.exists() and profile_from_file(target) != profile:
        raise InputError(
            f"another profile called {profile.name} was added before: {target}", hint="remove that file first"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".part")
    temporary.write_bytes(path.read_bytes())
    temporary.replace(target)
    _spellings.cache_clear()
    return profile


def resolve(name: str) -> str:
    if name in list_shipped():  # as most are spelt: aliases are in the files
        return name
    spellings = _spellings()
    found = spellings.get(_folded(name))
    if found is None:
        nearest = difflib.get_close_matches(_folded(name), spellings, n=3, cutoff=0.4)
        known = ", ".join(dict.fromkeys(spellings[item] for item in nearest))
        hint = (
            f"nearest known: {known}"
            if known
            else "sweepdb devices lists what is known; `device=FILE.yaml` brings your own"
        )
        raise InputError(f"unknown device {name!r}", hint=hint)
    return found


def profile_from_file(path: Path) -> DeviceProfile:
    text = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="a device profile")
    return profile_from_text(text, str(path))


def profile_from_text(text: str, where: str) -> DeviceProfile:
    from evaluator.inputs.devices.device_file import DeviceKeys  # pydantic, which no shipped device needs

    found = checked_yaml(DeviceKeys, text, where, hint="docs/howto/describe-what-you-serve.md explains every key")
    return _from_mapping(found.model_dump(exclude_unset=True), where)


def _from_mapping(content: Mapping[str, Any], where: str) -> DeviceProfile:
    values = {"vendor": "", "family": "theoretical", **content}
    values.pop("aliases", None)
    values = {name: value for name, value in values.items() if value is not None}
    rates = {name: tuple(sorted((key, float(rate)) for key, rate in values[name].items())) for name in _RATES}
    whole = {name: int(float(values[name])) for name in _WHOLE if name in values}
    return DeviceProfile(
        **_in_floats(DeviceProfile, values)
        | rates
        | whole
        | {
            "grid": tuple(values["grid"]),
            "links": tuple(Link(**_in_floats(Link, link)) for link in values["links"]),
            "calibration": _calibration(values.get("calibration"), f"{where}: calibration"),
        }
    )


_RATES = ("matrix_flops_per_s", "vector_flops_per_s")
_WHOLE = ("memory_bytes", "compute_units", "cache_bytes")


def _in_floats(kind: type[DeviceProfile | Link], values: Mapping[str, Any]) -> dict[str, Any]:
    floats = {field.name for field in fields(kind) if str(field.type).startswith("float")}
    return {name: float(value) if name in floats else value for name, value in values.items()}


def _calibration(value: Mapping[str, Any] | None, where: str) -> str | None:
    if value is None:
        return None
    from evaluator.inputs.devices.calibration_record import calibration_from_mapping, calibration_to_json

    return calibration_to_json(calibration_from_mapping(value, where))


@functools.cache
def _shipped(name: str) -> DeviceProfile:
    if name not in list_shipped():
        return profile_from_file(user_folder() / f"{name}.yaml")
    file = resources.files("evaluator") / "inputs" / "devices" / f"{name}.yaml"
    return _from_mapping(parse_mapping(file.read_text(encoding="utf-8"), file.name), file.name)


def _of_family(profile: DeviceProfile, family: WantedFamily) -> DeviceProfile:
    if family == "theoretical":
        return replace(profile, family="theoretical", calibration=None)
    calibration = profile.calibration
    if calibration is None:
        from evaluator.inputs.devices.shipped_calibrations import shipped_calibration_text

        calibration = shipped_calibration_text(profile.name)
    if calibration is not None:
        return replace(profile, family="calibrated", calibration=calibration)
    if family == "calibrated":
        raise InputError(f"device {profile.name} has no calibration", hint="make one with: sweepdb calibrate")
    return profile


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")


@functools.cache
def _spellings() -> Mapping[str, str]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    spellings: dict[str, str] = {}
    folder = resources.files("evaluator") / "inputs" / "devices"
    for name in list_devices():
        spellings[_folded(name)] = name
    for name in list_shipped():
        # The aliases line alone: parsing thirty files would cost more than a question.
        for line in (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
            if line.startswith("aliases:"):
                aliases = yaml.load(line, Loader=loader)["aliases"]  # noqa: S506  both are safe
                spellings |= {_folded(alias): name for alias in aliases}
    return spellings


def effective_rate(
    rates: tuple[tuple[str, float], ...], efficiency: float, dtypes: tuple[str, ...] = ("bf16", "fp16", "fp32")
) -> float:
    known = dict(rates)
    return next(known[dtype] for dtype in dtypes if dtype in known) * efficiency


def check_device_count(profile: DeviceProfile, devices: int) -> None:
    most = math.prod(profile.grid)
    if devices > most:
        raise InputError(
            f"{devices} devices are more than {profile.name}'s grid holds"
            f" ({' x '.join(map(str, profile.grid))} = {most})",
            hint="lower `num_devices`, or bring a profile with a larger grid by `device=FILE.yaml`",
        )
