"""Reads a JSON answer of `watch`: a server when it was as planned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from store.errors import InputError
from store.schema import Phase
from sweepdb.watching.judging import LOADS
from sweepdb.watching.windows import FEWEST, Mean, Seen

_LARGEST = 1e18


def earlier_seen(path: Path, engine: str, phase: Phase) -> Seen:
    rows = _rows(path, phase)
    means = {name: _mean(rows, name, path) for name in ("prompt_tokens", "output_tokens", "ttft_ms", "tpot_ms")}
    load = _mean(rows, LOADS[phase][0], path)
    if load is None or (means["ttft_ms"] is None and means["tpot_ms"] is None):
        raise InputError(
            f"{path} says nothing of a load and its times", hint="keep an answer of a busy hour: `format=json`"
        )
    return Seen(
        engine=engine,
        seconds=None,
        finished=FEWEST,
        load=load,
        waiting=None,
        requests_per_s=None,
        cached_share=_number(rows.get("cached_share", {}), "measured"),
        cache_use=None,
        room_tokens=None,
        **means,
    )


def _rows(path: Path, phase: Phase) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for row in found if hasattr(row, "get")]
        return {str(row["metric"]): row for row in rows if row.get("role", "aggregated") == phase}
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        hint = "sweepdb watch writes one: `format=json` `output=baseline.json`"
        raise InputError(f"{path} is no answer of watch as JSON", hint=hint) from None


def _mean(rows: Mapping[str, Mapping[str, Any]], name: str, path: Path) -> Mean | None:
    row = rows.get(name, {})
    value, error = _number(row, "measured"), _number(row, "error_percent")
    if value is None or error is None:
        return None
    if value <= 0 or error < 0:
        raise InputError(f"{path}: {name} must be above 0, and its error at least 0")
    return Mean(value=value, error=error / 100.0)


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST:
        return None
    return float(value)
