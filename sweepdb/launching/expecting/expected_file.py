"""expected.json of a folder that `launch` wrote: what runs there, and how a measurement of it is stated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.errors import InputError
from sweepdb.launching.server_command import Role

EXPECTED = "expected.json"
MEASURED_AS = "measured_as"
DEPLOYMENT = "deployment"  # as the client sees it; what validate compares, too
RESULTS = "results"
_Values = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedRole:
    """One side of what was launched."""

    role: Role
    probe: str
    instances: int
    model: str
    device: str
    input_length: int
    output_length: float
    prefix_cache_hit_rate: float
    hit_rates: Mapping[str, float]  # of what lies outside the devices, by keyword; none in files of before


def launched_roles(folder: Path) -> tuple[LaunchedRole, ...]:
    """The sides that a folder of `launch` starts."""
    said = _read(folder)
    try:
        names = LaunchedRole.__slots__[1:-1]
        return tuple(
            LaunchedRole(role=role, hit_rates=one.get("hit_rates", {}), **{name: one[name] for name in names})
            for role, one in said["roles"].items()
        )
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{folder / EXPECTED} is none of `sweepdb launch`") from None


def launched_as(path: Path) -> _Values | None:
    """Facts of whatever a launched folder, or a file of results in one, was measured on; None elsewhere."""
    if (path / EXPECTED).is_file():
        return _stated(path)
    above = [one for one in path.parents[:3] if (one / EXPECTED).is_file()]
    with suppress(InputError):  # a file of that name further up may be anybody's
        return _stated(above[0]) if above else None
    return None


def _stated(folder: Path) -> _Values:
    stated = _read(folder).get(MEASURED_AS)
    if not isinstance(stated, dict) or not all(isinstance(one, str | int | float) for one in stated.values()):
        raise InputError(f"{folder / EXPECTED} is none of `sweepdb launch`")
    return {str(name): value for name, value in stated.items()}


def results_of(path: Path) -> Path:
    """Where measurements of a launched folder lie; any other path is itself."""
    return path / RESULTS if (path / EXPECTED).is_file() else path


def _read(folder: Path) -> Mapping[str, Any]:
    path = folder / EXPECTED
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = "name a file, or a folder that `sweepdb launch` wrote"
        raise InputError(f"{folder} holds no {EXPECTED}", hint=hint) from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise InputError(f"{path} is none of `sweepdb launch`")
    return said
