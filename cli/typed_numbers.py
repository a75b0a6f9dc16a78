"""Numbers as typed, with a unit or a percent sign."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from store.errors import InputError
from sweepdb import asking, evaluating, planning

_WITH_UNIT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([a-zµ%/]+)", re.ASCII | re.IGNORECASE)
_SHOWN = 80  # characters of what was typed, in an error
# What a unit is of the option's own. GB of memory is what the option's name says.
_SCALES: Mapping[str, Mapping[str, float]] = {
    "ms": {"ms": 1, "msec": 1, "s": 1000, "sec": 1000, "us": 0.001, "min": 60_000},
    "GiB": {"gib": 1, "gb": 1, "g": 1},
    "GB/s": {"gb/s": 1, "gbps": 0.125, "tb/s": 1000},
    "ratio": {"%": 0.01},
    "none": {"%": 0.01},
}


def number_typed(text: str, param: Any) -> int | float:  # noqa: ANN401  Typer's own type
    kind, name = param.type_descriptor.annotation, str(param.opts[0])
    info = param.type_descriptor.parameter_info
    unit = _unit(str(param.name))
    found = _read(text, kind, unit)
    if found is not None:
        low, high = getattr(info, "min", None), getattr(info, "max", None)
        if low is not None and not found >= low:
            raise InputError(f"{name} must be at least {low:g}, not {text:.{_SHOWN}}.")
        if high is not None and not found <= high:
            raise InputError(f"{name} must be at most {high:g}, not {text:.{_SHOWN}}.")
        return found
    what = "a whole number" if kind is int else "a number"
    told = f" of {unit}" if unit not in {"none", "ratio"} else ""
    raise InputError(f"{name} must be {what}{told}, not {text[:_SHOWN]!r}.", hint=_hint(text, str(param.name), unit))


def _read(text: str, kind: Callable[[str], Any], unit: str) -> int | float | None:
    match = _WITH_UNIT.fullmatch(text.strip())
    scale = _SCALES.get(unit, {}).get(match[2].lower()) if match else None
    if match and scale is not None and kind is float:
        return float(match[1]) * scale
    try:
        return kind(text) if text.isascii() else None  # Python reads digits of every alphabet
    except ValueError:
        return None


def _hint(text: str, keyword: str, unit: str) -> str | None:
    if "," in text:
        asked = keyword.removesuffix("_limit")
        again = f", or `sweepdb query sensitivity --vary {asked}` for every limit at once" if asked != keyword else ""
        return f"It takes one value. Ask once for each{again}."
    if re.fullmatch(r"[0-9.]+[kKmM]", text):
        return "Write the number out, such as 4000 or 4096."
    if unit not in {"none", "ratio"}:
        return f"Such as 50, which is in {unit}{', or 50ms or 0.05s' if unit == 'ms' else ''}."
    return None


def _unit(keyword: str) -> str:
    if keyword.endswith("_gb_per_s"):
        return "GB/s"
    for table in (planning.plan_options(), asking.option_table(), evaluating.options_by_keyword()):
        if keyword in table:
            return table[keyword].option.unit
    return "none"
