"""Priors of log(measured / predicted) by region (`python -m tools.learning_priors serving.csv closed.csv`)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from store.light_dataclass import dataclass

Region = Literal["known", "data_sheet", "foreign", "apart", "apart_data_sheet"]
REGIONS: tuple[Region, ...] = get_args(Region)
FILE = Path(__file__).with_name("priors.json")
Two = tuple[float, float]  # of TTFT and of TPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Standard deviations by part, of TTFT and TPOT, and their correlation.

    `common`: a server at every setting; `shape`: smooth over settings, forgotten over `length`; `own`: one setting at
    every run; `noise`: one run. Few `degrees` of freedom: servers differ much; `bare` widens statements without
    runs."""

    common: Two
    common_correlation: float
    shape: Two
    shape_correlation: float
    own: Two
    own_correlation: float
    noise: Two
    length: float
    degrees: float
    bare: Two


@cache
def prior_of(region: Region) -> Prior:
    """A measured laboratory (`known`), a data-sheet device, anybody else's server (`foreign`), disaggregated ones
    `apart`."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))[region]
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    return Prior(**found)
