"""`decide` as a function; starts nothing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

import numpy as np

from queries.asking import Question, question_of
from queries.learning import Region, prior_of
from queries.session import Session
from store.errors import InputError
from store.opening import open_store
from store.writing import get_prices
from sweepdb.deciding.decision import BUDGET, GAIN, MODE, REPORT, Band, Chosen, Decision, Outcome, Run, Rung, Start
from sweepdb.deciding.settings import rungs
from sweepdb.deciding.stored import OwnRun, carried_rates, failed_plans, own_runs, stored_settings
from sweepdb.deciding.worlds import BELIEVED, METRICS, OwnSettings, Wanted, Worlds, candidates
from sweepdb.evaluating.option_values import JOBS, check_jobs
from sweepdb.own_runs import own_points
from sweepdb.planning.answering import stored_or_evaluated
from sweepdb.planning.formats import request_in_formats
from sweepdb.planning.planning_options import asked_of, not_decided
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evaluator.sweep import Progress
    from sweepdb.deciding.pairs import StoredSides
    from sweepdb.deciding.settings import Setting
    from sweepdb.planning.plan_keywords import PlanKeywords  # a stub: types alone

_MOST_RUNGS, _MOST_STARTS, _DRAWN = 4, 20, 3
_REGION: Region = "foreign"  # of priors: nobody has measured this server but who asks
_LEAST_TOLD = 0.02  # probability of an outcome that is worth a line


def decide(
    model: str | os.PathLike[str],
    *,
    store: str | None = None,
    jobs: int = JOBS,
    progress: bool | Callable[[Progress], None] = False,
    on_notes: Callable[[Sequence[str]], None] = lambda _: None,
    budget: int = BUDGET,
    gain: float = GAIN,
    mode: str = MODE,
    ruled_out: Mapping[str, str] | None = None,
    **options: Unpack[PlanKeywords],
) -> Decision:
    """The deployment to take now and the starts worth most for deciding it, by the options of `plan`.

    Evaluates what the store lacks, as `plan` does; then reads rows and the store's measured points."""
    check_jobs(jobs)
    for keyword in sorted(not_decided()):
        if options.get(keyword) is not None:
            raise InputError(f"`{keyword}` has no effect on a decision", hint=f"leave out `{keyword}`")
    asked = asked_of(model, options)
    question_of(REPORT, {**asked.question, "target_rate": asked.own.rate})  # refuses, before anything is evaluated
    built = replace(request_in_formats(asked.evaluated, store).built, arrivals=None)
    sweep, _ = stored_or_evaluated(asked.evaluated, built, store, jobs=jobs, progress=progress, on_notes=on_notes)
    question = question_of(REPORT, {**asked.question, "sweep": sweep, "target_rate": asked.own.rate})
    with open_session(store) as session:
        return decided(session, question, budget=budget, gain=gain, mode=mode, ruled_out=ruled_out)


def decided(
    session: Session,
    question: Question,
    *,
    budget: int = BUDGET,
    gain: float = GAIN,
    mode: str = MODE,
    ruled_out: Mapping[str, str] | None = None,
) -> Decision:
    """By a question of the report `deployments`. Evaluates nothing."""
    if not 1 <= budget <= _MOST_STARTS:
        raise InputError(f"`budget={budget}` is not a number of starts from 1 to {_MOST_STARTS}")
    if not 0.0 < gain < 1.0:
        raise InputError(f"`gain={gain:g}` is not a share between 0 and 1", hint="`gain=0.02` is 2 %")
    stored = stored_settings(session, question, mode)
    wanted = Wanted(
        limits=question.limits,
        pairs=question.pairs,
        prices=_prices(session.location.url, question.options.price_date),
        tpot_rule=stored.curve.tpot,
        believed=question.limits.confidence or BELIEVED,
        carried=carried_rates(session, question) if question.pairs.target_qps is not None else {},
    )
    about = {one.server.scenario_id for one in stored.settings} | stored.sides.scenarios
    own = own_points(session.location, about)
    out = {**failed_plans(session.location, own.failed, stored), **(ruled_out or {})}
    fitting = [one for one in stored.settings if wanted.fits(one) and one.server.scenario not in out]
    runs, teaching = own_runs(session.location, own.points, fitting, stored.sides, prior_of(_REGION))
    kept = {run.setting.probe for run in runs if run.setting is not None}
    of_pairs = _of_pairs(stored.sides, wanted, runs, out)
    all_rungs = (*rungs(fitting, kept), *of_pairs)
    known = candidates(OwnSettings(settings=all_rungs, runs=runs, wanted=wanted, teaching=teaching))
    found = _Deciding(known, known.worlds(), gain)
    next_starts, others = tuple(found.starts(budget)), tuple(found.others())
    drawn = [one.probe.partition(":")[0] for one in others[:_DRAWN]] + [one.scenario for one in next_starts]
    return Decision(
        answer=found.answer,
        others=others,
        next_starts=next_starts,
        decided=found.decided(),
        gain=gain,
        runs=tuple(_run(known, run) for run in runs),
        bands=tuple(_bands(known, all_rungs, set(drawn))),
        disagreements=tuple(known.disagreements()),
        versions_left_out=teaching.versions_left_out,
        ruled_out=out,
        curve=replace(stored.curve, question=question),
        sweep=question.scope.sweep,
        store=session.location,
        simulated=bool(wanted.carried),
    )


def _of_pairs(sides: StoredSides, wanted: Wanted, runs: Sequence[OwnRun], out: Mapping[str, str]) -> Iterator[Setting]:
    """Settings that were run, and every unit. Either pool's name rules out its units."""
    run = [run.setting for run in runs if run.setting is not None and run.setting.pair is not None]
    there = {(one.server, one.concurrency) for one in run}
    for one in (*dict.fromkeys(run), *sides.settings(wanted.pairs.num_devices)):
        names = {one.server.scenario, one.server.scenario.rpartition(" ")[0]}
        if wanted.fits(one) and not names & out.keys() and (one in run or (one.server, one.concurrency) not in there):
            yield one


def _prices(store: str, on: str | None) -> dict[str, float]:
    with open_store(store, read_only=True) as opened:
        dated = sorted(get_prices(opened), key=lambda one: one.effective_from)
    return {
        one.device_name: one.usd_per_device_hour
        for one in dated
        if one.usd_per_device_hour is not None and (on is None or str(one.effective_from)[: len(on)] <= on)
    }


@dataclass(frozen=True, slots=True)
class _Deciding:
    known: OwnSettings
    worlds: Worlds
    least_gain: float

    @property
    def answer(self) -> Chosen | None:
        place = self.worlds.chosen if self.known.settings else None
        return None if place is None else self.chosen(place)

    def others(self) -> Sequence[Chosen]:
        """Of each server what is believed and brings most, else what holds likeliest."""
        holds = self.worlds.holds
        worth = np.where(holds >= self.worlds.believed, self.worlds.worth.mean(axis=0), 0.0)
        best: dict[int, int] = {}
        first = self.worlds.chosen if self.known.settings else None
        for place in sorted(range(len(worth)), key=lambda one: (one != first, -worth[one], -holds[one])):
            best.setdefault(int(self.worlds.starts[place]), place)
        return [self.chosen(place) for place in best.values()]

    def decided(self) -> str | None:
        if not self.known.settings:
            return "no stored setting can keep the limits, or carry so much on so few devices"
        if self._hopeless():
            return f"no stored setting keeps all limits with more than {100 * self.least_gain:g} %"
        if not list(self.starts(1)):
            return f"further runs gain less than {100 * self.least_gain:g} %"
        return None

    def starts(self, count: int) -> Sequence[Start]:
        """Each on top of those before; at least one while nothing was measured."""
        if self._hopeless():
            return ()
        now = self._now()
        found, unmeasured = [], self.worlds.best_measured is None
        for place, (start, brings) in enumerate(self.worlds.first_starts(count)):
            if unmeasured and place == 0:  # a run says whether what is believed is so, whatever it gains
                found.append(self._start(start, max(brings / now - 1.0, 0.0)))
            elif brings / now >= self.least_gain:
                found.append(self._start(start, brings / now))
        return found

    def _hopeless(self) -> bool:
        if not self.known.settings:
            return True
        kept = (self.worlds.worth > 0.0).any(axis=1).mean()
        return self.worlds.best_measured is None and bool(kept < self.least_gain)

    def _now(self) -> float:
        """Worth of the answer, on average over worlds unless measured.

        Where nothing is believed, of the most promising."""
        chosen = self.worlds.chosen if self.known.settings else None
        if chosen is None:
            return float(self.worlds.worth.max(axis=1, initial=0.0).mean())
        measured = self.worlds.best_measured is not None
        return float(self.worlds.measured[chosen] if measured else self.worlds.worth[:, chosen].mean())

    def _start(self, start: int, gain: float) -> Start:
        places = self.worlds.ladder(start, _MOST_RUNGS)
        first = self.known.settings[max(places, key=lambda place: self.known.settings[place].concurrency)]
        return Start(
            probe=first.probe,
            scenario=first.server.scenario,
            device=first.server.device,
            plan=first.plan,
            num_devices=first.server.num_devices,
            ladder=tuple(self._rung(place) for place in places),
            gain=gain,
            outcomes=tuple(self._outcomes(places)),
        )

    def _rung(self, place: int) -> Rung:
        one = self.known.settings[place]
        ttft, tpot = self.known.expected(place)
        holds = float(self.worlds.holds[place])
        return Rung(probe=one.probe, concurrency=one.concurrency, rate=None, ttft_ms=ttft, tpot_ms=tpot, holds=holds)

    def _outcomes(self, places: Sequence[int]) -> Sequence[Outcome]:
        """By the answer after each, likeliest first."""
        worth = self.worlds.worth[:, places]
        best = np.where(worth.max(axis=1) > 0.0, worth.argmax(axis=1), -1)
        shares: dict[int | None, float] = defaultdict(float)
        for rung in np.unique(best):
            worlds = np.flatnonzero(best == rung)
            shares[self._after(None if rung < 0 else places[rung], worlds, places)] += len(worlds) / len(best)
        found = [
            Outcome(
                probability=share,
                kept=self.known.settings[after].concurrency if after is not None and after in places else None,
                then=None if after is None else self.chosen(after),
            )
            for after, share in shares.items()
        ]
        found.sort(key=lambda one: -one.probability)
        return [one for one in found if one.probability >= _LEAST_TOLD]

    def _after(self, place: int | None, worlds: NDArray[np.int64], places: Sequence[int]) -> int | None:
        """Where a rung was the ladder's best, or none was."""
        best = self.worlds.best_measured
        reached = 0.0 if best is None else float(self.worlds.measured[best])
        if place is not None and float(self.worlds.worth[worlds, place].mean()) > reached:
            return place
        if best is not None:
            return best
        measured = self.worlds.measured.copy()
        measured[list(places)] = 0.0
        return replace(self.worlds, measured=measured).promising(worlds)

    def chosen(self, place: int) -> Chosen:
        one = self.known.settings[place]
        ttft, tpot = self._times(place)
        per_s = float(self.known.wanted.rates([one], np.array([ttft]), np.array([tpot]))[0])
        instances = self.known.wanted.instances(one)
        if (target := self.known.wanted.pairs.target_qps) is not None:
            instances = int(np.ceil(target / per_s))
        devices, tokens = instances * one.server.num_devices, instances * per_s * one.server.output_length
        return Chosen(
            probe=one.probe,
            device=one.server.device,
            plan=one.plan,
            instances=instances,
            num_devices=devices,
            concurrency=one.concurrency,
            requests_per_s=instances * per_s,
            output_tokens_per_s=tokens,
            output_tokens_per_s_per_device=tokens / devices,
            ttft_ms=ttft,
            tpot_ms=tpot,
            holds=float(self.worlds.holds[place]),
            stands=self.known.stands(place),
        )

    def _times(self, place: int) -> tuple[float, float]:
        own = self.known.of_runs(self.known.settings[place])
        ttft, tpot = (own.get(*one) for one in zip(METRICS, self.known.expected(place), strict=True))
        return ttft, tpot


def _bands(known: OwnSettings, settings: Sequence[Setting], scenarios: Collection[str]) -> Iterator[Band]:
    """Of some servers, candidates or not."""
    whole = replace(known, settings=tuple(one for one in settings if one.server.scenario in scenarios))
    for place, one in enumerate(whole.settings):
        own = whole.of_runs(one)
        for name, (low, middle, high) in zip(METRICS, whole.bands(place), strict=True):
            yield Band(
                scenario=one.server.scenario,
                device=one.server.device,
                plan=one.plan,
                concurrency=one.concurrency,
                metric=name,
                predicted_ms=getattr(one, name),
                low_ms=low,
                expected_ms=middle,
                high_ms=high,
                measured_ms=own.get(name),
            )


def _run(known: OwnSettings, run: OwnRun) -> Run:
    kept = None
    if len(run.measured) == len(METRICS):
        ttft, tpot = (np.array([run.measured[name]]) for name in METRICS)
        kept = bool(known.wanted.kept(ttft, tpot, np.array([run.server.output_length]))[0])
    return Run(
        measurement=run.measurement,
        device=run.server.device,
        plan=run.plan,
        concurrency=run.users,
        ttft_ms=run.measured.get("ttft_ms"),
        tpot_ms=run.measured.get("tpot_ms"),
        predicted_ttft_ms=None if run.setting is None else run.setting.ttft_ms,
        predicted_tpot_ms=None if run.setting is None else run.setting.tpot_ms,
        keeps_limits=kept,
    )
