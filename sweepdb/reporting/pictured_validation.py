"""The picture of a validation: predicted over measured values of each metric, a point each.

Not here: comparing (sweepdb.measuring), and its document with tables (`format=html`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking import picture_looks
from store.errors import InputError

if TYPE_CHECKING:
    from queries.asking import Json
    from sweepdb.measuring import Validation

_SPECIFICATION = Path(__file__).parent / "validated.vl.json"
_SHOWN = ("model", "device", "plan", "engine", "mode", "users", "metric", "measured", "predicted")


def validated_picture(validation: Validation) -> dict[str, Json]:
    """Points as asked, as a Vega-Lite specification; an error where none could be compared."""
    rows: list[Json] = [
        {**{name: getattr(one, name) for name in _SHOWN}, "error_percent": 100 * one.error}
        for one in validation.of("asked")
    ]
    if not rows:
        raise InputError("no measured point could be compared, so there is nothing to draw")
    spec: dict[str, Json] = json.loads(_SPECIFICATION.read_text(encoding="utf-8"))
    return {**spec, **picture_looks(), "data": {"values": rows}}
