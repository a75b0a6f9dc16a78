"""The HTML file of a plan for a rate: what to buy, from which simulations, and how far off they may be.

Nothing in it moves: a report with sliders is about users who wait (sweepdb.reporting.page_file)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from store.texts import Html, element
from sweepdb.reporting.page_file import plain_page
from sweepdb.reporting.page_text import listed, paragraph, preformatted, table_text

if TYPE_CHECKING:
    from sweepdb.planning.arriving import RatePlan

_SHOWN = (
    ("rank", "rank"), ("device", "device"), ("quantization", "quantization"), ("deployment", "deployment"),
    ("devices_with_margin", "devices with margin"), ("devices", "devices if predictions hold"),
    ("carries_target", "carries the rate"), ("goodput", "goodput, requests/s"),
    ("goodput_per_instance", "goodput of an instance"), ("attained", "share within the limits"),
    ("usd_per_hour", "USD/h"),
)  # fmt: skip


def rate_page(plan: RatePlan, *, command: str, spoken: Callable[[str], str], errors: Iterator[str]) -> str:
    """The whole file; `errors` says how far such predictions have been off."""
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
