"""Configurations to simulate for a rate: those that can need the fewest devices.

A closed loop bounds goodput: no measured ladder exceeded 0.96 of what its loop finishes at 1.25 times the TPOT
limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from queries.connect import StoreConnection
from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import FORMULA_MODELS
from sweepdb.planning.ranking import number_of

SLACK = 1.25  # of limits on times, in bounds
FIRST = 4  # of each lot and phase in the first round; each further one takes twice as many
_IDS = """
SELECT DISTINCT i.scenario_id FROM sweep_interval i JOIN sweep s ON s.id = i.sweep_id WHERE s.key = ?
"""
_CEILINGS = """
SELECT
    scenario, phase,
    concat_ws(' ', device, serving_model, workload_key, linear_quantization, experts_quantization,
        attention_quantization) AS lot,
    num_devices,
    coalesce(max(requests_per_s) FILTER (
        WHERE phase = 'prefill' OR (tpot_exclusive_ms <= $tpot_ms AND (e2e_ms <= $e2e_ms) IS NOT FALSE)
    ), 0) AS most_per_s,
    coalesce(min(ttft_ms), 0) AS lone_ttft_ms
FROM feasible
WHERE scenario_id IN (SELECT unnest($scenarios::BIGINT[]))
    AND ($e2e_ms = 'inf' OR phase = 'aggregated')
    AND NOT list_contains($formulas::VARCHAR[], serving_model)
GROUP BY ALL
"""


class Ceiling(NamedTuple):
    """The most requests/s of an instance within limits."""

    scenario: str
    phase: str
    lot: str  # device, formats, workload and engine: configurations of one compete
    num_devices: int
    most_per_s: float
    lone_ttft_ms: float

    @property
    def other(self) -> str | None:
        """A deployment needs both phases."""
        return {"prefill": "decode", "decode": "prefill"}.get(self.phase)

    def fewest(self, rate: float) -> float:
        return self.num_devices * ceil(rate / self.most_per_s - 1e-9)


@dataclass(frozen=True, slots=True)
class Known:
    """By lot and mode; what is missing carries nothing."""

    devices: Mapping[tuple[str, str], float]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, object]], ceilings: Collection[Ceiling]) -> Known:
        lots = {one.scenario: one.lot for one in ceilings}
        found: dict[tuple[str, str], float] = {}
        for row in rows:
            keys = [row[name] for name in ("scenario", "prefill_scenario", "decode_scenario") if row[name] is not None]
            of_row = {lots.get(str(key), "") for key in keys}
            if len(of_row) == 1:  # sides of two devices or formats compete with none
                place = (of_row.pop(), str(row["mode"]))
                found[place] = min(number_of(row["devices"]), found.get(place, inf))
        return cls(found)


def ceilings_of(
    location: StoreLocation, sweep: str, *, ttft_ms: float, tpot_ms: float, e2e_ms: float
) -> tuple[Ceiling, ...]:
    with read_transaction(location) as transaction:
        ids = list(transaction.values(int, _IDS, (sweep,)))
    with StoreConnection(location) as connection:
        connection.narrow_to(ids)
        asked = {"scenarios": ids, "tpot_ms": SLACK * tpot_ms, "e2e_ms": SLACK * e2e_ms,
                 "formulas": sorted(FORMULA_MODELS)}  # fmt: skip
        rows = [Ceiling(*row) for row in connection.execute(_CEILINGS, asked).fetchall()]
    found = [one for one in rows if one.most_per_s > 0 and one.lone_ttft_ms <= SLACK * ttft_ms]
    phases = {(one.lot, one.phase) for one in found}
    return tuple(sorted(one for one in found if one.other is None or (one.lot, one.other) in phases))


class Rounds:
    """Until nothing left could need as few devices."""

    def __init__(self, ceilings: Sequence[Ceiling], rate: float) -> None:
        self._ceilings, self._rate = ceilings, rate
        self._size = FIRST
        self.tried: set[str] = set()

    def left(self, known: Known) -> list[Ceiling]:
        """The most promising first."""
        found = [one for one in _that_matter(self._ceilings, self._rate, known) if one.scenario not in self.tried]
        return sorted(found, key=lambda one: (one.fewest(self._rate), -one.most_per_s / one.num_devices))

    def next(self, known: Known) -> list[str]:
        taken: dict[tuple[str, str], int] = defaultdict(int)
        found: list[str] = []
        for one in self.left(known):
            taken[one.lot, one.phase] += 1
            if taken[one.lot, one.phase] <= self._size:
                found.append(one.scenario)
        self._size *= 2
        self.tried.update(found)
        return found


def _that_matter(ceilings: Sequence[Ceiling], rate: float, known: Known) -> Iterator[Ceiling]:
    cheapest: dict[tuple[str, str], float] = defaultdict(lambda: inf)
    for one in ceilings:
        place = (one.lot, one.phase)
        cheapest[place] = min(cheapest[place], one.fewest(rate))
    for one in ceilings:
        beside = 0.0 if one.other is None else cheapest[one.lot, one.other]
        mode = "aggregated" if one.other is None else "pd"
        if one.fewest(rate) + beside <= known.devices.get((one.lot, mode), inf):
            yield one
