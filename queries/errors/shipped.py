"""Shipped errors: laboratories' regions, and whose kernels a device's calibration has."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Final

from store.light_dataclass import dataclass

FOLDER = Path(__file__).parents[1] / "ledger"
SUMMARY = FOLDER / "summary.csv"
DEVICES = FOLDER / "devices.csv"
POINTS = FOLDER / "errors.csv"  # behind the summary; read by tests and by whoever wants to state it anew
ANY = "any"
ASKED: Final = "asked"  # basis: a question says plan, formats, lengths, users and a token budget
KNOWN: Final = "known"  # basis: the source's client, launch and routing are said too
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """`reach`: `device` itself, or all with its kernels."""

    family: str
    convention: str
    serving_model: str
    basis: str
    reach: str
    device: str
    kind: str
    phase: str
    engine: str
    metric: str
    points: int
    pairs: int
    agreeing: int  # pairs whose own median error has the sign of the bias
    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    quantiles: str  # of log(measured / predicted) at LEVELS
    engines: str  # that served the points, joined by +


REGION_NAMES = tuple(item.name for item in fields(Region))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedDevice:
    """Keys are beginnings of content keys, empty where it has no such profile."""

    device: str
    calibrated_from: str  # itself, where its own kernels were measured or it has no calibration
    calibrated_key: str
    theoretical_key: str
    fitted_from: str = ""  # itself or another device, to whose serving points its data sheet's shares are fitted


@cache
def _lines() -> Sequence[str]:
    return sorted(SUMMARY.read_text(encoding="utf-8").splitlines())


def region(key: Key) -> Mapping[str, str] | None:
    """By its first values; a question needs a few of 1,600, and none is quoted."""
    begins = "".join(f"{value}," for value in key)
    place = bisect_left(_lines(), begins)
    line = _lines()[place] if place < len(_lines()) else ""
    return dict(zip(REGION_NAMES, line.split(","), strict=True)) if line.startswith(begins) else None


@cache
def devices() -> Mapping[str, ShippedDevice]:
    with DEVICES.open(encoding="utf-8", newline="") as file:
        return {row["device"]: ShippedDevice(**row) for row in csv.DictReader(file)}
