"""Stored runs for comparison: setting, metrics by our names, time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluator.ledger import central_metrics
from queries.measured_rows import met
from store.errors import InputError

if TYPE_CHECKING:
    from queries.connect import StoreConnection

_SETTING = (
    "model", "device", "engine", "mode", "precision", "kv_precision", "num_devices", "prefill_instances", "prefill_tp",
    "decode_instances", "decode_tp", "decode_pp", "decode_dp", "decode_ep", "input_length", "output_length",
    "concurrency", "request_rate",
)  # fmt: skip
_RUNS = f"""
    SELECT key, {", ".join(_SETTING)}, coalesce(engine_version, '') AS engine_version, coalesce(tags, '') AS tags,
        CAST(measured_at AS DATE) AS day, metrics
    FROM measurement
    WHERE family = 'measured' AND server_failed IS NULL
        AND ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    ORDER BY measured_at, key
"""  # noqa: S608  our own columns
_COMPARED = re.compile(r"(ttft|tpot_exclusive|itl|e2e)_ms(_p\d[\d.]*)?|(output_tokens|requests)_per_s")


class MeasuredRun(NamedTuple):
    key: str
    setting: str
    version: str
    tags: frozenset[str]
    day: date | None
    metrics: Mapping[str, float]
    facts: Mapping[str, Any]  # the columns of its setting


def measured_runs(connection: StoreConnection, model: str | None, device: str | None) -> list[MeasuredRun]:
    """The oldest first; texts are parts of names."""
    answer = connection.execute(_RUNS, {"model": model, "device": device})
    names = [column[0] for column in answer.description]
    rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    meant = met((row["input_length"], row["output_length"]) for row in rows)
    return [_run({**row, "input_length": prompt, "output_length": answer_length})
            for row, (prompt, answer_length) in zip(rows, meant, strict=True)]  # fmt: skip


def no_runs() -> InputError:
    return InputError("no measured run is stored for this", hint="sweepdb measurements import FILE...")


def _run(row: Mapping[str, Any]) -> MeasuredRun:
    measured = json.loads(row["metrics"])
    values = {name: value for name, value in {**measured, **central_metrics(measured)}.items() if value > 0}
    return MeasuredRun(
        key=row["key"],
        setting=_named(row),
        version=row["engine_version"],
        tags=frozenset(filter(None, row["tags"].split(","))),
        day=row["day"],
        metrics={name: value for name, value in values.items() if _COMPARED.fullmatch(name)},
        facts=row,
    )


def _named(row: Mapping[str, Any]) -> str:
    """Unknown parts are left out."""
    given = {name: f"{row[name]:g}" if isinstance(row[name], float) else row[name] for name in _SETTING}
    text = " ".join(str(given.pop(name)) for name in ("model", "device", "engine", "mode") if given[name] is not None)
    lengths = [given.pop(name) for name in ("input_length", "output_length")]
    words = [text, "/".join("-" if length is None else str(length) for length in lengths)]
    if row["mode"] == "aggregated":  # both sides are one server
        given = {name.removeprefix("decode_"): given[name] for name in given if not name.startswith("prefill_")}
    return " ".join([*words, *(f"{name}={value}" for name, value in given.items() if value is not None)])
