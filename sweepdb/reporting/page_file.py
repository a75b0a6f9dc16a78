"""HTML files without a network, whose script is allowed by its digest alone."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from store.texts import Html, element, embedded, escaped, html_page
from sweepdb.reporting.drawing import drawing_engine, drawn, vega_script
from sweepdb.reporting.page_parts import CELLS, cells_of, page_parts
from sweepdb.reporting.page_text import amount, cell_text, listed, paragraph, preformatted, table_text
from sweepdb.reporting.pictures import frontier_picture, won_mark

if TYPE_CHECKING:
    from queries.asking import Json
    from sweepdb.reporting.contents import Contents
if TYPE_CHECKING:
    from sweepdb.planning.arriving import RatePlan


_FOLDER = Path(__file__).parent
_WIDTH = 640  # of the still picture, which a script replaces by one as wide as the page
# The one style that Vega sets as an attribute, on the box that it measures text with.
_STYLE_OF_VEGA = "'sha256-MmUum7+PiN7Rz79EUMm0OmUFWjCx6NZ97rdjoIbTnAg='"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """Scripts and style, as the page's policy names them."""

    style: str
    scripts: tuple[str, ...]

    @property
    def policy(self) -> str:
        scripts = " ".join(map(_digest, self.scripts)) or "'none'"
        return (
            f"default-src 'none'; script-src {scripts}; img-src data:; base-uri 'none'; form-action 'none'; "
            f"style-src 'unsafe-hashes' {_digest(self.style)} {_STYLE_OF_VEGA}"
        )


def report_page(decision: Contents, *, command: str, spoken: Callable[[str], str]) -> str:
    """`command` repeats it; `spoken` writes `keyword` as typed."""
    drawing_engine()
    best = _winners(decision)
    limit = decision.answer.question.limits.tpot_ms
    marked = decision.answer.tpot == "exclusive"  # then a TPOT is a speed of the picture
    picture = None
    if decision.frontier.rows:
        picture = frontier_picture(decision.frontier, best if marked else (), limit if marked else None)
    still = None if picture is None else _still(drawn({**picture, "width": _WIDTH}, "svg"))
    parts = page_parts(decision, best, command=command, spoken=spoken, still=still)
    data = _data(decision, picture, marked=marked)
    pieces = _Pieces(
        style=_text("report.css"),
        scripts=(f"(() => {{ {vega_script()} }})();", _text("report.js")),
    )
    held = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    below = [embedded("script", held, type="application/json", id="data")]
    below += [embedded("script", script) for script in pieces.scripts]
    title = f"{parts[0][0]}: {decision.answer.scope[0]}"
    return str(_page(pieces, title, _sections(parts), below))


def plain_page(title: str, text: Iterable[Html]) -> str:
    pieces = _Pieces(style=_text("report.css"), scripts=())
    return str(_page(pieces, title, [element("h1", title), "\n", *text], []))


def _sections(parts: Sequence[tuple[str, Html]]) -> Iterator[Html | str]:
    for place, (heading, text) in enumerate(parts):
        yield element("section", "\n", element("h2" if place else "h1", heading), "\n", text)
        yield "\n"


def _page(pieces: _Pieces, title: str, inner: Iterable[Html | str], below: Iterable[Html]) -> Html:
    head = [
        element("meta", http_equiv="Content-Security-Policy", content=pieces.policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        embedded("style", pieces.style),
    ]
    body = [element("main", "\n", *inner), *below]
    return html_page([part for one in head for part in (one, "\n")], [part for one in body for part in (one, "\n")])


def _winners(decision: Contents) -> list[Mapping[str, object]]:
    if decision.stops is None:
        return []
    stops = decision.stops
    return [stops.rows[place] for place in stops.winners[stops.asked]]


def _data(decision: Contents, picture: dict[str, Json] | None, *, marked: bool) -> dict[str, Json]:
    stops = decision.stops
    pairs = decision.answer.question.pairs
    if stops is None:
        return {"picture": picture}
    return {
        "picture": picture,
        "marked": marked,
        "sliders": [
            {"name": one.name, "called": one.called, "stops": list(one.stops), "asked": one.asked}
            for one in stops.sliders
        ],
        "winners": [list(stops.winners[at]) for at in product(*(range(len(one.stops)) for one in stops.sliders))],
        "cost": [name for name, _ in CELLS].index("usd_per_hour"),
        "target": pairs.target_qps is not None or pairs.target_users is not None,
        "rows": [_row(decision, row) for row in stops.rows],
    }


def _row(decision: Contents, row: Mapping[str, object]) -> dict[str, Json]:
    paid = amount(row["devices_used"]) + (amount(row["devices_idle"]) if row["carries_target"] is None else 0.0)
    served = (
        amount(row["served_requests_per_s"]) / amount(row["system_requests_per_s"])
        if amount(row["system_requests_per_s"])
        else 0.0
    )
    return {
        "sentence": escaped(decision.plan.sentence(row)),
        "cells": [cell_text(value) for value in cells_of(row)],
        "device": str(row["device"]),
        "carries": row["carries_target"] is not False,
        "qps": amount(row["system_requests_per_s"]),
        "tokens": amount(row["output_tokens_per_s"]) * served,
        "devices": amount(row["devices_used"]),
        "paid": paid,
        "price": None if row["usd_per_device_hour"] is None else amount(row["usd_per_device_hour"]),
        "mark": won_mark(row),
    }


def _still(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + b64encode(svg).decode()


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


_SHOWN = (
    ("rank", "rank"), ("device", "device"), ("quantization", "quantization"), ("deployment", "deployment"),
    ("devices_with_margin", "devices with margin"), ("devices", "devices if predictions hold"),
    ("carries_target", "carries the rate"), ("goodput", "goodput, requests/s"),
    ("goodput_per_instance", "goodput of an instance"), ("attained", "share within the limits"),
    ("usd_per_hour", "USD/h"),
)  # fmt: skip


def rate_page(plan: RatePlan, *, command: str, spoken: Callable[[str], str], errors: Iterator[str]) -> str:
    """`errors` says how far off such predictions have been."""
    title = f"Devices for {plan.answer.question.options.rate:g} requests/s"
    return plain_page(f"{title}: {plan.answer.scope[0]}", _parts(plan, command, spoken, errors))


def _parts(plan: RatePlan, command: str, spoken: Callable[[str], str], errors: Iterator[str]) -> Iterator[Html]:
    first, *others = map(spoken, plan.sentences())
    yield paragraph(first, kind="lead", id_="sentence")
    limits = ", ".join(plan.answer.question.limits.said()) or "none"
    share = 100 * plan.answer.question.options.attainment
    yield paragraph(f"Limits of {share:g} % of the requests: {limits}.", kind="scope", id_="limits")
    yield listed(others)
    for title, rows in plan.tables():
        cells = [[row[name] for name, _ in _SHOWN] for row in rows]
        yield table_text([called for _, called in _SHOWN], cells, named=f"Deployments of {title}")
    if plan.rows:
        yield paragraph(
            "Devices with margin is the number to buy: it carries the rate even if every step takes longer by the"
            " expected error. Goodput: requests/s of which that share is within the limits."
        )
    yield element("h2", "How far off it may be")
    yield listed(map(spoken, errors))
    yield element("h2", "What is assumed")
    yield listed(spoken(f"{note}.") for note in plan.answer.notes)
    yield element("h2", "Where it comes from")
    yield preformatted(command)
