"""`plan` for a rate: evaluates what the store lacks, simulates what can matter, asks `capacity`.

Simulated are configurations that can need the fewest devices. A closed loop bounds goodput: no measured ladder exceeded
0.96 of what its loop finishes at 1.25 times the TPOT limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from evaluator.arrivals import SEATS
from queries.asking import question_of
from queries.connect import StoreConnection
from queries.session import Session
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.reading import read_transaction
from store.schema import FORMULA_MODELS
from sweepdb.planning.arriving import Longer, Order, RatePlan, rows_of_a_device
from sweepdb.planning.planning_options import REPORT_OF_RATES, longer_limits
from sweepdb.planning.ranking import number_of
from sweepdb.planning.stored_sweeps import stored_scenarios
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from store.location import StoreLocation
    from sweepdb.evaluating.requests import BuiltRequest
    from sweepdb.planning.formats import LookedAt
    from sweepdb.planning.planning_options import Asked


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


_MISSED = 5
_LARGEST = """
SELECT sc.key, max(i.last_batch_size) AS batch
FROM sweep_interval i JOIN sweep s ON s.id = i.sweep_id JOIN scenario sc ON sc.id = i.scenario_id
WHERE s.key = ? AND i.last_batch_size > 0
GROUP BY sc.key
"""


class _Largest(NamedTuple):
    key: str
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """A rate that is asked about, and the stored rows that bound what can carry it."""

    asked: Asked
    about: LookedAt
    store: str | None
    closed: str  # the sweep of users who wait
    jobs: int
    progress: Callable[[Progress], None]
    say: Callable[[Sequence[str]], None]

    @property
    def rate(self) -> float:
        return number_of(self.asked.own.rate)

    @property
    def built(self) -> BuiltRequest:
        return self.about.built

    @property
    def order(self) -> Order:
        return Order(budget=self.asked.budget, rank_by=self.asked.own.rank_by)

    @property
    def location(self) -> StoreLocation:
        return parse_url(self.store)

    def planned(self, evaluated: int) -> RatePlan | None:
        """The answer; None where no stored row is near the limits, so that nothing is worth a simulation."""
        limits = {
            name.replace("limit", "ms"): number_of(self.asked.question.get(name), inf)
            for name in ("ttft_limit", "tpot_limit", "e2e_limit")
        }
        ceilings = ceilings_of(self.location, self.closed, **limits)
        if not ceilings:
            return None
        sweep = self._stored(ceilings) or self._simulated(ceilings)
        with open_session(self.store) as session:
            return self._answered(session, sweep, ceilings, evaluated)

    def _stored(self, ceilings: Sequence[Ceiling]) -> str | None:
        """The newest sweep that simulated all that can matter."""
        found = stored_scenarios(self.built.parts, self.location, self.built.arrivals)
        if found is None:
            return None
        sweep, scenarios = found
        rounds = Rounds(ceilings, self.rate)
        rounds.tried.update(scenarios)
        return None if rounds.left(self._known(sweep, ceilings)) else sweep

    def _simulated(self, ceilings: Sequence[Ceiling]) -> str:
        """The sweep of simulations, those that matter."""
        from sweepdb.evaluating.running import evaluate_requests  # half a second of imports

        rounds = Rounds(ceilings, self.rate)

        def choose(sweep: str) -> list[str]:
            found = rounds.next(self._known(sweep, ceilings) if rounds.tried else Known({}))
            if found:
                self.say((f"simulating {len(found)} of {len(ceilings)} configurations that can carry requests",))
            return found

        report = evaluate_requests(
            self.built.parts,
            self.store,
            jobs=self.jobs,
            on_progress=self.progress,
            arrivals=self.built.arrivals,
            rounds=choose,
        )
        if report.interrupted:  # what was stored is kept; the same call again goes on
            raise KeyboardInterrupt
        if not report.loads_stored + report.loads_known:
            reason = report.unplayed[0].reason if report.unplayed else "no configuration takes them"
            raise InputError(f"no requests that arrive could be simulated: {reason}")
        return report.sweep

    def _known(self, sweep: str, ceilings: Sequence[Ceiling]) -> Known:
        with open_session(self.store) as session:
            try:
                return Known.of(self._capacity(session, sweep, {}).dicts(), ceilings)
            except InputError:  # no requests could be simulated so far: the next round may
                return Known({})

    def _capacity(self, session: Session, sweep: str, other: Mapping[str, object]) -> Answer:
        """The report `capacity` about the same question; a budget does not change what a rate takes."""
        return session.ask(question_of(REPORT_OF_RATES, {**self.asked.of_rate, "sweep": sweep, **other}))

    def _answered(self, session: Session, sweep: str, ceilings: Sequence[Ceiling], evaluated: int) -> RatePlan:
        answer = self._capacity(session, sweep, {})
        _, stored = stored_scenarios(self.built.parts, self.location, self.built.arrivals) or ("", frozenset())
        return RatePlan(
            answer=answer,
            rows=self.order.chosen(answer, self.about),
            sweep=sweep,
            budget=self.asked.budget,
            configurations=len(ceilings),
            simulated=sum(one.scenario in stored for one in ceilings),
            probes_evaluated=evaluated,
            notes=(*self.asked.notes, *self.built.notes),
            longer=tuple(self._longer(session, sweep)) if answer.rows else (),
            within=self._within(session, sweep, answer),
            missed=None if answer.rows else self._goodputs(session, sweep, {"mode": "aggregated", "top": _MISSED}),
            references=self._references(),
            store=session.location,
            about=self.about,
            order=self.order,
        )

    def _longer(self, session: Session, sweep: str) -> Iterator[Longer]:
        for one, longer in longer_limits(self.asked.question):
            answer = self._capacity(session, sweep, {one.keyword: longer})
            yield Longer(about=one, limit=longer, best=self.order.first(rows_of_a_device(answer)))

    def _within(self, session: Session, sweep: str, answer: Answer) -> float | None:
        """The most requests/s of a budget that no deployment fits."""
        if self.asked.budget is None or not answer.rows or any(row["carries_target"] for row in answer.dicts()):
            return None
        modes = dict.fromkeys(str(row["mode"]) for row in answer.dicts())
        asked = {"num_devices": self.asked.budget, "top": 1}
        found = [self._goodputs(session, sweep, {"mode": mode, **asked}).dicts() for mode in modes]
        rates = [row.get("system_goodput", row["goodput"]) for rows in found for row in rows]
        return max((rate for rate in rates if isinstance(rate, float)), default=None)

    def _goodputs(self, session: Session, sweep: str, other: Mapping[str, object]) -> Answer:
        own, question = self.asked.own, {**self.asked.question, "num_devices": None}
        return session.ask(
            question_of("best", {**question, "attainment": own.attainment, "sweep": sweep, "by": "goodput", **other})
        )

    def _references(self) -> dict[str, str]:
        """The stored row of each scenario with as many requests as a simulation lets in."""
        with read_transaction(self.location) as transaction:
            rows = transaction.rows(_Largest, _LARGEST, (self.closed,))
            return {row.key: f"{row.key[:8]}:{min(row.batch, SEATS)}" for row in rows}
