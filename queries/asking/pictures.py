"""Vega-Lite pictures: queries/pictures has a file beside each report that has one."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from queries.asking.library import report
from store.errors import InputError

if TYPE_CHECKING:
    from queries.asking.question import Answer

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
_FOLDER = Path(__file__).parents[1] / "pictures"
_MOST_GROUPS = 6  # pictures below each other; more says nothing at first sight
_GROUP, _ROWS = "question_group", "rows"
_TITLE = 70  # letters of a line of the title
_PADDING = 16  # letters of a reader's own font may be wider than those that a picture was measured with
_READ = re.compile(r"\bdatum\.(\w+)")
_PLACES = ("{first}", "{second}")  # titles of axes
_VARIED = {
    "ttft": "TTFT at most, ms", "tpot": "TPOT at most, ms", "e2e": "end to end at most, ms",
    "memory": "memory kept free, GiB",
}  # fmt: skip
_DRAWN = ("transform", "layer", "mark", "encoding")
_AS_HIGH_AS_IT_HAS_ROWS = {"bar", "rect"}
_GREY, _FAINT = "#767676", "#7676764d"  # read on white and on black alike
_LOOKS: dict[str, Json] = {
    "background": "transparent",
    "font": "sans-serif",
    "axis": {"labelColor": _GREY, "titleColor": _GREY, "gridColor": _FAINT, "domainColor": _GREY, "tickColor": _GREY},
    "legend": {"labelColor": _GREY, "titleColor": _GREY},
    "header": {"labelColor": _GREY, "titleColor": _GREY},
    "title": {"color": _GREY, "subtitleColor": _GREY, "anchor": "start"},
    "view": {"stroke": _FAINT},
    "line": {"strokeWidth": 2},
}


@cache
def report_pictures() -> Mapping[str, dict[str, Json]]:
    files = sorted(_FOLDER.glob("*.vl.json"))
    return {path.name.removesuffix(".vl.json").replace("_", "-"): json.loads(path.read_text("utf-8")) for path in files}


def picture_of(answer: Answer, *, with_rows: bool = True) -> dict[str, Json]:
    """An error where the report has none, or no row satisfies.

    Without rows the caller puts them in, with their group's line as `group`."""
    known = report_pictures()
    if answer.report not in known:
        raise InputError(f"report {answer.report} has no picture", hint=f"these have one: {', '.join(known)}")
    if not answer.rows:
        raise InputError("no row satisfies the limits, so there is nothing to draw", hint="`format=table` shows misses")
    spec = dict(known[answer.report])
    described = spec.pop("description")
    inner = {name: _spoken(spec.pop(name), answer.question.options.vary) for name in _DRAWN if name in spec}
    options, size = answer.question.options, dict[str, Json](width=560)
    apart = [inner] * _MOST_GROUPS
    if _first_mark(inner) not in _AS_HIGH_AS_IT_HAS_ROWS:
        size["height"] = 320
        if options.rows != "predicted" and not options.sweeps:
            apart = [_with_points(inner, kinds) for kinds in _kinds(answer)]
    rows, groups, subtitle = _drawn(answer, {name for one in apart for name in _fields(one)} if with_rows else None)
    below: list[Json] = [
        {"title": group, **size, **_only(group, one)} for group, one in zip(groups, apart, strict=False)
    ]
    whole: dict[str, Json] = {**size, **apart[0]} if len(groups) == 1 else {"vconcat": below}
    lines: list[Json] = [*textwrap.wrap(report(answer.report).summary, _TITLE)]
    title: dict[str, Json] = {"text": lines, "subtitle": subtitle}
    said: dict[str, Json] = {"title": title, "description": described}
    return {**spec, **picture_looks(), **said, "data": {"values": rows}, **whole}


def _with_points(inner: Mapping[str, Json], kinds: Collection[object]) -> dict[str, Json]:
    """Measured rows as points, not joined by a line.

    No layer is empty: Vega would find no extent."""
    shared = {name: value for name, value in inner.items() if name not in {"layer", "mark"}}
    mark: dict[str, Json] = {"type": "point", "filled": True, "shape": "diamond", "size": 70}
    drawn: dict[str, Json] = {"predicted": inner.get("mark"), "measured": mark}
    found: list[Json] = [
        {"transform": [{"filter": {"field": _ROWS, "equal": kind}}], "mark": drawn[kind]}
        for kind in drawn if kind in kinds
    ]  # fmt: skip
    layers = inner.get("layer")
    if isinstance(layers, list):
        return {**shared, "layer": [*layers, *(found[-1:] if "measured" in kinds else [])]}
    return {**shared, "layer": found}


def _kinds(answer: Answer) -> Sequence[Collection[object]]:
    """By group that is drawn."""
    place = answer.columns.index(_ROWS)
    found: dict[int, set[object]] = {}
    for number, row in zip(_groups(answer), answer.rows, strict=True):
        found.setdefault(number, set()).add(row[place])
    return [found[number] for number in sorted(found)[:_MOST_GROUPS]]


def _groups(answer: Answer) -> Sequence[int]:
    """By row."""
    group = answer.columns.index(_GROUP) if _GROUP in answer.columns else None
    return [0 if group is None else _number(row[group]) for row in answer.rows]


def _first_mark(inner: Mapping[str, Json]) -> str:
    layers = inner.get("layer")
    lowest = layers[0] if isinstance(layers, list) else inner
    return str(lowest.get("mark")) if isinstance(lowest, dict) else ""


def picture_looks() -> dict[str, Json]:
    """Colours for white and black backgrounds, and margins."""
    return {"padding": _PADDING, "config": _LOOKS}


def _only(group: str, inner: Mapping[str, Json]) -> dict[str, Json]:
    transform = inner.get("transform", [])
    of_group: Json = {"filter": {"field": "group", "equal": group}}
    return {**inner, "transform": [of_group, *(transform if isinstance(transform, list) else [])]}


def _drawn(answer: Answer, wanted: set[str] | None) -> tuple[list[Json], list[str], list[Json]]:
    """Rows of the groups that are drawn, names, and notes below the title.

    `wanted` are columns; None: no rows."""
    places = {name: place for place, name in enumerate(answer.columns) if wanted is not None and name in wanted}
    numbers = _groups(answer)
    kept = sorted(set(numbers))[:_MOST_GROUPS]
    titles = {number: answer.scope[number] if number < len(answer.scope) else "" for number in kept}
    rows: list[Json] = [
        {**{name: _plain(row[place]) for name, place in places.items()}, "group": titles[number]}
        for row, number in zip(answer.rows, numbers, strict=True)
        if wanted is not None and number in titles
    ]
    said: list[Json] = [titles[kept[0]]] if len(kept) == 1 and _GROUP in answer.columns else []
    if left := len(set(numbers)) - len(kept):
        said.append(f"{left} more groups are not drawn: name a model, a workload or a format")
    held = answer.question.limits.given
    if told := [f"{one.called} <= {limit:g} {one.option.unit}" for one, limit in held if not one.least]:
        said.append(", ".join(told))
    return rows, list(titles.values()), said


def _fields(node: Json) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "field" and isinstance(value, str):
                yield value
            elif name in {"filter", "calculate"} and isinstance(value, str):
                yield from _READ.findall(value)
            else:
                yield from _fields(value)
    elif isinstance(node, list):
        for item in node:
            yield from _fields(item)


def _spoken(node: Json, varied: Sequence[str]) -> Json:
    """Varied limits in place of `{first}` and `{second}`."""
    if isinstance(node, dict):
        return {name: _spoken(value, varied) for name, value in node.items()}
    if isinstance(node, list):
        return [_spoken(item, varied) for item in node]
    if isinstance(node, str) and node in _PLACES:
        place = _PLACES.index(node)
        return _VARIED[varied[place]] if place < len(varied) else "limit"
    return node


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _plain(value: object) -> Json:
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
