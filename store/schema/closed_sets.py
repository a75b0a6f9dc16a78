"""Words that a column may hold and no others.

Not here: records (store.records), which are many, and which nobody needs who only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Phase = Literal["prefill", "decode", "aggregated"]
Convention = Literal["physical", "upstream"]
Status = Literal["ok", "illegal", "unsupported", "error"]
SweepKind = Literal["request", "validation", "import"]
ShardState = Literal["waiting", "stored", "failed"]
SweepOutcome = Literal["finished", "interrupted", "failed"]
LoadStatus = Literal["stable", "saturated"]
Family = Literal["theoretical", "calibrated"]
FormulaModel = Literal["waves", "seed002"]  # serving models that are formulas; every other name is an engine's
FORMULA_MODELS: tuple[FormulaModel, ...] = get_args(FormulaModel)
TierName = Literal["host", "ssd", "remote"]  # where keys lie outside the devices, from the nearest on
TIER_PLACES: Mapping[TierName, str] = {
    "host": "the hosts' memory",
    "ssd": "the hosts' SSDs",
    "remote": "a remote store",
}
