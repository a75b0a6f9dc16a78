"""Device profiles by name or from a file, checked key by key.

Not here: what a profile's figures cost (evaluator.pricing.cost_model)."""

from __future__ import annotations

import difflib
import functools
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.inputs.yaml_file import is_finite, parse_yaml, read_text, shortened
from store.errors import InputError
from store.records import Family

WantedFamily = Family | Literal["auto"]
LARGEST_FILE_BYTES = 1_000_000
LONGEST_NAME = 200
DTYPES = ("fp32", "bf16", "fp16", "int8", "fp8", "fp4", "int4")
# Figures with their allowed range, inclusive: far wider than any machine, narrow enough to catch a wrong unit.
_RANGES: Mapping[str, tuple[float, float]] = {
    "memory_bytes": (2**20, 2**50),
    "memory_bandwidth_bytes_per_s": (1e6, 1e16),
    "compute_efficiency": (0.01, 1.0),
    "memory_efficiency": (0.01, 1.0),
    "matrix_static_s": (0.0, 1e-2),
    "vector_static_s": (0.0, 1e-2),
    "communication_static_s": (0.0, 1e-2),
    "compute_units": (1, 1e5),
    "watts": (0.1, 1e6),
}
_OPTIONAL = {"compute_units", "watts", "source", "aliases", "vendor", "family", "calibration"}
_KEYS = {*_RANGES, "name", "matrix_flops_per_s", "vector_flops_per_s", "grid", "links", *_OPTIONAL}
_LINK_RANGES: Mapping[str, tuple[float, float]] = {
    "bandwidth_bytes_per_s": (1e6, 1e16),
    "latency_s": (0.0, 1.0),
    "efficiency": (0.01, 1.0),
}
RATE_RANGE = (1e6, 1e19)


def load_device(name: str, *, family: WantedFamily = "auto") -> DeviceProfile:
    """The profile called `name` (or an alias, in any case), or the one in the YAML file `name`.

    `auto` is calibrated where a calibration is shipped or stands in the file, else theoretical."""
    path = Path(name).expanduser()
    profile = profile_from_file(path) if path.suffix in {".yaml", ".yml"} else _shipped(resolve(name))
    return _of_family(profile, family)


def list_devices() -> tuple[str, ...]:
    """Names of the profiles that come with the program, and of those a user added."""
    added = user_folder().glob("*.yaml") if user_folder().is_dir() else ()
    return (*list_shipped(), *sorted((path.stem for path in added), key=str.lower))


def list_shipped() -> tuple[str, ...]:
    """Names of the profiles that come with the program."""
    folder = resources.files("evaluator") / "inputs" / "devices"
    return tuple(
        sorted(
            (item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")), key=str.lower
        )
    )


def user_folder() -> Path:
    """Where `sweepdb devices add` keeps profiles: beside a user's other application data."""
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "sweepdb" / "devices"


def add_device(path: Path) -> DeviceProfile:
    """Keep a checked profile under its name; a shipped name or a different profile of that name is refused."""
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
    """The profile name that `name` or an alias of it stands for."""
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
    """The profile in a YAML file, every key checked."""
    text = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="a device profile")
    return profile_from_text(text, str(path))


def profile_from_text(text: str, where: str) -> DeviceProfile:
    """The profile in YAML text; `where` names its file in errors."""
    data = parse_yaml(text, where)
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: expected a mapping of profile keys")
    return _checked(data, where)


def _checked(data: Mapping[str, Any], where: str) -> DeviceProfile:
    unknown = sorted(shortened(key) for key in data if key not in _KEYS)
    if unknown:
        nearest = difflib.get_close_matches(unknown[0].strip("'"), _KEYS, n=1)
        raise InputError(f"{where}: unknown key {unknown[0]}", hint=f"did you mean {nearest[0]}?" if nearest else None)
    missing = sorted(_KEYS - _OPTIONAL - set(data))
    if missing:
        raise InputError(f"{where}: {', '.join(missing)} missing", hint="docs/howto/add-a-device.md explains every key")
    name = data["name"]
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"{where}: name must be a text of at most {LONGEST_NAME} printable characters")
    numbers = {key: _number(data[key], f"{where}: {key}", limits) for key, limits in _RANGES.items() if key in data}
    grid, links = _interconnect(data, where)
    return DeviceProfile(
        name=data["name"],
        vendor=str(data.get("vendor", "")),
        family=_choice(data.get("family", "theoretical"), get_args(Family), f"{where}: family"),
        matrix_flops_per_s=_rates(data["matrix_flops_per_s"], f"{where}: matrix_flops_per_s"),
        vector_flops_per_s=_rates(data["vector_flops_per_s"], f"{where}: vector_flops_per_s"),
        memory_bytes=int(numbers.pop("memory_bytes")),
        compute_units=int(numbers.pop("compute_units")) if "compute_units" in numbers else None,
        grid=grid,
        links=links,
        source=str(data.get("source", "")),
        calibration=_calibration(data.get("calibration"), f"{where}: calibration"),
        **numbers,
    )


def _calibration(value: object, where: str) -> str | None:
    if value is None:
        return None
    from evaluator.inputs.devices.calibration_record import calibration_from_mapping, calibration_to_json

    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping, as sweepdb calibrate writes it")
    return calibration_to_json(calibration_from_mapping(value, where))


def _number(value: object, where: str, limits: tuple[float, float]) -> float:
    # YAML reads 1e12 without a dot as text; it is plain what was meant.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise InputError(f"{where} must be a number, not {shortened(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        raise InputError(f"{where} must be a number, not {shortened(value)}")
    low, high = limits
    if not low <= value <= high:
        raise InputError(f"{where} must lie between {low:g} and {high:g}, not {value:g}")
    return float(value)


def _choice(value: object, choices: tuple[str, ...], where: str) -> Any:  # noqa: ANN401  one of a closed set
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{where} must be one of {', '.join(choices)}, not {shortened(value)}")
    return value


def _rates(value: object, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{where} must map dtypes to FLOP/s", hint=f"dtypes: {', '.join(DTYPES)}")
    rates = []
    for dtype, rate in value.items():
        _choice(dtype, DTYPES, f"{where}: dtype")
        rates.append((str(dtype), _number(rate, f"{where}.{dtype}", RATE_RANGE)))
    if not {"bf16", "fp16", "fp32"} & {dtype for dtype, _ in rates}:
        raise InputError(f"{where} needs a rate of bf16, fp16 or fp32")
    return tuple(sorted(rates))


def _interconnect(data: Mapping[str, Any], where: str) -> tuple[tuple[int, ...], tuple[Link, ...]]:
    grid, links = data["grid"], data["links"]
    if not isinstance(grid, list) or not grid or not all(isinstance(extent, int) and extent >= 1 for extent in grid):
        raise InputError(f"{where}: grid must be a list of whole numbers of at least 1, outermost first")
    if not isinstance(links, list) or len(links) != len(grid):
        raise InputError(f"{where}: links must be a list with one link a grid dimension ({len(grid)})")
    return tuple(grid), tuple(_link(link, f"{where}: links[{index}]") for index, link in enumerate(links))


def _link(data: object, where: str) -> Link:
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must be a mapping")
    unknown = sorted(shortened(key) for key in data if key not in {*_LINK_RANGES, "topology"})
    missing = sorted(set(_LINK_RANGES) - set(data))
    if unknown or missing:
        raise InputError(f"{where}: " + (f"unknown key {unknown[0]}" if unknown else f"{', '.join(missing)} missing"))
    numbers = {key: _number(data[key], f"{where}.{key}", limits) for key, limits in _LINK_RANGES.items()}
    topology = _choice(data.get("topology", "clos"), ("clos", "full_mesh"), f"{where}.topology")
    return Link(topology=topology, **numbers)


@functools.cache
def _shipped(name: str) -> DeviceProfile:
    if name not in list_shipped():
        return profile_from_file(user_folder() / f"{name}.yaml")
    file = resources.files("evaluator") / "inputs" / "devices" / f"{name}.yaml"
    return profile_from_text(file.read_text(encoding="utf-8"), f"profiles/{name}.yaml")


def _of_family(profile: DeviceProfile, family: WantedFamily) -> DeviceProfile:
    if family == "theoretical":
        return replace(profile, family="theoretical", calibration=None)
    calibration = profile.calibration
    if calibration is None:
        from evaluator.inputs.devices.shipped_calibrations import shipped_calibration

        shipped = shipped_calibration(profile.name)
        if shipped is not None:
            from evaluator.inputs.devices.calibration_record import calibration_to_json

            calibration = calibration_to_json(shipped)
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

    spellings: dict[str, str] = {}
    folder = resources.files("evaluator") / "inputs" / "devices"
    for name in list_devices():
        spellings[_folded(name)] = name
    for name in list_shipped():
        # The aliases line alone: parsing thirty files would cost more than a question.
        for line in (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
            if line.startswith("aliases:"):
                spellings |= {_folded(alias): name for alias in yaml.safe_load(line)["aliases"]}
    return spellings


def effective_rate(
    rates: tuple[tuple[str, float], ...], efficiency: float, dtypes: tuple[str, ...] = ("bf16", "fp16", "fp32")
) -> float:
    """Peak times efficiency of the first dtype there is, in FLOP/s."""
    known = dict(rates)
    return next(known[dtype] for dtype in dtypes if dtype in known) * efficiency


def check_device_count(profile: DeviceProfile, devices: int) -> None:
    """Refuse an instance larger than the interconnect grid."""
    most = math.prod(profile.grid)
    if devices > most:
        raise InputError(
            f"{devices} devices are more than {profile.name}'s grid holds"
            f" ({' x '.join(map(str, profile.grid))} = {most})",
            hint="lower `num_devices`, or bring a profile with a larger grid by `device=FILE.yaml`",
        )
