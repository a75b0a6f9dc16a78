"""`plan` as a function: evaluates what the store lacks of a question, then answers it from rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from queries.asking import limit_table, question_of
from queries.pairs import SURELY
from queries.session import Session
from store.location import parse_url
from sweepdb.evaluating.option_values import JOBS, check_jobs, with_keywords
from sweepdb.evaluating.possible import check_reserve
from sweepdb.evaluating.requests import BuiltRequest
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.planning.deployment_plan import DeploymentPlan, Relaxed
from sweepdb.planning.formats import LookedAt, request_in_formats
from sweepdb.planning.held_back import crosses_nodes, holds_of
from sweepdb.planning.planning_options import REPORT, Asked, asked_of, longer_limits, plan_options
from sweepdb.planning.ranking import number_of, ranked
from sweepdb.planning.stored_sweeps import stored_sweep
from sweepdb.sessions import asked_beside, open_session

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from sweepdb.planning.arriving import RatePlan
    from sweepdb.planning.plan_keywords import PlanKeywords  # a stub: types alone


def plan(
    model: str | os.PathLike[str],
    *,
    store: str | None = None,
    jobs: int = JOBS,
    progress: bool | Callable[[Progress], None] = False,
    on_notes: Callable[[Sequence[str]], None] = lambda _: None,
    **options: Unpack[PlanKeywords],
) -> DeploymentPlan | RatePlan:
    """The best whole deployments of a model, aggregated and disaggregated, on each device.

    Evaluates every plan and batch size that the store lacks, then answers from rows: asked again, with other limits or
    prices, it evaluates nothing. With a `rate`, simulations of requests that arrive say what carries it: those that can
    need the fewest devices. `progress` is called as rows are stored; `on_notes` with what was assumed first."""
    check_jobs(jobs)
    asked = asked_of(model, options)
    question_of(REPORT, asked.question)  # refuses what cannot be asked before anything is evaluated
    about = request_in_formats(asked.evaluated, store)
    found = _found(asked, about, store, jobs=jobs, progress=progress, on_notes=on_notes)
    if isinstance(found, DeploymentPlan) and crosses_nodes(found):
        staged = request_in_formats(asked.evaluated, store, crossing=True)
        before = found.probes_evaluated
        if staged.built.parts != about.built.parts or staged.without_stages != about.without_stages:
            found = _found(asked, staged, store, jobs=jobs, progress=progress, on_notes=lambda _: None)
            return replace(found, probes_evaluated=before + found.probes_evaluated)
    return found


def _found(
    asked: Asked,
    about: LookedAt,
    store: str | None,
    *,
    jobs: int,
    progress: bool | Callable[[Progress], None],
    on_notes: Callable[[Sequence[str]], None],
) -> DeploymentPlan | RatePlan:
    built, rated = about.built, asked.own.rate is not None
    check_reserve(asked.question.get("reserved_memory_gb"), built.parts)
    if asked.own.rank_by == "cost":
        from sweepdb.prices import check_priced  # through SQLAlchemy, which questions do without

        check_priced(list(dict.fromkeys(device.name for part in built.parts for device in part.devices)), store)
    on_notes(asked.notes)
    waiting = replace(built, arrivals=None) if rated else built
    sweep, evaluated = stored_or_evaluated(
        asked.evaluated, waiting, store, jobs=jobs, progress=progress, on_notes=on_notes
    )
    if rated:
        from sweepdb.evaluating.running import progress_of
        from sweepdb.planning.sizing import Sizing

        called = progress_of(progress)
        sizing = Sizing(asked=asked, about=about, store=store, closed=sweep, jobs=jobs, progress=called, say=on_notes)
        if (sized := sizing.planned(evaluated)) is not None:
            return sized
    question = {**asked.question, "sweep": sweep}
    with (
        open_session(store) as session,
        asked_beside(store, lambda beside: tuple(_relaxed(beside, question))) as relaxed,
    ):
        answer = session.ask(question_of(REPORT, question))
        found = replace(
            _plan_of(session, question, _in_order(answer, asked, about)), rank_by=asked.own.rank_by, looked_at=about
        )
        played = built.arrivals is not None and not rated
        goodput = tuple(_goodput(session, asked, found)) if played else ()
        surely = _surely(session, question, found)
        usual = _within_usual_limits(session, question, found)
        longer = relaxed.result() if answer.rows else ()
    return replace(
        found,
        probes_evaluated=evaluated,
        notes=(*asked.notes, *built.notes),
        played=played,
        goodput=goodput,
        surely=None if surely is None else _in_order(surely, asked, about),
        usual=None if usual is None else _in_order(usual, asked, about),
        relaxed=tuple(replace(one, answer=_in_order(one.answer, asked, about)) for one in longer),
    )


def _in_order(answer: Answer, asked: Asked, about: LookedAt) -> Answer:
    return ranked(answer, asked.own.rank_by, about.published, narrower=bool(about.origins))


def _surely(session: Session, question: Mapping[str, object], found: DeploymentPlan) -> Answer | None:
    best, limits = found.best, found.answer.question.limits
    if best is None or limits.confidence is not None or holds_of(best, limits) != "no":
        return None
    return session.ask(question_of(REPORT, {**question, "confidence": SURELY}))


def _within_usual_limits(session: Session, question: Mapping[str, object], found: DeploymentPlan) -> Answer | None:
    """The answer within usual limits on times that nobody gave and the best exceeds; None where it exceeds none."""
    best, given = found.best, {one.name for one, _ in found.answer.question.limits.given}
    if best is None or given & {"e2e", "tokens_per_s_per_user"} or found.ranking == "latency":
        return None
    over = {
        one.keyword: one.slider.usual
        for one in limit_table()
        if one.slider is not None and one.slider.usual is not None and one.name not in given
        and number_of(best[str(one.metric)]) > one.slider.usual
    }  # fmt: skip
    return session.ask(question_of(REPORT, {**question, **over})) if over else None


def asked_plan(session: Session, question: Mapping[str, object]) -> DeploymentPlan:
    """Whole deployments of the rows that a question is about, and what longer limits bring. Evaluates nothing."""
    answer = session.ask(question_of(REPORT, question))
    longer = tuple(_relaxed(session, question)) if answer.rows else ()
    return replace(_plan_of(session, question, answer), relaxed=longer)


def _plan_of(session: Session, question: Mapping[str, object], answer: Answer) -> DeploymentPlan:
    sweep = question.get("sweep")
    return DeploymentPlan(
        answer=answer,
        sweep=sweep if isinstance(sweep, str) else None,
        probes_evaluated=0,
        notes=(),
        relaxed=(),
        goodput=(),
        played=False,
        store=session.location,
    )


def stored_or_evaluated(
    evaluated: SweepOptions,
    built: BuiltRequest,
    store: str | None,
    *,
    jobs: int,
    progress: bool | Callable[[Progress], None],
    on_notes: Callable[[Sequence[str]], None],
) -> tuple[str, int]:
    if built.arrivals is None and (known := stored_sweep(built.parts, parse_url(store))) is not None:
        return known, 0
    on_notes(built.notes)
    return evaluated_now(evaluated, built, store, jobs=jobs, progress=progress)


def evaluated_now(
    evaluated: SweepOptions,
    built: BuiltRequest,
    store: str | None,
    *,
    jobs: int,
    progress: bool | Callable[[Progress], None],
) -> tuple[str, int]:
    """A sweep of its own, the newest, though all of its rows may be stored."""
    from sweepdb.evaluating.running import check_outcome, progress_of, run_request  # half a second of imports

    report = run_request(evaluated, built, store, label=None, jobs=jobs, on_progress=progress_of(progress))
    if report.interrupted:  # what was stored is kept; the same call again goes on
        raise KeyboardInterrupt
    check_outcome(report)
    return report.sweep, report.probes_stored


def _relaxed(session: Session, question: Mapping[str, object]) -> Iterator[Relaxed]:
    for one, longer in longer_limits(question):
        answer = session.ask(question_of(REPORT, {**question, one.keyword: longer}))
        yield Relaxed(about=one, limit=longer, answer=answer)


def _goodput(session: Session, asked: Asked, found: DeploymentPlan) -> Iterator[Answer]:
    """How many requests a second the deployments keep within the limits when they arrive; nothing without limits."""
    limits = {keyword: asked.question.get(keyword) for keyword in ("ttft_limit", "tpot_limit")}
    given = {keyword: limit for keyword, limit in limits.items() if limit is not None}
    modes = {row["mode"] for row in found.dicts()} if given else set()
    share = asked.own.attainment
    question = {**given, "by": "goodput", "attainment": share, "sweep": found.sweep, "top": 1000}
    if "aggregated" in modes:
        yield session.ask(question_of("best", question))
    if "pd" in modes and (budget := asked.question.get("num_devices")) is not None:
        yield session.ask(question_of("best", {**question, "mode": "pd", "num_devices": budget}))


with_keywords(plan, plan_options())
