"""Bounds of measured values, given expected errors: how surely limits hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from queries.asking.limits import Limits, predicted_limits
from queries.errors.expected import ExpectedError, Stored, Subject, in_pairs, nearest_error
from queries.errors.spreads import LEVELS
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from queries.asking.question import Answer

SURE, EVEN = 0.9, 0.5  # probabilities from which a row holds: yes, and likely
HELD = {"probe": "holds", "prefill_probe": "prefill_holds", "decode_probe": "decode_holds"}
# In rows of pairs each side is judged by what the pair has of its metrics, such as a wait for its queue.
_SIDES = {"prefill_probe": "prefill", "decode_probe": "decode"}
Predicted = Sequence[float | None]
"""The predictions of one row that limits are compared with, in the order of limits; None where its phase has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Measured over predicted, not exceeded with some probability; None: not in this phase."""

    ttft: float | None = None
    pair_ttft: float | None = None  # of the pairs that a prefill row stands in
    tpot_inclusive: float | None = None  # and of end-to-end times: these are it times the output
    tpot_exclusive: float | None = None  # and of the inverse of a user's tokens/s

    def of_pairs(self) -> Factors:
        """As the pairs of a prefill row; others stay."""
        return self if self.pair_ttft is None else replace(self, ttft=self.pair_ttft)


def ratio_at(error: ExpectedError, probability: float) -> float:
    """Measured / predicted, from the nearest region's quantiles.

    Linear between kept levels: log ratios of 0.05 at 0.8 and 0.15 at 0.9 give 0.10 at 0.85, so with 85 % measured
    values stay within exp(0.10) = 1.105 times the prediction."""
    quantiles = error.quantiles
    for (level, value), (above, higher) in pairwise(zip(LEVELS, quantiles, strict=True)):
        if probability <= above:
            return math.exp(value + (max(probability, level) - level) / (above - level) * (higher - value))
    return math.exp(quantiles[-1])


def factors_of(subject: Subject, stored: Stored, probability: float, servers: str) -> Factors:
    def ratio(metric: str) -> float:
        return ratio_at(nearest_error(subject, metric, stored, servers), probability)

    if subject.phase == "prefill":
        of_pairs = ratio_at(nearest_error(in_pairs(subject, stored), "ttft_ms", stored, servers), probability)
        return Factors(ttft=ratio("ttft_ms"), pair_ttft=of_pairs)
    exclusive = ratio("tpot_exclusive_ms")
    if subject.phase == "decode":  # no prompt is waited for: both definitions are one number
        return Factors(tpot_inclusive=exclusive, tpot_exclusive=exclusive)
    return Factors(ttft=ratio("ttft_ms"), tpot_inclusive=ratio("tpot_inclusive_ms"), tpot_exclusive=exclusive)


def holds(row: Predicted, limits: Limits, tpot_rule: str, factors_at: Callable[[float], Factors]) -> str | None:
    """`yes` from 90 %, `likely` from 50 %, else `no`; None without limits.

    Each limit by itself: how errors of two metrics correlate is not kept."""
    return _said_of(row, _levels(limits, tpot_rule, factors_at))


_Check = tuple[int, float, float, bool]  # the place of a value, its factor, its limit, and whether that is the least
_Level = tuple[str, list[_Check]]  # a word, and what is compared before it is said


def _checks(limits: Limits, factors: Factors, tpot_rule: str) -> list[_Check]:
    """The same for every row of a subject."""
    asked = {one.name: limit for one, limit in limits.given}
    known = [
        (place, None if (name := one.factor_by(tpot_rule)) is None else getattr(factors, name), one)
        for place, one in enumerate(predicted_limits())
        if one.name in asked
    ]
    return [(place, factor, asked[one.name], one.least) for place, factor, one in known if factor is not None]


def _levels(limits: Limits, tpot_rule: str, factors_at: Callable[[float], Factors]) -> tuple[_Level, ...]:
    return tuple(
        (said, _checks(limits, factors_at(level), tpot_rule)) for level, said in ((SURE, "yes"), (EVEN, "likely"))
    )


def _said_of(values: Sequence[float | None], levels: Iterable[_Level]) -> str | None:
    """A metric that the row lacks limits nothing. Runs for thousands of rows."""
    for said, checks in levels:
        kept, looked_at = True, False
        for place, factor, limit, least in checks:
            value = values[place]
            if value is None:
                continue
            looked_at = True
            if not (value / factor >= limit if least else value * factor <= limit):
                kept = False
        if not looked_at:
            return None
        if kept:
            return said
    return "no"


def with_holds(
    answer: Answer,
    predicted: Mapping[str, Predicted],
    subjects: Mapping[str, Subject],
    factors: Callable[[Subject, float], Factors],
    own: Callable[[str, Predicted], str | None] | None,
) -> Answer:
    """Adds a column beside each that names probes.

    `predicted` is by probe, `subjects` by the scenario part of its name; `own` has words from own runs."""
    said = _Said(answer, predicted, subjects, factors, own)
    columns, rows = said.added(answer.columns, answer.rows)
    nearest_columns, nearest = said.added(answer.nearest_columns, answer.nearest)
    return replace(answer, columns=columns, rows=rows, nearest_columns=nearest_columns, nearest=nearest)


class _Said:
    """Works out comparisons once a subject."""

    def __init__(
        self,
        answer: Answer,
        predicted: Mapping[str, Predicted],
        subjects: Mapping[str, Subject],
        factors: Callable[[Subject, float], Factors],
        own: Callable[[str, Predicted], str | None] | None,
    ) -> None:
        self._own = own
        self._limits = answer.question.limits
        self._predicted, self._subjects, self._factors = predicted, subjects, factors
        self._crossing = {one.probe for one in answer.ttft_intervals if one.parted_by(self._limits.ttft_ms)}
        self._levels: dict[tuple[int, bool], tuple[_Level, ...]] = {}  # by the subject's identity: hashing is slow

    def added(
        self, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]
    ) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
        named = [name for name in HELD if name in columns]
        if not named:
            return columns, tuple(rows)
        held = list(rows)
        judged = (self._column(name, columns, held) for name in named)
        beside = tuple(row + said for row, said in zip(held, zip(*judged, strict=True), strict=True))
        return (*columns, *(HELD[name] for name in named)), beside

    def _column(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str | None]:
        """By row, of the probes in one column."""
        place = columns.index(name)
        own = [
            (number, columns.index(str(one.metric)))
            for number, one in enumerate(predicted_limits())
            if _SIDES.get(name) in one.phases and one.metric in columns
        ]
        levels: dict[str, tuple[_Level, ...] | None] = {}  # by scenario
        for row in rows:
            probe = str(row[place])
            scenario = probe.partition(":")[0]
            if scenario not in levels:
                levels[scenario] = self._levels_of(scenario, of_pair=name == "prefill_probe")
            found, checks = self._predicted.get(probe), levels[scenario]
            if found is None or checks is None:
                yield None
                continue
            values = found
            if own:
                values = list(found)
                for measure, column in own:
                    if values[measure] is not None:
                        values[measure] = number_or_none(row[column])
            said = (self._own and self._own(probe, values)) or _said_of(values, checks)
            # Users who stay in step miss the limit that those who drift apart keep, or the other way: nobody is sure.
            yield "likely" if said == "yes" and probe in self._crossing else said

    def _levels_of(self, scenario: str, *, of_pair: bool) -> tuple[_Level, ...] | None:
        subject = self._subjects.get(scenario)
        if subject is None:
            return None
        known = self._levels.get((id(subject), of_pair))
        if known is not None:
            return known

        def factors_at(level: float) -> Factors:
            factors = self._factors(subject, level)
            return factors.of_pairs() if of_pair else factors

        told = self._levels[id(subject), of_pair] = _levels(self._limits, subject.tpot_rule, factors_at)
        return told


def number_or_none(value: object) -> float | None:
    if isinstance(value, float):  # nearly all of thousands
        return value
    return float(value) if isinstance(value, int) else None


def is_measured(reference: object) -> bool:
    return isinstance(reference, str) and ":" not in reference  # a stored row is scenario:batch size
