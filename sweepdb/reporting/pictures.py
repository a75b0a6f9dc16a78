"""Pictures beyond reports' own: frontier of a file, steps, validation, day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking import Answer, picture_looks, picture_of
from store.errors import InputError
from sweepdb.reporting.page_text import amount

if TYPE_CHECKING:
    from queries.asking import Json
    from sweepdb.explaining import Explanation
    from sweepdb.measuring import Series, Trends, Validation
    from sweepdb.scheduling import DaySchedule

_FOLDER = Path(__file__).parent
_COMPARED = ("model", "device", "plan", "engine", "mode", "users", "metric", "measured", "predicted")
WON, LIMIT = "won", "limit"  # data of the picture that the script replaces
_SPEED, _RATE = "tokens_per_s_per_user", "output_tokens_per_s_per_device"
_METRICS = {  # of a mode, what its two rates are as far off as
    "aggregated": ("aggregated", "tpot_exclusive_ms", "output_tokens_per_s"),
    "pd": ("decode", "tpot_exclusive_ms", "tpot_exclusive_ms"),
}
Row = Mapping[str, object]
_Point = tuple[float, float, float, float]  # tokens/s of a user and of a device, and how far off each may be


def frontier_picture(frontier: Answer, won: Sequence[Row], tpot_limit: float | None) -> dict[str, Json]:
    """With the winners under the limits."""
    spec = picture_of(frontier)
    shared = _mapping(spec.pop("encoding"))
    drawn = spec.pop("layer")
    layers = [_mapping(one) for one in (drawn if isinstance(drawn, list) else [])]
    layers = [{**one, "encoding": {**shared, **_mapping(one.get("encoding", {}))}} for one in layers]
    x, y, colour = shared["x"], shared["y"], shared["color"]
    known = list(_band(frontier))
    band: dict[str, Json] = {
        "data": {"values": known},
        "mark": {"type": "area", "interpolate": "step-before", "opacity": 0.2},
        "encoding": {"x": x, "y": y, "y2": {"field": "most"}, "color": colour},
    }
    limit: dict[str, Json] = {
        "data": {"name": LIMIT, "values": list(limit_mark(tpot_limit))},
        "mark": {"type": "rule", "strokeDash": [5, 4], "color": "#767676"},
        "encoding": {"x": x},
    }
    winners: dict[str, Json] = {
        "data": {"name": WON, "values": [won_mark(row) for row in won]},
        "mark": {"type": "point", "shape": "diamond", "size": 170, "filled": True, "stroke": "#767676"},
        "encoding": {
            "x": x, "y": y, "color": colour, "tooltip": [{"field": name} for name in ("deployment", _SPEED, _RATE)],
        },
    }  # fmt: skip
    spec.pop("title")
    config = _mapping(spec["config"])
    spec["config"] = {**config, "legend": {**_mapping(config["legend"]), "orient": "top", "symbolOpacity": 1}}
    return {**spec, "layer": [*([band] if known else []), *layers, limit, winners]}


def won_mark(row: Row) -> dict[str, Json]:
    tpot = amount(row["tpot_ms"])
    return {
        "mode": str(row["mode"]),
        "deployment": f"{row['device']}: {row['deployment']}",
        _SPEED: 1000.0 / tpot if tpot else None,
        _RATE: amount(row["output_tokens_per_s_per_device"]),
    }


def limit_mark(tpot_limit: float | None) -> Iterator[Json]:
    if tpot_limit is not None:
        yield {_SPEED: 1000.0 / tpot_limit}


def _band(frontier: Answer) -> Iterator[Json]:
    """Half of measured points are nearer."""
    points: dict[str, list[_Point]] = {}
    for row in frontier.dicts():
        errors = _errors(frontier, str(row["device"]), str(row["mode"]))
        if errors is not None:
            points.setdefault(str(row["mode"]), []).append((amount(row[_SPEED]), amount(row[_RATE]), *errors))
    for mode, found in points.items():
        fastest = max(speed * (1 + off) for speed, _, off, _ in found)
        speeds = sorted({speed * factor for speed, _, off, _ in found for factor in (1 + off, 1 / (1 + off))})
        for speed in speeds:
            most = max((rate * (1 + off) for at, rate, by, off in found if at * (1 + by) >= speed), default=None)
            least = max((rate / (1 + off) for at, rate, by, off in found if at / (1 + by) >= speed), default=0.0)
            if most is not None and speed <= fastest:
                yield {"mode": mode, _SPEED: speed, _RATE: least, "most": most}


def _errors(answer: Answer, device: str, mode: str) -> tuple[float, float] | None:
    """Of user's and device's tokens/s, as ratios: the largest median near."""
    phase, *metrics = _METRICS[mode]
    found = []
    for metric in metrics:
        near = [
            one.median_ape_percent
            for one in answer.stated_errors
            if one.metric == metric and {device, phase} <= set(one.subject.split(", "))
        ]
        if not near:
            return None
        found.append(max(near) / 100)
    return found[0], found[1]


def _mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def picture_with(specification: Path, rows: Sequence[Json]) -> dict[str, Json]:
    spec: dict[str, Json] = json.loads(specification.read_text(encoding="utf-8"))
    return {**spec, **picture_looks(), "data": {"values": list(rows)}}


def explained_picture(explanation: Explanation) -> dict[str, Json]:
    rows: list[Json] = [
        {
            "of": f"{step.probe} {step.step}",
            "operator": item.label,
            "kind": item.kind,
            "bound": item.bound,
            "count": item.count,
            "time_ms": item.time_ms,
            "share_percent": 100 * item.share,
        }
        for step in explanation.steps
        for item in step.operators
    ]
    return picture_with(_FOLDER / "explained.vl.json", rows)


def validated_picture(validation: Validation) -> dict[str, Json]:
    rows: list[Json] = [
        {**{name: getattr(one, name) for name in _COMPARED}, "error_percent": 100 * one.error}
        for one in validation.of("asked")
    ]
    if not rows:
        raise InputError("no measured point could be compared, so there is nothing to draw")
    return picture_with(_FOLDER / "validated.vl.json", rows)


def scheduled_picture(found: DaySchedule) -> dict[str, Json]:
    best = found.candidates[0]
    rows: list[Json] = [{"of": "target", "value": found.attainment}]
    rows += [{"of": "rate", "hour": hour, "value": rate} for hour, rate in _steps(found.rates_per_s)]
    for kind in best.scaled:
        rows += [
            {"of": "replicas", "scaling": kind, "role": role, "hour": hour, "value": int(count)}
            for role, side in zip(best.roles, best.sides, strict=True)
            for hour, count in _steps(side.scaled[kind].ready.tolist())
        ]
        rows += [
            {"of": "attained", "scaling": kind, "hour": hour + 0.5, "value": share,
             "hour_is": "kept" if share >= found.attainment else "missed"}
            for hour, share in enumerate(found.attained[kind]) if share is not None
        ]  # fmt: skip
    plans = " and ".join(one.plan for one in best.sides)
    title: dict[str, Json] = {"text": f"{plans} on {best.device}", "subtitle": next(found.sentences())}
    spec = picture_with(_FOLDER / "scheduled.vl.json", rows)
    if best.decode is not None:
        parts = spec["vconcat"]
        drawn = _mapping(_mapping(parts[1] if isinstance(parts, list) else {})["encoding"])
        drawn["strokeDash"] = {"field": "role", "type": "nominal", "sort": None, "title": "instances"}
    return {**spec, "title": title}


def _steps(minutes: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Hours of change with new values; the last ends the day."""
    for minute, value in enumerate(minutes):
        if minute == 0 or value != minutes[minute - 1]:
            yield minute / 60, value
    yield len(minutes) / 60, minutes[-1]


_MOST_SERIES = 8  # below each other
_MOST_VERSIONS = 12  # of a series whose every version is drawn; of others, those at steps


def trend_picture(found: Trends) -> dict[str, Json]:
    """With levels, steps and versions: the worst steps, else the first series."""
    shown = [one for one in found.series if one.steps][:_MOST_SERIES] or found.series[:_MOST_SERIES]
    stepped = sum(bool(one.steps) for one in found.series)
    said = f"{stepped} of {len(found.series)} metrics of settings stepped"
    if len(shown) < (stepped or len(found.series)):
        said += f"; {len(shown)} are drawn, the worst first"
    title: dict[str, Json] = {"text": "Measured over days", "subtitle": said, "offset": 16}
    spec = picture_with(_FOLDER / "trend.vl.json", [row for one in shown for row in _drawn_series(one)])
    names: list[Json] = [_series_name(one) for one in shown]
    return {**spec, "title": title, "facet": {**_mapping(spec["facet"]), "sort": names}}


def _series_name(one: Series) -> str:
    return f"{one.metric}: {one.setting}"


def _drawn_series(one: Series) -> Iterator[Json]:
    series = _series_name(one)
    for day in one.days:
        yield {"of": "day", "series": series, "day": str(day.day), "value": day.value, "runs": day.runs,
               "version": day.version}  # fmt: skip
    ends = [*(step.day for step in one.steps), one.days[-1].day]
    levels = [*(step.before for step in one.steps), *(step.after for step in one.steps[-1:])]
    for first, last, level in zip([one.days[0].day, *ends], ends, levels, strict=False):
        yield {"of": "level", "series": series, "day": str(first), "until": str(last), "value": level}
    for step in one.steps:
        verdict = f"{'worse' if step.worse_percent > 0 else 'better'} from here"
        yield {"of": "step", "series": series, "day": str(step.day), "verdict": verdict,
               "change": f"{step.change_percent:+.1f} %"}  # fmt: skip
    changed = [day for day, before in zip(one.days[1:], one.days, strict=False) if day.version != before.version]
    if len(changed) > _MOST_VERSIONS:
        changed = [day for day in changed if day.day in ends]
    for day in [one.days[0], *changed]:
        if day.version:
            yield {"of": "version", "series": series, "day": str(day.day), "version": day.version}
