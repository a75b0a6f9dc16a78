"""The contents of a report: the deployments of a question, its frontier, and what moved limits bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from queries.asking import PARTS, Answer, declared, keywords_of, moved_times, question_of, question_report
from queries.judging import HELD
from queries.probes import find_probe, find_scenario
from store.errors import InputError
from store.location import parse_url
from store.reading import read_store_id, read_transaction
from sweepdb.planning import DeploymentPlan, asked_plan, subjects
from sweepdb.planning.planning_options import REPORT, report_options
from sweepdb.reporting.page_text import amount
from sweepdb.reporting.stops import Stops, answered_stops, moved
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from queries.session import Session

_FRONTIER = "pareto"
_POINTS = 150  # of each frontier: what a picture has room for
_SUBJECT = {
    "model": "model",
    "workload": "workload",
    "quantization": "linear_quantization",
    "kv_cache_quantization": "attention_quantization",
    "convention": "convention",
    "serving_model": "serving_model",
}  # columns of the view `probe` by the filter that reads each
_SPAN = 4.0  # a range without a row at its other end


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that a report shows. `stops` is None where nothing satisfies any limit."""

    plan: DeploymentPlan
    frontier: Answer
    stops: Stops | None
    store_id: str
    written: datetime
    scope: Mapping[str, str]  # keywords that name what no filter named: the newest request will be another one
    lengths: tuple[float, float] | None  # of prompts and answers, in the mean; None where nothing wins
    assumptions: tuple[str, ...]  # of the rows that win as asked

    @property
    def answer(self) -> Answer:
        return self.plan.answer


def contents_of(given: Mapping[str, object], store: str | None = None) -> Contents:
    """Ask stored rows for all that a report says, by keywords of `deployments`. Evaluates nothing."""
    values = {keyword: value for keyword, value in given.items() if value not in (None, (), False)}
    with open_session(store) as session:
        plan, values = _in_one_format(session, asked_plan(session, values), values)
        return _decision(session, plan, values)


def of_plan(plan: DeploymentPlan) -> Contents:
    values = _given(plan)
    with open_session(plan.store.url) as session:
        plan, values = _in_one_format(session, plan, values)
        return _decision(session, plan, values)


def _in_one_format(
    session: Session, plan: DeploymentPlan, values: dict[str, object]
) -> tuple[DeploymentPlan, dict[str, object]]:
    """The same question about the format of the winner, where nothing but formats of one model differ."""
    answer = plan.answer
    if len(answer.scope) == 1 or len(subjects(answer)) > 1 or plan.best is None:
        return plan, values
    narrowed = {**values, **_named(_stored_row(session, plan.best))}
    return asked_plan(session, narrowed), narrowed


def _decision(session: Session, plan: DeploymentPlan, values: Mapping[str, object]) -> Contents:
    groups = plan.answer.scope
    if len(groups) > 1:
        raise InputError(
            f"a report is about one model, workload and format; this question is about {len(groups)}",
            hint="choose with `model`, `workload`, `sweep` or a format; stored: " + "; ".join(groups[:4]),
        )
    frontier = session.ask(question_of(_FRONTIER, {**_of_frontier(values), "max_points": _POINTS}))
    first = _stored_row(session, next(iter(plan.answer.dicts()), None))
    return Contents(
        plan=plan,
        frontier=frontier,
        stops=_stops(session, values, frontier),
        store_id=read_store_id(parse_url(session.location.url)),
        written=datetime.now(UTC),
        scope=_named(first) if plan.answer.question.scope.is_default else {},
        lengths=(amount(first["input_length_mean"]), amount(first["output_length"])) if first else None,
        assumptions=tuple(_assumed(session, plan.answer)),
    )


def _stored_row(session: Session, won: Mapping[str, object] | None) -> dict[str, object]:
    reference = won and (won["probe"] or won["decode_probe"])
    if not reference:
        return {}
    columns, row = find_probe(session.location, str(reference))
    return dict(zip(columns, row, strict=True))


def _named(row: Mapping[str, object]) -> dict[str, str]:
    return {keyword: str(row[column]) for keyword, column in _SUBJECT.items()} if row else {}


def _assumed(session: Session, answer: Answer) -> Iterator[str]:
    probes = dict.fromkeys(str(row[name]) for row in answer.dicts() for name in HELD if row[name] is not None)
    scenarios = dict.fromkeys(find_scenario(session.location, one.partition(":")[0]) for one in probes)
    found: dict[str, None] = {}
    with read_transaction(session.location) as transaction:
        for scenario in scenarios:
            for text in transaction.values(
                str, "SELECT COALESCE(assumptions, '') FROM scenario WHERE id = ?", (scenario,)
            ):
                found.update(dict.fromkeys(line for line in text.splitlines() if line))
    yield from (f"Assumed: {line}." for line in found)


def _stops(session: Session, values: Mapping[str, object], frontier: Answer) -> Stops | None:
    free = session.ask(question_of(REPORT, moved(values, dict.fromkeys(one.name for one in moved_times()))))
    if not free.rows:
        return None
    rows = [*free.dicts(), *frontier.dicts()]
    ranges = {}
    for one in moved_times():
        columns = {str(one.metric), *one.predicted}
        times = [value for row in rows for name in columns if isinstance(value := row.get(name), float) and value > 0]
        won = [value for row in free.dicts() if isinstance(value := row.get(str(one.metric)), float)]
        ranges[one.name] = (min(times, default=1.0), max(won, default=_SPAN))
        if one.apart:  # separate phases without an engine have none
            try:
                session.ask(question_of(REPORT, moved(values, {one.name: ranges[one.name][1]})))
            except InputError:  # a limit that this scope refuses is none that a slider moves
                del ranges[one.name]
    return answered_stops(session, values, ranges)


def _of_frontier(values: Mapping[str, object]) -> dict[str, object]:
    """The options of a question that its frontier takes: it shows every point, whatever its times."""
    taken = {one.name for one in keywords_of(question_report(_FRONTIER))}
    limits = {item.keyword for item in declared(PARTS["limits"])} - {"reserved_memory_gb"}
    return {keyword: value for keyword, value in values.items() if keyword in taken - limits}


def _given(plan: DeploymentPlan) -> dict[str, object]:
    question = plan.answer.question
    parts = {"scope": question.scope, "limits": question.limits, "definitions": question.definitions,
             "pairs": question.pairs, "options": question.options}  # fmt: skip
    return {
        item.keyword: value
        for name, part in parts.items()
        for item in declared(PARTS[name])
        if item.keyword in report_options() and (value := getattr(part, item.field)) != item.default
    }
