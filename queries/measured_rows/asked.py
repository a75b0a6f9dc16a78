"""Views that a question about measured settings reads, and the options that it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, get_args

from queries.asking.library import names_below, report
from queries.asking.options import Rows, Scope
from queries.scoping.names import find_sweep
from queries.scoping.question_scope import Pinned, resolve_question
from queries.scoping.scope import ResolvedScope, resolve_scope
from queries.vocabulary import files_for
from store.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queries.asking.question import Question
    from queries.measured_rows.placing import MeasuredRows
    from store.reading import ReadTransaction

PREDICTED, MEASURED, BOTH = get_args(Rows)
_SETTINGS = "measured_probe"
_OF_SIDES = {"tags"}  # runs are found by these, too
_UNREAD = {"extra"}  # why a server failed: it has no setting
_OF_WHOLE_PAIRS = frozenset({"cost"})  # reports with a mode whose pairs are points as others are


def unread(question: Question) -> frozenset[str]:
    """Views that are not read: predictions, where measured settings alone are asked of."""
    return frozenset({"probe"} if question.options.rows == MEASURED else ())


def brought_in(question: Question, measured: Callable[[], MeasuredRows]) -> frozenset[str]:
    """Views that are read besides, and all that the report names: what comes later is read again with these."""
    if question.options.rows == PREDICTED:
        return frozenset()
    points = () if measured().loads_kept(question) else (_SETTINGS, "measurement")
    return names_below(question.report).union(points, ("price", "device"))


@cache
def words_of_settings() -> frozenset[str]:
    """Words of the views that make settings of points, among them the columns that they read."""
    told = frozenset[str]().union(*(file.words for file in files_for({_SETTINGS})), _OF_SIDES)
    return told - _UNREAD


def check_rows(question: Question) -> None:
    options, limits = question.options, question.limits
    asked = f"`rows={options.rows}`"
    if options.rows == PREDICTED:
        return
    if options.mode == "pd" and question.report not in _OF_WHOLE_PAIRS:
        raise InputError(
            f"{asked} has one rate of a deployment with both sides, and `mode=pd` ranks pairs by a rate of each",
            hint="ask cost, pareto or compare, which have such deployments",
        )
    if options.rows == BOTH:
        return
    if "memory" in options.vary:
        raise InputError(f"{asked} has no memory to vary: no client measures it", hint="`vary=ttft`, tpot or e2e")
    if limits.reserved_gib != type(limits)().reserved_gib:
        raise InputError(f"{asked} has no memory to reserve of: no client measures it", hint="leave it out")
    if question.definitions.throughput == "twice":
        raise InputError(f"{asked} has measured throughput, by no formula", hint="`throughput=once`")


def check_pairs(question: Question, phases: frozenset[str]) -> None:
    if question.options.rows != MEASURED or report(question.report).verdict != "deployments":
        return
    for phase, name in (("pd", "disaggregated serving"), ("aggregated", "aggregated serving")):
        if phase not in phases:
            raise InputError(
                f"report {question.report} needs settings of both kinds, and none of {name} was measured here",
                hint="ask best or pareto, or `rows=both` beside predictions",
            )


def predicted_scope(transaction: ReadTransaction, question: Question, pinned: Pinned | None) -> ResolvedScope:
    """The scenarios that a question is about; none where measured settings alone are asked of."""
    rows, sides = question.options.rows, question.options.sweeps
    if rows == MEASURED:
        return ResolvedScope(rows=(), groups=())
    if rows == PREDICTED or not sides:
        return resolve_question(transaction, question, pinned)
    if pinned is not None:
        raise InputError(
            "a side of measured runs is checked in the store of its proof", hint="run sweepdb verify with that store"
        )
    return _predicted_sides(transaction, sides)


def _predicted_sides(transaction: ReadTransaction, names: Sequence[str]) -> ResolvedScope:
    sides = []
    for number, name in enumerate(names):
        with suppress(InputError):
            find_sweep(transaction, name)
            sides.append((number, resolve_scope(transaction, Scope(sweep=name, all_versions=True))))
    if not sides:
        return ResolvedScope(rows=(), groups=())
    rows = (replace(row, question_group=number) for number, side in sides for row in side.rows)
    phases = frozenset[str]().union(*(side.phases for _, side in sides))
    return replace(sides[0][1], rows=tuple(dict.fromkeys(rows)), phases=phases)


def no_shell() -> InputError:
    return InputError(
        "statements over an export are of predicted rows: the catalogue names measured servers, and SQL has none",
        hint="`rows=predicted`, or every_probe in sweepdb sql",
    )
