"""Documents of no report: decisions, and tables of sweeps, points, a step or a row.

With the statement and command that repeat them, and sometimes a picture."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from queries.asking import Question, shown
from queries.probes import find_probe, measured_points
from store.errors import InputError, NothingFits
from store.location import StoreLocation
from store.sweep_list import list_sweeps
from store.texts import plain
from sweepdb import launching, measuring, reporting
from sweepdb.deciding import BUDGET, GAIN, MODE, Decision, decided, document
from sweepdb.reporting import explained_picture, picture_with
from sweepdb.sessions import open_session

Picture: TypeAlias = dict[str, Any]  # Vega-Lite
_PICTURES = Path(__file__).parent / "static" / "pictures"
_MOST_SWEEPS = 200
_SWEEP = ("key", "models", "devices", "kind", "started_at", "status", "probes_stored", "probes_known",
          "scenarios_failed", "label", "program_version", "voided")  # fmt: skip
_SWEEPS_SQL = """SELECT s.key,
    CASE WHEN json_valid(s.arguments)
        THEN array_to_string(from_json(s.arguments -> '$.models', '["VARCHAR"]'), ', ') END AS models,
    CASE WHEN json_valid(s.arguments)
        THEN array_to_string(from_json(s.arguments -> '$.devices', '["VARCHAR"]'), ', ') END AS devices,
    s.kind, s.started_at, s.status, s.probes_stored, s.probes_known, s.scenarios_failed,
    s.label, s.program_version, max(t.reason) AS voided
FROM sweep AS s
LEFT JOIN raw.tombstone AS t ON t.sweep_id = s.id AND t.lifted_at IS NULL
GROUP BY ALL
ORDER BY s.started_at DESC, max(s.id) DESC
LIMIT 200;"""
_ROW_SQL = "SELECT * FROM probe WHERE scenario LIKE '{}%' AND batch_size = {};"
_SHORT = {"ttft", "tpot", "tbt"}
_APART = ((1, 1.0), (2, 1.2), (3, 1 / 1.2))  # layers of lines, and how far predictions lie from measured values there


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table, what repeats it, and a picture."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    sql: str
    command: str
    picture: Picture | None = None
    told: tuple[str, ...] = ()  # lines above the table


def sweeps_listing(location: StoreLocation) -> Listing:
    found = ((getattr(one, name) for name in _SWEEP) for one in list_sweeps(location, limit=_MOST_SWEEPS))
    rows = [[", ".join(cell) if isinstance(cell, tuple) else cell for cell in row] for row in found]
    picture = _drawn("sweeps", [dict(zip(_SWEEP, row, strict=True)) for row in rows]) if rows else None
    return Listing(columns=_SWEEP, rows=rows, sql=_SWEEPS_SQL, command="sweepdb sweeps", picture=picture)


def measured_listing(location: StoreLocation, metric: str | None = None) -> Listing:
    found = measured_points(location)
    rows = found.rows
    picture = None
    if metric is not None:
        place = found.columns.index("metric")
        known = sorted({str(row[place]) for row in rows})
        if metric not in known:
            raise InputError(f"no measured point has `metric={metric}`", hint=f"compared: {', '.join(known) or 'none'}")
        rows = tuple(row for row in rows if row[place] == metric)
        picture = _compared(metric, [dict(zip(found.columns, row, strict=True)) for row in rows])
    return Listing(columns=found.columns, rows=rows, sql=found.sql, command="sweepdb validate", picture=picture)


def explained_listing(location: StoreLocation, reference: str, step: str | None = None) -> Listing:
    from sweepdb.explaining import explain_probes

    references = reference.split(",")
    found = explain_probes(references, location.url, step=step)
    columns, rows = found.side_by_side(None) if len(references) > 1 else found.rows(None)
    statements = (_ROW_SQL.format(*one.strip().lower().split(":")) for one in references)
    return Listing(
        columns=columns,
        rows=rows,
        sql="\n".join(statements),
        command=" ".join(["sweepdb", "explain", *references, *([] if step is None else [f"`step={step}`"])]),
        picture=explained_picture(found),
        told=tuple(line for line in found.headline() if line),
    )


def probe_listing(location: StoreLocation, reference: str) -> Listing:
    columns, row = find_probe(location, reference)
    sql = _ROW_SQL.format(*reference.strip().lower().split(":"))
    return Listing(columns=columns, rows=[row], sql=sql, command=f"sweepdb show {reference}")


_RUNS_SQL = "SELECT * FROM measurement WHERE family = 'measured' ORDER BY measured_at, key;"
_OF_RUNS = frozenset({"model", "device"})
_SIDES = ("baseline", "against")


def regress_listing(location: StoreLocation, asked: Mapping[str, str]) -> Listing:
    """By tag, version, days or sweep."""
    given = _checked(asked, {*_OF_RUNS, *_SIDES})
    if lacking := [name for name in _SIDES if name not in given]:
        raise InputError(f"`{lacking[0]}` is missing", hint="a tag, an engine's version, days or a sweep")
    found = measuring.regressions(location.url, **given)
    return Listing(
        columns=(*(item.name for item in fields(measuring.Change)), "worse_percent"),
        rows=[(*astuple(one), one.worse_percent) for one in found.changes],
        sql=_RUNS_SQL,
        command=_typed("sweepdb regress", given),
        told=(found.verdict,),
    )


def trend_listing(location: StoreLocation, asked: Mapping[str, str]) -> Listing:
    """With values and versions as a picture."""
    given = _checked(asked, _OF_RUNS)
    found = measuring.trends(location.url, **given)
    return Listing(
        columns=measuring.Trend._fields,
        rows=found.steps,
        sql=_RUNS_SQL,
        command=_typed("sweepdb regress", given, "trend"),
        picture=reporting.trend_picture(found),
        told=(f"{len(found.steps)} steps in {len(found.series)} metrics of settings",),
    )


def _checked(asked: Mapping[str, str], known: Collection[str]) -> Mapping[str, str]:
    if odd := sorted(asked.keys() - set(known)):
        raise InputError(f"there is no parameter {odd[0]!r}", hint=f"parameters: {', '.join(sorted(known))}")
    return {name: value for name, value in asked.items() if value}


def _typed(command: str, given: Mapping[str, str], *flags: str) -> str:
    return " ".join(
        [
            command,
            *(f"--{flag}" for flag in flags),
            *(f"--{name} {shlex.quote(value)}" for name, value in given.items()),
        ]
    )


def _compared(metric: str, rows: Sequence[Mapping[str, object]]) -> Picture | None:
    known = [row for row in rows if _positive(row["measured"]) and _positive(row["predicted"])]
    values = [value for row in known for value in (_positive(row["measured"]), _positive(row["predicted"]))]
    if not values:
        return None
    spec = _drawn("measured", known)
    for layer, share in _APART:
        ends = [{"measured": end, "predicted": end * share} for end in (min(values), max(values))]
        spec["layer"][layer]["data"] = {"values": ends}
    for axis in ("x", "y"):
        place = spec["encoding"][axis]
        place["title"] = f"{place['title']}, {_spoken(metric)}"
    return spec


def _drawn(name: str, rows: Sequence[Mapping[str, object]]) -> Picture:
    values: list[Any] = [{key: plain(value) for key, value in row.items()} for row in rows]
    return picture_with(_PICTURES / f"{name}.vl.json", values)


def _spoken(metric: str) -> str:
    if not metric.endswith("_ms"):
        return metric.replace("_per_s", "/s").replace("_", " ")
    words = metric.removesuffix("_ms").split("_")
    return " ".join([*(word.upper() if word in _SHORT else word for word in words), "in ms"])


def _positive(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def decision_document(location: StoreLocation, question: Question, own: Mapping[str, object]) -> dict[str, object]:
    return {name: plain(value) for name, value in document(_asked(location, question, own)).items()}


def decision_script(location: StoreLocation, question: Question, own: Mapping[str, object]) -> str:
    start = _asked(location, question, own).next_start
    if start is None:
        raise NothingFits("no run is worth it")
    ladder = [one.concurrency for one in start.ladder]
    files, _ = launching.launch_files(start.probe, store=location.url, ladder=ladder)
    return launching.one_script(files, f"run-{start.scenario}")


def _asked(location: StoreLocation, question: Question, own: Mapping[str, object]) -> Decision:
    budget, gain = _number(own, "budget", BUDGET), _number(own, "gain", GAIN)
    if budget != int(budget):
        raise InputError(f"`budget={budget:g}` is not a whole number of starts")
    with open_session(location.url) as session:
        return decided(session, question, budget=int(budget), gain=gain, mode=str(own.get("mode", MODE)))


def _number(own: Mapping[str, object], name: str, default: float) -> float:
    try:
        return float(str(own.get(name, default)))
    except ValueError:
        raise InputError(f"`{name}` is a number, not {shown(own[name])}") from None
