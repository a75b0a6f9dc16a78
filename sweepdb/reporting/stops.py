"""Answers at steps of the limits on TTFT and TPOT: what the sliders of a report show, each asked of the store.

Not here: how they look (sweepdb.reporting.page_file and its script)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING

from queries.asking import question_of
from sweepdb.planning import carrying_order

if TYPE_CHECKING:
    from queries.session import Session

MOST_STOPS = 10  # of a slider, besides the limit asked for and none at all
_MANTISSAS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_REPORT = "deployments"
_LIMITS = ("ttft_limits", "tpot_limits", "e2e_limits", "min_tokens_per_s_per_user")
Row = Mapping[str, object]
Limit = float | None  # None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """The limits that were asked about, and of each pair of them the deployments that satisfy it, the best first.

    `winners[first][second]` are places in `rows` at limit `first` of `ttft` and `second` of `tpot`."""

    ttft: tuple[Limit, ...]
    tpot: tuple[Limit, ...]
    asked: tuple[int, int]
    rows: tuple[Row, ...]
    winners: tuple[tuple[tuple[int, ...], ...], ...]
    questions: int  # that the store was asked: answers of wider limits that keep narrower ones are theirs, too


def answered_stops(session: Session, given: Mapping[str, object], ranges: Sequence[tuple[float, float]]) -> Stops:
    """Ask the store at every pair of limits; `ranges` are the shortest and longest TTFT and TPOT that matter.

    What wins under wider limits and keeps narrower ones wins under these: most pairs need no question of their own.
    Read with a confidence, a row does not say which limits it keeps, so that every pair is asked."""
    limits = [_limit(given.get(keyword)) for keyword in ("ttft_limits", "tpot_limits")]
    ttft, tpot = (_stops(limit, *span) for limit, span in zip(limits, ranges, strict=True))
    reusing = given.get("confidence") is None
    rows: dict[tuple[object, ...], int] = {}
    kept: list[Row] = []
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    questions = 0
    for first in reversed(range(len(ttft))):
        for second in reversed(range(len(tpot))):
            wider = [found[place] for place in ((first + 1, second), (first, second + 1)) if place in found]
            known = next((one for one in wider if _keep([kept[each] for each in one], ttft[first], tpot[second])), None)
            if known is not None and reusing:
                found[first, second] = known
                continue
            answer = session.ask(question_of(_REPORT, limited(given, ttft[first], tpot[second])))
            questions += 1
            places = []
            for row in sorted(answer.dicts(), key=carrying_order):
                same = tuple(row[name] for name in row if name != "rank")
                if same not in rows:
                    rows[same] = len(kept)
                    kept.append(row)
                places.append(rows[same])
            found[first, second] = tuple(places)
    return Stops(
        ttft=ttft,
        tpot=tpot,
        asked=(ttft.index(limits[0]), tpot.index(limits[1])),
        rows=tuple(kept),
        winners=tuple(tuple(found[first, second] for second in range(len(tpot))) for first in range(len(ttft))),
        questions=questions,
    )


def limited(given: Mapping[str, object], ttft: Limit, tpot: Limit) -> dict[str, object]:
    """A question with other limits on TTFT and TPOT. A confidence reads limits: without one left, there is none."""
    asked = {**given, "ttft_limits": ttft, "tpot_limits": tpot}
    if all(asked.get(name) is None for name in _LIMITS):
        asked["confidence"] = None
    return asked


def _stops(asked: Limit, least: float, most: float) -> tuple[Limit, ...]:
    """Round numbers from below the least value of a row to above the most, and the limit asked for. None ends them."""
    for mantissas in _MANTISSAS:
        numbers = [number for number in _round_numbers(least, most, mantissas) if number != asked]
        if len(numbers) <= MOST_STOPS:
            break
    numbers = numbers[-MOST_STOPS:]
    return (*sorted([*numbers, *([] if asked is None else [asked])]), None)


def _round_numbers(least: float, most: float, mantissas: Sequence[float]) -> Iterator[float]:
    """Of the numbers with these mantissas those between the two, and the next on either side."""
    decades = range(floor(log10(least)) - 1, floor(log10(most)) + 2)
    numbers = [float(f"{mantissa * 10.0**decade:.6g}") for decade in decades for mantissa in mantissas]
    below = max(number for number in numbers if number <= least)
    above = min(number for number in numbers if number >= most)
    yield from (number for number in numbers if below <= number <= above)


def _keep(rows: Sequence[Row], ttft: Limit, tpot: Limit) -> bool:
    return all(_within(row["ttft_ms"], ttft) and _within(row["tpot_ms"], tpot) for row in rows)


def _within(value: object, limit: Limit) -> bool:
    return limit is None or (isinstance(value, int | float) and value <= limit)


def _limit(value: object) -> Limit:
    return float(value) if isinstance(value, int | float) else None
