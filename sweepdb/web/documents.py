"""Answers as JSON and CSV; sweepdb.web.openapi tells the shape."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict

from queries.asking import (
    NEAREST,
    Answer,
    Report,
    given_options,
    limits_told,
    picture_of,
    relaxed_to,
    report,
    report_pictures,
    shown_names,
)
from store.texts import csv_line, plain
from sweepdb.planning import short_plan
from sweepdb.web.pool import Told

MOST_ROWS = 2_000  # of a document; a picture shows fewer
MOST_LINES = 100_000  # of CSV
_PLAIN: set[type] = {str, int, bool, type(None)}
_NUMBERS = _PLAIN | {float}
PICTURE_SHAPE = "shape"  # a picture whose rows are those of the document, sent once


def answer_document(told: Told, *, picture: str | None = None, note: str | None = None) -> dict[str, object]:
    """All that a page shows, and what repeats it. Its picture has rows, or is a `shape`."""
    answer = told.answer
    asked = report(answer.report)
    question = answer.question
    document: dict[str, object] = {
        "report": answer.report,
        "summary": asked.summary,
        "state": told.state,
        "columns": column_meanings(asked, answer.columns),
        "shown": shown_names(asked, _given(answer)),
        "rows": _cells(answer.rows[:MOST_ROWS]),
        "rows_left_out": max(0, len(answer.rows) - MOST_ROWS),
        "plans": _plans(answer),
        "groups": list(answer.scope),
        "nearest": _nearest(answer),
        "limits": asdict(question.limits),
        "rules": {**asdict(question.definitions), "tpot": answer.tpot},
        "versions": plain(dict(answer.versions)),
        "expected_error": [asdict(one) for one in answer.expected_error],
        **({"own_runs": asdict(answer.own_runs)} if answer.own_runs else {}),
        "ttft_intervals": [asdict(one) for one in answer.ttft_intervals],
        "verdict": list(answer.verdict),
        "notes": [*([note] if note else []), *answer.notes],
        "left_out": answer.left_out,
        "considered": {answer.counts: answer.probes_considered, "scenarios": answer.scenarios_considered},
        "sql": answer.sql,
        "parameters": plain(dict(answer.parameters)),
        "took_ms": round(told.took_ms, 2),
    }
    if picture:
        drawn = answer.rows and answer.report in report_pictures()
        document["picture"] = picture_of(answer, with_rows=picture != PICTURE_SHAPE) if drawn else None
    return document


def _nearest(answer: Answer) -> dict[str, object]:
    rows = []
    for row in answer.nearest_dicts():
        value = relaxed_to(row, answer.question.limits)
        rows.append([value if name == "relax_to" else row[name] for name in answer.nearest_columns])
    columns = column_meanings(report(NEAREST), answer.nearest_columns)
    shown = shown_names(report(NEAREST), _given(answer))
    return {"columns": columns, "rows": _cells(rows), "shown": shown}


def _given(answer: Answer) -> frozenset[str]:
    return given_options(answer.question).union(("ttft_intervals",) if answer.ttft_intervals else ())


def _plans(answer: Answer) -> dict[str, str]:
    tables = ((answer.columns, answer.rows[:MOST_ROWS]), (answer.nearest_columns, answer.nearest))
    found = {
        row[place]
        for columns, rows in tables
        for place in (place for place, name in enumerate(columns) if name.endswith("plan"))
        for row in rows
    }
    return {label: short_plan(label) for label in sorted(label for label in found if isinstance(label, str))}


def column_meanings(asked: Report, names: Collection[str]) -> list[dict[str, str]]:
    known = {one.name: one for one in asked.columns}
    return [
        {"name": name, "unit": known[name].unit if name in known else "none",
         "meaning": known[name].meaning if name in known else ""}
        for name in names
    ]  # fmt: skip


def table_document(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, object]:
    """Rows of no report: sweeps, a probe, operators."""
    return {"columns": [{"name": name} for name in columns], "rows": _cells(rows)}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """As the command line writes it; missing is empty."""
    return "".join((csv_line(columns), *(csv_line([plain(value) for value in row]) for row in rows)))


def _cells(rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """As JSON holds them. Plain columns stay: a picture has thousands."""
    return list(map(list, zip(*map(_column, zip(*rows, strict=True)), strict=True)))


def _column(values: Sequence[object]) -> Sequence[object]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds <= _NUMBERS and all(math.isfinite(one) for one in values if isinstance(one, float))):
        return values
    return [plain(value) for value in values]


def limits_module() -> str:
    return f"export const LIMITS = {json.dumps(limits_told())};\n"
