"""Stored answers at steps of limits and devices, for a report's sliders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, log10, prod
from typing import TYPE_CHECKING

from queries.asking import limit_named, limit_table, moved_times, question_of
from queries.judging import HELD
from sweepdb.planning import carrying_order

if TYPE_CHECKING:
    from queries.session import Session

# Of a slider, besides the limit asked for and none at all.
MOST_STOPS = {one.name: 4 if one.apart else 8 for one in moved_times()}
FEW_STOPS = {one.name: 4 for one in moved_times() if not one.apart}  # where every combination is a question
BUDGETS = (0.25, 0.5, 1.0, 2.0)  # of the devices asked for
_MANTISSAS = ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
_REPORT = "deployments"
_DEVICES = "devices"
Row = Mapping[str, object]
Limit = float | None  # None: no limit
Places = tuple[int, ...]
Ranges = Mapping[str, tuple[float, float]]  # the shortest and longest of each time that matter
_Answers = dict[Limit, dict[tuple[str, str], int]]  # by devices, the best of each device and kind: places of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """With its asked place; those of times end with no limit."""

    name: str
    stops: tuple[Limit, ...]
    asked: int

    @property
    def called(self) -> str:
        return limit_named(self.name).called if self.is_time else self.name

    @property
    def keyword(self) -> str:
        return _keyword(self.name)

    @property
    def is_time(self) -> bool:
        return self.name != _DEVICES


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Deployments at each combination, best first.

    `winners` index `rows` by places of `sliders`."""

    sliders: tuple[Slider, ...]
    rows: tuple[Row, ...]
    winners: Mapping[Places, Places]
    questions: int  # that the store was asked: answers of wider limits that keep narrower ones are theirs, too

    @property
    def asked(self) -> Places:
        return tuple(slider.asked for slider in self.sliders)

    def line(self, name: str) -> list[tuple[Limit, Places]]:
        place = [slider.name for slider in self.sliders].index(name)
        found = []
        for number, limit in enumerate(self.sliders[place].stops):
            at = (*self.asked[:place], number, *self.asked[place + 1 :])
            found.append((limit, self.winners[at]))
        return found

    def __len__(self) -> int:
        return prod(len(slider.stops) for slider in self.sliders)


def answered_stops(session: Session, given: Mapping[str, object], ranges: Ranges) -> Stops:
    """At every combination; an answer covers all device counts.

    What wins under wider limits and keeps narrower ones wins there, so most need no question. With a confidence a row
    does not tell which limits it keeps: all are asked, so there are fewer, without end-to-end."""
    reusing = given.get("confidence") is None
    sliders = tuple(_sliders(given, ranges if reusing else {name: ranges[name] for name in FEW_STOPS}, reusing=reusing))
    of_devices = tuple(slider for slider in sliders if not slider.is_time)
    of_times = sliders[len(of_devices) :]
    kept = _Kept()
    found: dict[Places, _Answers] = {}
    questions = 0
    for at in product(*(range(len(slider.stops) - 1, -1, -1) for slider in of_times)):
        limits = {slider.name: slider.stops[place] for slider, place in zip(of_times, at, strict=True)}
        wider = [found[one] for one in _wider(of_times, at)] if reusing else []
        known = kept.reused(wider, limits)
        if known is None:
            asked = moved(given, {**limits, **{slider.name: slider.stops[-1] for slider in of_devices}})
            asked["budgets"] = [f"{stop:.0f}" for slider in of_devices for stop in slider.stops if stop is not None]
            known = kept.answered(session.ask(question_of(_REPORT, asked)).dicts())
            questions += 1
        found[at] = known
    stops = of_devices[0].stops if of_devices else (None,)
    winners = {
        ((number, *at) if of_devices else at): kept.best_first(known.get(stop, {}).values())
        for at, known in found.items()
        for number, stop in enumerate(stops)
    }
    return Stops(sliders=sliders, rows=tuple(kept.rows), winners=winners, questions=questions)


def moved(given: Mapping[str, object], limits: Mapping[str, Limit]) -> dict[str, object]:
    """Other limits or devices. Without limits there is no confidence."""
    asked = {**given, **{_keyword(name): value for name, value in limits.items()}}
    if asked.get("num_devices") is not None:
        asked["num_devices"] = int(float(str(asked["num_devices"])))
    if all(asked.get(one.keyword) is None for one in limit_table() if one.errors_known):
        asked["confidence"] = None
    return asked


class _Kept:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._places: dict[tuple[object, ...], int] = {}

    def answered(self, rows: Iterable[Row]) -> _Answers:
        found: _Answers = {}
        for row in rows:
            kinds = found.setdefault(_limit(row["budget"]), {})
            # Whether limits hold is of the limits asked, and a row is kept for others, too.
            kinds[str(row["device"]), str(row["mode"])] = self._place(
                {name: value for name, value in row.items() if name not in HELD.values()}
            )
        return found

    def reused(self, wider: Sequence[_Answers], limits: Mapping[str, Limit]) -> _Answers | None:
        """None where a winner breaks a limit."""
        if not wider:
            return None
        found: _Answers = {}
        everything = {(number, one) for answers in wider for number, kinds in answers.items() for one in kinds}
        for stop, kind in everything:
            places = [answers.get(stop, {}).get(kind) for answers in wider]
            if None in places:
                continue  # nothing of this kind under wider limits, so that there is nothing here
            kept = next((place for place in places if place is not None and self._keeps(place, limits)), None)
            if kept is None:
                return None
            found.setdefault(stop, {})[kind] = kept
        return found

    def best_first(self, places: Iterable[int]) -> Places:
        return tuple(sorted(places, key=lambda place: carrying_order(self.rows[place])))

    def _place(self, row: Row) -> int:
        same = tuple(row[name] for name in row if name != "rank")
        if same not in self._places:
            self._places[same] = len(self.rows)
            self.rows.append(row)
        return self._places[same]

    def _keeps(self, place: int, limits: Mapping[str, Limit]) -> bool:
        return all(_within(self.rows[place][str(limit_named(name).metric)], limit) for name, limit in limits.items())


def _wider(sliders: Sequence[Slider], at: Places) -> Iterator[Places]:
    for number, slider in enumerate(sliders):
        if at[number] + 1 < len(slider.stops):
            yield (*at[:number], at[number] + 1, *at[number + 1 :])


def _sliders(given: Mapping[str, object], ranges: Ranges, *, reusing: bool) -> Iterator[Slider]:
    asked = given.get(_keyword(_DEVICES))
    if isinstance(asked, int | float):
        budgets = sorted({float(int(asked * share)) for share in BUDGETS if int(asked * share) >= 1})
        yield Slider(name=_DEVICES, stops=tuple(budgets), asked=budgets.index(float(asked)))
    for name, span in ranges.items():
        limit = _limit(given.get(_keyword(name)))
        stops = _stops(limit, *span, most=(MOST_STOPS if reusing else FEW_STOPS)[name])
        yield Slider(name=name, stops=stops, asked=stops.index(limit))


def _stops(asked: Limit, least: float, most_ms: float, *, most: int) -> tuple[Limit, ...]:
    """Round numbers around the rows' values, and the limit asked. None ends them."""
    for mantissas in _MANTISSAS:
        numbers = [number for number in _round_numbers(least, most_ms, mantissas) if number != asked]
        if len(numbers) <= most:
            break
    numbers = numbers[-most:]
    return (*sorted([*numbers, *([] if asked is None else [asked])]), None)


def _round_numbers(least: float, most: float, mantissas: Sequence[float]) -> Iterator[float]:
    decades = range(floor(log10(least)) - 1, floor(log10(most)) + 2)
    numbers = [float(f"{mantissa * 10.0**decade:.6g}") for decade in decades for mantissa in mantissas]
    below = max(number for number in numbers if number <= least)
    above = min(number for number in numbers if number >= most)
    yield from (number for number in numbers if below <= number <= above)


def _keyword(name: str) -> str:
    return "num_devices" if name == _DEVICES else limit_named(name).keyword


def _within(value: object, limit: Limit) -> bool:
    return limit is None or (isinstance(value, int | float) and value <= limit)


def _limit(value: object) -> Limit:
    return float(value) if isinstance(value, int | float) else None
