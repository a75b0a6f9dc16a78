"""The public views as SQL of the stores themselves, for programs that open a store: SQLite's and PostgreSQL's dialect.

Expressions are those of queries/views/probe.sql, written out for databases that know no lateral names. Not here: laying
them down (migrations.views)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from queries.raw_relations import RAW_TABLES
from queries.vocabulary import VIEWS
from store.schema import BLOCK_TABLES, NAMED_COLUMNS, PROBE_COLUMNS, SCENARIO_TABLES

_ITEM = re.compile(r"^(?:(?P<text>.*)\bAS\s+)?(?P<name>\w+)$", re.DOTALL)
_EVERY = re.compile(r"\*\s+EXCLUDE\s+\((?P<but>[\w\s,]+)\)")
_COMMENT = re.compile(r"--[^\n]*")
_CALL = re.compile(r"\b(concat|left|greatest)\(")
_COPIED = {"models": "model", "devices": "device", "prices": "price", "sweeps": "sweep"}
_VOIDED = "(SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)"
_ASKED = "EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id {kind} {voided}{more})"
_INSIDE = " AND {batch} BETWEEN i.first_batch_size AND i.last_batch_size"


def store_views() -> Mapping[str, str]:
    """The SELECT of each view by its name, in a dialect that SQLite and PostgreSQL share."""
    raw = {table.name: table for table in RAW_TABLES}
    views = {"probes": _probes(), "scenarios": _scenarios()}
    for name, table in _COPIED.items():
        columns = ", ".join(f"{column.source} AS {column.name}" for column in raw[table].columns)
        views[name] = f"SELECT {columns} FROM {table}"
    views["sweep_intervals"] = (
        "SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size"
        " FROM sweep_interval i JOIN sweep sw ON sw.id = i.sweep_id"
    )
    return views


def _probes() -> str:
    stored = ", ".join(f"{column.source} AS {column.name}" for column in PROBE_COLUMNS)
    shown = ", ".join(name if text == name else f"{text} AS {name}" for name, text in _shown())
    block = "pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size"
    return (
        f"SELECT {shown} FROM (SELECT {stored} FROM {BLOCK_TABLES} JOIN probe pb ON {block}"
        f" WHERE NOT {_hidden('pb.batch_size')}) AS stored"
    )


def _scenarios() -> str:
    known = {column.name for column in NAMED_COLUMNS}
    (raw,) = (table for table in RAW_TABLES if table.name == "scenario")
    columns = ", ".join(
        f"{column.source if column.name in known or column.name != 'voided' else _hidden(None)} AS {column.name}"
        for column in raw.columns
    )
    return f"SELECT {columns} FROM {SCENARIO_TABLES}"


def _hidden(batch: str | None) -> str:
    """Whether voiding hides a scenario, or a probe of it: as queries/scoping/voided.py works it out."""

    def asked(kind: str, more: str = "") -> str:
        return _ASKED.format(kind=kind, voided=_VOIDED, more=more)

    inside = "" if batch is None else _INSIDE.format(batch=batch)
    whole = "EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id)"
    by_all = f"({asked('IN')} AND NOT {asked('NOT IN')})"
    of_some = f" OR ({asked('IN', inside)} AND NOT {asked('NOT IN', inside)})" if inside else ""
    return f"({whole} OR {by_all}{of_some})"


def _shown() -> Iterator[tuple[str, str]]:
    """The columns of the view `probe` with their expressions, names that its first step gives written out."""
    text = _COMMENT.sub("", (VIEWS / "probe.sql").read_text(encoding="utf-8"))
    first, last = re.findall(r"\bSELECT\b(.*?)\bFROM\b", text, re.DOTALL)
    steps: dict[str, str] = {}
    for item in _parts(first):
        if item.strip() != "*":
            name, expression = _named(item)
            steps[name] = _written_out(expression, steps)
    for item in _parts(last):
        if (every := _EVERY.fullmatch(item.strip())) is not None:
            left_out = {name.strip() for name in every["but"].split(",")}
            yield from ((column.name, column.name) for column in PROBE_COLUMNS if column.name not in left_out)
        else:
            name, expression = _named(item)
            yield name, _written_out(expression, steps)


def _named(item: str) -> tuple[str, str]:
    """The name of a selected column, and what it is."""
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        raise ValueError(f"queries/views/probe.sql: no name for {item.strip()!r}")
    return match["name"], " ".join((match["text"] or match["name"]).split())


def _written_out(expression: str, steps: Mapping[str, str]) -> str:
    for name, step in steps.items():
        expression = re.sub(rf"\b{name}\b", lambda _, step=step: f"({step})", expression)  # type: ignore[misc]
    while (call := _CALL.search(expression)) is not None:
        inner = _inside(expression, call.end())
        end = call.end() + len(inner) + 1
        expression = expression[: call.start()] + _common(call[1], list(_parts(inner))) + expression[end:]
    return expression


def _common(function: str, arguments: list[str]) -> str:
    """A call of DuckDB's in words that every database knows."""
    told = [argument.strip() for argument in arguments]
    if function == "concat":
        return "(" + " || ".join(f"coalesce({one}, '')" if one.startswith("CASE") else one for one in told) + ")"
    if function == "left":
        return f"substr({told[0]}, 1, {told[1]})"
    return f"(CASE WHEN {told[0]} > {told[1]} THEN {told[0]} ELSE {told[1]} END)"


def _inside(text: str, start: int) -> str:
    """The text up to the bracket that closes."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    raise ValueError(f"no bracket closes in {text!r}")


def _parts(text: str) -> Iterator[str]:
    """Split a text at its commas outside of brackets."""
    depth, begun = 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            yield text[begun:place]
            begun = place + 1
    yield text[begun:]
