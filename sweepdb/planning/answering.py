"""`plan` as a function: evaluates what the store lacks of a question, then answers it from rows.

Not here: what the answer says in words (sweepdb.planning.deployment_plan)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Unpack

from evaluator.canonical import canonical
from evaluator.identity import RecordBuilder
from evaluator.request import SweepRequest, planned_scenarios, request_arguments
from queries.asking import limit_table, question_of
from queries.pairs import SURELY
from queries.session import Session, open_session
from store.errors import InputError, StoreError
from store.location import StoreLocation, parse_url
from store.reading import read_transaction
from sweepdb.evaluating.option_values import JOBS, check_jobs, with_keywords
from sweepdb.evaluating.possible import check_reserve
from sweepdb.evaluating.requests import BuiltRequest
from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.planning.deployment_plan import DeploymentPlan, Relaxed
from sweepdb.planning.formats import LookedAt, request_in_formats
from sweepdb.planning.held_back import holds_of
from sweepdb.planning.planning_options import Asked, asked_of, plan_options
from sweepdb.planning.ranking import ranked

if TYPE_CHECKING:
    from evaluator.sweep import Progress
    from queries.asking import Answer
    from sweepdb.planning.plan_keywords import PlanKeywords  # a stub: types alone


REPORT = "deployments"
RELAXED_BY = 1.25


def plan(
    model: str | os.PathLike[str],
    *,
    store: str | None = None,
    jobs: int = JOBS,
    progress: bool | Callable[[Progress], None] = False,
    on_notes: Callable[[Sequence[str]], None] = lambda _: None,
    **options: Unpack[PlanKeywords],
) -> DeploymentPlan:
    """The best whole deployments of a model, aggregated and with prefill and decode apart, on each device.

    Evaluates every plan and batch size that the store lacks, then answers from rows: asked again, with other limits or
    prices, it evaluates nothing. `progress` is called as rows are stored; `on_notes` with what was assumed first."""
    check_jobs(jobs)
    asked = asked_of(model, options)
    question_of(REPORT, asked.question)  # refuses what cannot be asked before anything is evaluated
    about = request_in_formats(asked.evaluated, store)
    built = about.built
    check_reserve(asked.question.get("reserved_memory_gb"), built.parts)
    sweep, evaluated = stored_or_evaluated(
        asked.evaluated, built, store, jobs=jobs, progress=progress, on_notes=on_notes
    )
    with open_session(store) as session:
        found = _ranked(asked_plan(session, {**asked.question, "sweep": sweep}), asked, about)
        played = built.arrivals is not None
        goodput = tuple(_goodput(session, asked, found)) if played else ()
        surely = _surely(session, asked, about, found)
    return replace(
        found, sweep=sweep, probes_evaluated=evaluated, notes=built.notes, played=played, goodput=goodput, surely=surely
    )


def _ranked(found: DeploymentPlan, asked: Asked, about: LookedAt) -> DeploymentPlan:
    """The rows of every format that was looked at in one order."""

    def in_order(answer: Answer) -> Answer:
        return ranked(answer, asked.own.rank_by, about.published, narrower=bool(about.origins))

    relaxed_to = tuple(replace(one, answer=in_order(one.answer)) for one in found.relaxed)
    return replace(found, answer=in_order(found.answer), relaxed=relaxed_to, rank_by=asked.own.rank_by, looked_at=about)


def _surely(session: Session, asked: Asked, about: LookedAt, found: DeploymentPlan) -> Answer | None:
    """The same question with limits read at a confidence, where those of the best may be missed."""
    best, limits = found.best, found.answer.question.limits
    if best is None or limits.confidence is not None or holds_of(best, limits) != "no":
        return None
    question = {**asked.question, "sweep": found.sweep or asked.question.get("sweep"), "confidence": SURELY}
    try:
        answer = session.ask(question_of(REPORT, question))
    except InputError:  # nobody measured anything near
        return None
    return ranked(answer, asked.own.rank_by, about.published, narrower=bool(about.origins))


def asked_plan(session: Session, question: Mapping[str, object]) -> DeploymentPlan:
    """Whole deployments of the rows that a question is about, and what longer limits bring. Evaluates nothing."""
    answer = session.ask(question_of(REPORT, question))
    sweep = question.get("sweep")
    return DeploymentPlan(
        answer=answer,
        sweep=sweep if isinstance(sweep, str) else None,
        probes_evaluated=0,
        notes=(),
        relaxed=tuple(_relaxed(session, question)) if answer.rows else (),
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
    """The sweep that holds what is asked for, and how many probes were evaluated for it."""
    if built.arrivals is None and (known := stored_sweep(built.parts, parse_url(store))) is not None:
        return known, 0
    from sweepdb.evaluating.running import check_outcome, progress_of, run_request  # half a second of imports

    on_notes(built.notes)
    report = run_request(evaluated, built, store, label=None, jobs=jobs, on_progress=progress_of(progress))
    if report.interrupted:  # what was stored is kept; the same call again goes on
        raise KeyboardInterrupt
    check_outcome(report)
    return report.sweep, report.probes_stored


def _relaxed(session: Session, question: Mapping[str, object]) -> Iterator[Relaxed]:
    """The same question, once for each limit on time, with that limit alone a quarter longer."""
    for one in limit_table():
        limit = question.get(one.keyword)
        if isinstance(limit, int | float) and one.metric is not None and not one.least:
            wider = {**question, one.keyword: limit * RELAXED_BY, "confidence": None}
            answer = session.ask(question_of(REPORT, wider))
            yield Relaxed(about=one, limit=limit * RELAXED_BY, answer=answer)


def _goodput(session: Session, asked: Asked, found: DeploymentPlan) -> Iterator[Answer]:
    """How many requests a second the deployments keep within the limits when they arrive; nothing without limits."""
    limits = {keyword: asked.question.get(keyword) for keyword in ("ttft_limits", "tpot_limits")}
    given = {keyword: limit for keyword, limit in limits.items() if limit is not None}
    modes = {row["mode"] for row in found.dicts()} if given else set()
    question = {**given, "by": "goodput", "sweep": found.sweep, "top": 1000}
    if "aggregated" in modes:
        yield session.ask(question_of("best", question))
    if "pd" in modes and (budget := asked.question.get("num_devices")) is not None:
        yield session.ask(question_of("best", {**question, "mode": "pd", "num_devices": budget}))


with_keywords(plan, plan_options())


_SAME = """
SELECT s.key, s.id FROM sweep s
WHERE s.kind = 'request' AND s.status = 'finished' AND s.arguments = ?
    AND s.id NOT IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)
ORDER BY s.id DESC
LIMIT 1
"""
_SCENARIOS = "SELECT sc.key FROM sweep_interval i JOIN scenario sc ON sc.id = i.scenario_id WHERE i.sweep_id = ?"


class _Sweep(NamedTuple):
    key: str
    id: int


class _Scenario(NamedTuple):
    key: str


def stored_sweep(parts: Sequence[SweepRequest], location: StoreLocation) -> str | None:
    """The newest finished sweep of the same request, where its scenarios are those of today; else None.

    Keys of scenarios hold formula version, device profile and engine, so that none is taken for another."""
    if location.path is not None and not location.path.exists():
        return None
    try:
        with read_transaction(location) as transaction:
            found = list(transaction.rows(_Sweep, _SAME, (canonical(request_arguments(parts)),)))
            if not found:
                return None
            stored = {row.key for row in transaction.rows(_Scenario, _SCENARIOS, (found[0].id,))}
    except StoreError:  # an older revision, or none: evaluating says what to do about it
        return None
    records = RecordBuilder()
    wanted = {records.scenario(planned.model_name, planned.scenario).key for planned in planned_scenarios(parts)}
    return found[0].key if wanted <= stored else None
