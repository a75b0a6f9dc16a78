"""SQL of sessions that look at measured settings: pairs that were measured as one, frontiers, unstated memory.

Not here: relations that a session looks at (queries.narrow.scope_tables)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from queries.asking.macros import JUDGED, Macro, macros, read_macros, read_sql

PAIRED = "measured_pairs"
_OF_PREDICTIONS = "predicted_"
_FRONTIER = "frontier_of(device)"


@cache
def pair_macros() -> Mapping[str, Macro]:
    """Macros in place of those of the same names."""
    return read_macros(read_sql(Path(__file__).with_suffix(".sql")))


def of_predictions(macro: str) -> str:
    """The name, from there on, of a macro that a measured one stands in place of."""
    return f"{_OF_PREDICTIONS}{macro}"


def of_both(macro: Macro) -> Macro:
    """A macro where measured settings are among the rows: these have a frontier of their own, beside the predicted."""
    if macro.name != "unbeaten_points":
        return macro
    beside = f"concat({_FRONTIER}, CASE WHEN NOT contains(point, ':') THEN ', measured' END)"
    return replace(macro, text=macro.text.replace(f"{_FRONTIER} AS", f"{beside} AS", 1))


@cache
def judged_measured() -> str:
    """The view of judged rows. A server that ran had memory enough: what is not known counts as none left."""
    text = macros()[JUDGED].sql
    before, _, select = text.partition(f"VIEW {JUDGED} AS\n")
    return (
        f"{before}VIEW {JUDGED} AS\nSELECT * REPLACE (CASE WHEN scenario_id < 0 THEN 0 ELSE memory_free_bytes END"
        f" AS memory_free_bytes) FROM (\n{select.rstrip().rstrip(';')}\n);"
    )
