"""`watch`: reads a server's metrics, sets them beside its stored row at that load, and says what differs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from queries.asking import Framed, question_of
from queries.session import Session
from store.errors import InputError
from store.location import parse_url
from store.schema import Phase
from store.texts import counted
from sweepdb.launching.stored_instance import StoredInstance
from sweepdb.sessions import open_session
from sweepdb.watching import judging
from sweepdb.watching.curves import TIMES, TIMES_OF, Arrivals, Curve
from sweepdb.watching.engines import Reading
from sweepdb.watching.keeping import earlier_seen
from sweepdb.watching.keeping import keep as keep_point
from sweepdb.watching.pages import readings_by_side
from sweepdb.watching.planned import Planned, server_at, server_plan, watched_server
from sweepdb.watching.windows import Mean, Seen, seen_over

_LIMITED = {"ttft_ms": "ttft_limit", "tpot_ms": "tpot_limit"}
_DRIFTS = frozenset({"slower", "other lengths", "missed", "overloaded"})
_BEST: Mapping[Phase, tuple[str, str]] = {  # the report of plans like this one, and what they carry
    "aggregated": ("best", "output_tokens_per_s"),
    "prefill": ("prefill", "requests_per_s"),
    "decode": ("decode", "requests_per_s"),
}
_BEYOND = 1.05  # of the largest load that is known, up to which it stands for more
_MANY = 100.0  # requests, from which on tenths say nothing
_WAITING = 0.1  # of the requests that are served


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Framed):
    """A server that runs beside its plan: a row a number, and what follows in sentences.

    Where serving is disaggregated, it is the prefill server, with the decode server beside it."""

    columns = ("role", *judging.Judged._fields)
    role: Phase
    probe: str
    seen: Seen
    judged: tuple[judging.Judged, ...]
    said: tuple[str, ...]
    decode: Watched | None = None

    @property
    def sides(self) -> tuple[Watched, ...]:
        return (self,) if self.decode is None else (self, self.decode)

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        return tuple((side.role, *one) for side in self.sides for one in side.judged)

    @property
    def drifted(self) -> bool:
        """Whether something is worse than planned, or requests are other ones."""
        return any(one.verdict in _DRIFTS for side in self.sides for one in side.judged)

    def sentences(self) -> Iterator[str]:
        """Each difference, and its meaning for the limits and the plan."""
        for side in self.sides:
            before = "" if self.decode is None else f"{side.role.capitalize()}: "
            yield from (f"{before}{line}" for line in side.said)

    def __repr__(self) -> str:
        return f"<Watched {self.probe}: {self.said[0]}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The measures that a server is judged by."""

    limits: Mapping[str, float]
    tolerance: float
    baseline: Path | None
    arrivals: Arrivals
    keep: Path | None


_Pages = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def watch(
    metrics: _Pages | Mapping[str, _Pages],
    server: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    every: float | None = None,
    during: float | None = None,
    model: str | None = None,
    device: str | None = None,
    served_as: str | None = None,
    ttft_limit: float | None = None,
    tpot_limit: float | None = None,
    arrivals: str = "poisson",
    tolerance: float = 5.0,
    baseline: str | os.PathLike[str] | None = None,
    keep: str | os.PathLike[str] | None = None,
    store: str | None = None,
) -> Watched:
    """Compare the metrics of a server that runs with its stored row: an address, or pages that were kept, in order.

    `server` is a row (a1b2c3d4:19) or a folder of `launch`; without it, the only one of the page's model and engine.
    Of disaggregated servers `metrics` has both, by `prefill` and `decode`, and `server` may be both rows.
    `arrivals="users"`: as many always ask, as in a benchmark. `baseline` is an answer as JSON from when it was as
    planned. `keep` is a table that gets what was seen."""
    _check(every=every, during=during, ttft_limit=ttft_limit, tpot_limit=tpot_limit, tolerance=tolerance)
    if arrivals not in get_args(Arrivals):
        raise InputError(f"`arrivals={arrivals}` is not one of {', '.join(get_args(Arrivals))}")
    limits = {"ttft_ms": ttft_limit, "tpot_ms": tpot_limit}
    asked = _Asked(
        limits={metric: limit for metric, limit in limits.items() if limit is not None},
        tolerance=tolerance / 100.0,
        baseline=None if baseline is None else Path(baseline),
        arrivals="users" if arrivals == "users" else "poisson",
        keep=None if keep is None else Path(keep),
    )
    read = readings_by_side(
        {phase: [os.fspath(one) for one in ([pages] if isinstance(pages, str | os.PathLike) else pages)]
         for phase, pages in _by_phase(metrics).items()},
        every=every, during=during, served_as=served_as,
    )  # fmt: skip
    named = [] if server is None else [server] if isinstance(server, str | os.PathLike) else server
    found = []
    for phase, readings in read.items():
        last, location = readings[-1], parse_url(store)
        probe = watched_server(
            [os.fspath(one) for one in named], location, engine=last.engine, device=device, phase=phase or last.phase,
            model=model or (last.models[0] if last.models else ""),
        )  # fmt: skip
        found.append(_watched(readings, server_at(location, probe, last.engine, phase or last.phase), asked, store))
    return found[0] if len(found) == 1 else replace(found[0], decode=found[1])


def _by_phase(metrics: _Pages | Mapping[str, _Pages]) -> dict[Phase | None, _Pages]:
    if not isinstance(metrics, Mapping):
        return {None: metrics}
    sides: tuple[Phase, ...] = ("prefill", "decode")
    if not metrics or not set(metrics) <= set(sides):
        raise InputError(
            f"`metrics` of {', '.join(metrics) or 'nothing'} are of no side", hint="`prefill` and `decode`"
        )
    return {side: metrics[side] for side in sides if side in metrics}


def _watched(readings: Sequence[Reading], instance: StoredInstance, asked: _Asked, store: str | None) -> Watched:
    phase = instance.scenario.phase
    seen = seen_over(readings, phase=phase, drafts=instance.workload.mtp_tokens > 0)
    mine = replace(asked, limits={name: limit for name, limit in asked.limits.items() if name in TIMES_OF[phase]})
    with open_session(store) as session:
        planned = server_plan(session, instance, None if seen.load is None else seen.load.value, asked.arrivals)
        found = _Judging(seen=seen, planned=planned, session=session, asked=mine).watched()
    if asked.keep is not None:
        waits = asked.arrivals == "users"
        keep_point(seen, instance, asked.keep, parse_url(store), drifted=found.drifted, waits=waits)
    return found


def _check(**numbers: float | None) -> None:
    for name, value in numbers.items():
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (known and 0 < value < float("inf")):
            raise InputError(f"`{name}` must be a number above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Judging:
    """One server beside its plan."""

    seen: Seen
    planned: Planned
    session: Session
    asked: _Asked

    def watched(self) -> Watched:
        load = self.seen.load
        if load is None and not self.seen.is_idle:
            raise InputError("one page does not say how many requests are served", hint="read it twice: `every=60`")
        if load is None or self.seen.is_idle:
            ended = f"Only {self.seen.finished:.0f} requests ended: too few to say anything of."
            return self._answer(self._load_rows(load, None), [ended])
        lengths = judging.differing_lengths(self.seen, self.planned.lengths, self.asked.tolerance)
        stored = self.planned.curve_at(self.planned.lengths)
        expected = self._expected(stored, lengths)
        if load.value > _BEYOND * expected.seen.load[-1]:
            return self._overloaded(load, expected, lengths)
        earlier = self._earlier(stored)
        times = judging.judged_times(self.seen, load, expected, self.asked.tolerance, earlier)
        rows = [*self._load_rows(load, expected), *lengths, *times]
        now = _as_measured(expected, times, load)
        limit_rows, limit_said = self._at_limits(expected, now, times)
        sure = list(judging.said_of([*lengths, *times], compared=earlier is not None or self.planned.own_runs))
        said = [*sure, *limit_said, *self._better(now, expected), *self._notes(load)]
        drifts = [one for one in (*lengths, *times, *limit_rows) if one.verdict in _DRIFTS]
        return self._answer([*rows, *limit_rows], said if drifts else [self._as_planned(load, times), *said])

    def _answer(self, rows: Iterable[judging.Judged], said: Sequence[str]) -> Watched:
        return Watched(
            role=self._phase, probe=self.planned.instance.probe, seen=self.seen, judged=tuple(rows), said=tuple(said)
        )

    @property
    def _phase(self) -> Phase:
        return self.planned.instance.scenario.phase

    def _counted(self, load: Mean) -> str:
        if self._phase == "prefill":
            return f"{load.value:.3g} requests/s"
        return f"{load.value:.1f} requests in flight" if load.value < _MANY else f"{load.value:,.0f} requests in flight"

    def _expected(self, stored: Curve, lengths: list[judging.Judged]) -> judging.Expected:
        other, planned = judging.lengths_seen(self.planned.lengths, lengths), self.planned
        curve = stored if other is None else planned.curve_at(other)
        return judging.Expected(stored=stored, seen=curve, lengths=other or planned.lengths, sd=planned.sd)

    def _overloaded(self, load: Mean, expected: judging.Expected, lengths: Sequence[judging.Judged]) -> Watched:
        most = expected.seen.load[-1]
        if self.planned.arrivals == "users":
            raise InputError(
                f"{load.value:.0f} requests are in flight, and rows of {self.planned.instance.probe} end at {most:.0f}",
                hint=f"evaluate more of it: `batch_range` up to {2 * math.ceil(load.value)}",
            )
        first, *others = self._load_rows(load, None)
        said = f"Overloaded: {self._counted(load)}; it keeps up with what arrives to {most:.3g}."
        judged = list(judging.said_of(list(lengths), compared=True))
        return self._answer([first._replace(verdict="overloaded"), *others, *lengths], [said, *judged])

    def _earlier(self, stored: Curve) -> judging.Earlier | None:
        if self.asked.baseline is None:
            return None
        seen = earlier_seen(self.asked.baseline, self.seen.engine, self._phase)
        lengths = judging.differing_lengths(seen, self.planned.lengths, self.asked.tolerance)
        return judging.Earlier(seen=seen, expected=self._expected(stored, lengths))

    def _load_rows(self, load: Mean | None, expected: judging.Expected | None) -> Iterator[judging.Judged]:
        seen, plan = self.seen, self.planned
        if load is not None:
            planned_load = None if self._phase == "prefill" else float(plan.instance.concurrency)
            named, off = judging.LOADS[self._phase], 100.0 * load.error
            yield judging.Judged(*named, load.value, planned_load, None, None, None, None, off, "seen")
        if seen.waiting is not None:
            yield _only_seen("waiting", "requests", seen.waiting, 0.0)
        if load is None or expected is None or self._phase == "prefill":
            return
        rates = (
            judging.requests_per_s(curve, load.value, lengths.output)
            for curve, lengths in ((expected.stored, plan.lengths), (expected.seen, expected.lengths))
        )
        yield _only_seen("requests_per_s", "requests/s", seen.requests_per_s, *rates)
        if seen.cache_use is not None:
            room = seen.room_tokens
            uses = (
                None if room is None else load.value * plan.cache_share * (one.prompt + one.output) / room
                for one in (plan.lengths, expected.lengths)
            )
            yield _only_seen("cache_use", "of its tokens", seen.cache_use, *uses)

    def _at_limits(
        self, expected: judging.Expected, now: Curve, times: Sequence[judging.Judged]
    ) -> tuple[list[judging.Judged], list[str]]:
        limits = self.asked.limits
        if not limits:
            return [], []
        kept = judging.within_limits(now, expected.lengths.output, limits)
        plan = judging.within_limits(expected.stored, self.planned.lengths.output, limits)
        missed = [one.metric for one in times if one.metric in limits and (one.measured or 0.0) > limits[one.metric]]
        rate = None if kept is None else kept.requests_per_s
        row = judging.Judged(
            "rate_at_limits", "requests/s", rate, None if plan is None else plan.requests_per_s,
            None, None, None, None, None, "missed" if missed else "seen",
        )  # fmt: skip
        return [row], [_limits_said(missed, kept, plan, limits, self.seen.requests_per_s)]

    def _better(self, now: Curve, expected: judging.Expected) -> Iterator[str]:
        """A stored plan that carries more within the limits, if it is slower by as much as this one."""
        limits = self.asked.limits
        if not limits:
            return
        report, carried = _BEST[self._phase]
        row = self.planned.instance.values
        slower = {metric: float(getattr(now, metric)[0] / getattr(expected.seen, metric)[0]) for metric in limits}
        given = {_LIMITED[metric]: limit / slower[metric] for metric, limit in limits.items()}
        asked = {**given, "top": 1, **({"tpot_definition": "exclusive"} if "tpot_ms" in limits else {})}
        scope = {"model": row["model"], "device": row["device"], "workload": row["workload"], "all": True,
                 "serving_model": row["serving_model"], "quantization": row["linear_quantization"]}  # fmt: skip
        best = self.session.ask(question_of(report, {**asked, **scope})).dicts()
        if not best or str(best[0]["probe"]).startswith(self.planned.instance.probe.partition(":")[0]):
            return
        pinned = [(str(row["scenario"]), 1, self.planned.batches[-1], 0)]
        own = self.session.ask(question_of(report, asked), pinned=pinned).dicts()
        other = f"{best[0]['probe']} ({best[0]['plan']}, {counted(float(str(best[0]['num_devices'])), 'device')})"
        if not own:
            yield f"{other} would keep the limits, and this plan keeps them at no load."
            return
        gain = _per_device(best[0], carried) / _per_device(own[0], carried) - 1.0
        if gain > self.asked.tolerance:
            yield f"{other} would carry {100 * gain:.0f} % more a device within the limits, at the lengths planned."

    def _as_planned(self, load: Mean, times: Sequence[judging.Judged]) -> str:
        shown = ", ".join(f"{judging.SHOWN[one.metric]} {one.measured:.4g} ms" for one in times)
        unsure = any(one.verdict == "unsure" for one in times)
        what = "Nothing is surely other than planned" if unsure else "As planned"
        return f"{what}: {self._counted(load)}, {shown}."

    def _notes(self, load: Mean) -> Iterator[str]:
        seen = self.seen
        if self._phase != "prefill" and seen.waiting is not None and seen.waiting > _WAITING * load.value:
            yield f"{seen.waiting:.0f} requests wait beside {load.value:.0f} that are served: the server is full."
        if seen.seconds is None:
            yield "One page: times are means since the server started; two pages (`every`) say what it does now."


def _only_seen(
    metric: str, unit: str, measured: float | None, planned: float | None, expected: float | None = None
) -> judging.Judged:
    return judging.Judged(metric, unit, measured, planned, expected, None, None, None, None, "seen")


def _per_device(row: Mapping[str, object], carried: str) -> float:
    return float(str(row[carried])) / float(str(row["num_devices"]))


def _as_measured(expected: judging.Expected, times: Sequence[judging.Judged], load: Mean) -> Curve:
    """The server's curve as it is now: as much slower at every load as it is at this one."""
    factors = dict.fromkeys(TIMES, 1.0)
    for one in times:
        if one.measured is not None:
            factors[one.metric] = one.measured / expected.seen.at(one.metric, load.value)
    return expected.seen.times(ttft=factors["ttft_ms"], tpot=factors["tpot_ms"])


def _limits_said(
    missed: Sequence[str],
    kept: judging.AtLimits | None,
    plan: judging.AtLimits | None,
    limits: Mapping[str, float],
    rate: float | None,
) -> str:
    at = "" if rate is None else f", at {rate:.3g} requests/s"
    now = (
        f"The limit is missed now{at}: {', '.join(f'{judging.SHOWN[one]} above {limits[one]:g} ms' for one in missed)}."
    )
    if kept is None:
        return f"{now} It is missed at any load." if missed else "A limit is missed at any load of the stored rows."
    planned = "" if plan is None else f" (planned: {plan.requests_per_s:.3g})"
    if missed:
        return f"{now} It is kept up to {kept.requests_per_s:.3g} requests/s{planned}."
    if kept.breaks is None:
        return f"The limits are kept at every stored load, up to {kept.requests_per_s:.3g} requests/s{planned}."
    name = f"{judging.SHOWN[kept.breaks]} limit of {limits[kept.breaks]:g} ms"
    return (
        f"The {name} will be missed above {kept.requests_per_s:.3g} requests/s{planned}{at.replace(', at', '; now')}."
    )
