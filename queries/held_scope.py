"""The last question's scope with what was read, so that the next of the same reads nothing."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from queries import measured_rows
from queries.asking.library import names_below, report
from queries.asking.parameters import instance_budget, phases_wanted
from queries.asking.question import Question
from queries.connect import PROBE_ROWS
from queries.judging.ladders import LOADED
from queries.judging.verdicts import KnownSubjects, read_with_confidence
from queries.learning.own_points import PointReader
from queries.learning.session_runs import SessionRuns
from queries.measured_rows import (
    MEASURED,
    PREDICTED,
    ServerNamer,
    brought_in,
    predicted_scope,
    unread,
    words_of_settings,
)
from queries.narrow.scope_tables import STORED, ScopeTables, without_view
from queries.scoping.question_scope import Pinned, phases_kept
from queries.scoping.scope import ResolvedScope
from queries.thinned import intervals_of
from store.reading import read_transaction
from store.schema import STORED_PROBE

if TYPE_CHECKING:
    from queries.connect import StoreConnection


class HeldScope:
    def __init__(
        self, connection: StoreConnection, tables: ScopeTables, own_points: PointReader, named: ServerNamer
    ) -> None:
        self.scope: ResolvedScope | None = None
        self.scenarios = 0
        self.again = False  # whether it was asked about before
        self.known = KnownSubjects(connection.location)
        self.runs = SessionRuns(connection.location, own_points)
        self.tables = tables
        self._connection = connection
        self._named = named
        self.unread: frozenset[str] = frozenset()  # views that the question needs no rows of
        self._asked: object = None
        self._looked_at: frozenset[str] = frozenset()

    @cached_property
    def measured(self) -> measured_rows.MeasuredRows:
        return measured_rows.MeasuredRows(self._connection, self._named)

    def forget(self) -> None:
        """Resolved anew, of the store as it is then."""
        self.scope = None
        self.runs.forget()
        self.known = KnownSubjects(self._connection.location)

    def prepare(self, question: Question, pinned: Pinned | None, *, whole: bool) -> ResolvedScope:
        asked, options = report(question.report), question.options
        of_probes = not asked.of_loads or options.mode == "pd" or bool(asked.needs)
        about = (
            of_probes, asked.of_loads, asked.scope, asked.by_device, question.scope, options.sweeps, options.probes,
            options.mix, options.as_predicted, options.rows, pinned, instance_budget(question),
        )  # fmt: skip
        known = self.scope is not None and self._asked == about and self._serves(question, self.scope)
        if self.scope is not None and known and self._is_bound(question, self.scope, whole=whole):
            self.again = of_probes and options.rows == PREDICTED
            if self.again:
                self.tables.keep(phases_kept(question, self.scope))
            if of_probes:
                self._read_limits(question, self.scope)
            return self.scope
        self.scope = None  # should anything below refuse, the next question starts anew
        corrected = of_probes and not options.as_predicted and options.rows != MEASURED
        with read_transaction(self._connection.location) as transaction:
            scope = predicted_scope(transaction, question, pinned)
            lessons = self.runs.lessons(transaction, (row.scenario_id for row in scope.rows if corrected))
            if asked.of_loads and not options.as_predicted:
                self.runs.learn_rates(transaction, {row.scenario_id for row in scope.rows})
        # Everything at once: what is brought in later is read again together with all that is there.
        needed = frozenset({"probe"} if of_probes else ()) | brought_in(question, lambda: self.measured)
        taught, told_by = ((), ()) if lessons is None else (lessons.scenarios, lessons.predicting)
        self._connection.narrow_to(
            (*(row.scenario_id for row in scope.rows), *told_by),
            winners_within=None if whole else intervals_of(scope.rows, every_row={*taught, *told_by}),
        )
        needed |= names_below(question.report)
        needed |= LOADED if asked.of_loads else frozenset()
        self.unread = unread(question)
        read = without_view(needed - self.unread)
        if lessons is not None:  # which read rows as stored, and by the view where sides are apart
            viewed = {STORED_PROBE, *(("probe", "device") if any(lessons.apart) else ())}
            self._connection.provide(read | viewed, points_by=words_of_settings)
        source = self.runs.learn(self._connection.duckdb, lessons) or STORED
        beside = {STORED_PROBE} if options.rows != PREDICTED and PROBE_ROWS in read else set()
        self._connection.provide(read | beside, points_by=words_of_settings)
        if options.rows != PREDICTED:
            with read_transaction(self._connection.location) as transaction:
                scope, source = self.measured.place(transaction, question, scope, source)
        self.tables.provide(scope.rows, of_probes=of_probes, source=source, measured=options.rows != PREDICTED)
        self._looked_at = phases_wanted(question, scope.phases)
        if of_probes and options.rows == PREDICTED:
            self.tables.keep_where_scattered(phases_kept(question, scope))
        self.scope, self._asked, self.again = scope, about, False
        self.scenarios = len({row.scenario_id for row in scope.rows})
        self._read_limits(question, scope)
        return scope

    def _read_limits(self, question: Question, scope: ResolvedScope) -> None:
        """Limits on predictions, or bounds of measured values."""
        confident = question.limits.confidence is not None
        if confident:
            ids = [row.scenario_id for row in scope.rows]
            read_with_confidence(question, self.known, self._connection.duckdb, ids, self.runs.learned)
            if scope.of_measured:
                self.measured.read_as_they_are()
        self.tables.read_with_factors(confident)

    def _is_bound(self, question: Question, scope: ResolvedScope, *, whole: bool) -> bool:
        """All rows wanted, and none that files give anew each time."""
        if scope.of_measured and self.measured.are_gone:
            return False
        thinned = self._connection.thinned
        if whole:
            return not thinned
        return not thinned.left_aside or self.tables.keep(phases_kept(question, scope))

    def _serves(self, question: Question, scope: ResolvedScope) -> bool:
        """Grouped as the last: most scopes are alike for every phase."""
        return not scope.of_phases or self._looked_at == phases_wanted(question, scope.phases)
