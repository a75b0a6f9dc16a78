"""The picture of explained steps: bars by kind of operator, and of the longest operators.

Not here: explaining (sweepdb.explaining)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking import picture_looks

if TYPE_CHECKING:
    from queries.asking import Json
    from sweepdb.explaining import Explanation

_SPECIFICATION = Path(__file__).parent / "explained.vl.json"


def explained_picture(explanation: Explanation) -> dict[str, Json]:
    """The steps of one or two probes as a Vega-Lite specification with its rows."""
    spec: dict[str, Json] = json.loads(_SPECIFICATION.read_text(encoding="utf-8"))
    return {**spec, **picture_looks(), "data": {"values": list(_rows(explanation))}}


def _rows(explanation: Explanation) -> Iterator[Json]:
    for step in explanation.steps:
        for item in step.operators:
            yield {
                "of": f"{step.probe} {step.step}",
                "operator": item.label,
                "kind": item.kind,
                "bound": item.bound,
                "count": item.count,
                "time_ms": item.time_ms,
                "share_percent": 100 * item.share,
            }
