"""One model or device profile for a person: a line a part, without Python's punctuation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = tuple[str, object]


def record_rows(record: DataclassInstance) -> Iterator[Row]:
    for item in fields(record):
        value = getattr(record, item.name)
        if value is None or value == "":
            continue
        if item.name == "calibration":
            yield from _fitted(value)
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for number, part in enumerate(value, start=1):
                yield from _part(item.name if len(value) == 1 else f"{item.name} {number}", part)
        else:
            yield item.name, _spoken(value)


def _part(name: str, part: DataclassInstance) -> Iterator[Row]:
    told = [(item.name, getattr(part, item.name)) for item in fields(part) if _worth_telling(part, item)]
    yield name, ", ".join(f"{inner} {_spoken(value)}" for inner, value in told if not is_dataclass(value))
    for inner, value in told:
        if is_dataclass(value) and not isinstance(value, type):
            yield from _part(f"{name}: {inner}", value)


def _spoken(value: object) -> object:
    if isinstance(value, tuple):
        pairs = [part if isinstance(part, tuple) else (part,) for part in value]
        return ", ".join(" ".join(str(_spoken(one)) for one in pair) for pair in pairs)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else value


def _worth_telling(record: DataclassInstance, item: Field[object]) -> bool:
    """A part is told unless it is what it would be anyway."""
    return item.default is MISSING or getattr(record, item.name) != item.default


def _fitted(calibration: str) -> Iterator[Row]:
    """A line that says that it is fitted, and lines of how well each family of kernels is.

    The coefficients are in the JSON."""
    yield "calibration", "fitted to measured kernels (--format json has the coefficients); median errors:"
    families: dict[str, list[float]] = {}
    for kind, figures in json.loads(calibration).get("accuracy", {}).items():
        if figures.get("median_ape") is not None:
            families.setdefault(kind.partition(".")[0], []).append(figures["median_ape"])
    for family, errors in families.items():
        counted = f", {len(errors)} kinds: {min(errors):.1f} to {max(errors):.1f} %" if len(errors) > 1 else ""
        yield f"  {family}", f"{median(errors):.1f} %{counted}"
