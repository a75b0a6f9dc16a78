"""The only entry to reports: resolves scopes, runs, looks up nearest misses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Self

from queries import measured_rows
from queries.asking.headers import Report, told_columns
from queries.asking.library import NEAREST, answering_for, has_nearest, names_below, report, variables_read
from queries.asking.options import Scope
from queries.asking.parameters import (
    answered_instead,
    check_options,
    check_used,
    parameters_of,
    phases_of,
)
from queries.asking.question import Answer, Question
from queries.connect import StoreConnection, elsewhere_note
from queries.held_scope import HeldScope
from queries.judging.ladders import Ladders
from queries.judging.learned import with_notes_of_runs
from queries.judging.separation import goodput_verdicts, separation_lines
from queries.judging.verdicts import with_expected_errors
from queries.learning.own_points import PointReader, no_points
from queries.measured_rows import (
    AS_STATED,
    MEASURED,
    PREDICTED,
    ServerNamer,
    check_rows,
    no_shell,
)
from queries.narrow.scope_tables import AskedOf, ScopeTables, without_view
from queries.pairs import SURELY, by_engine, by_formula, values_of_best, verdicts
from queries.scoping.question_scope import (
    Pinned,
    check_serving_models,
    keyed_question,
)
from queries.scoping.scope import DEVICES_A_GROUP, ResolvedScope
from queries.thinned import suffices
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.reading import connections_kept, machine_memory, read_transaction

_MACHINE_SHARE = 0.5
_LEAST_BYTES = 2**30
_OF_A_RUN = ("columns", "rows", "sql", "parameters")


class Session:
    """Questions of one scope share what was read."""

    def __init__(
        self,
        location: StoreLocation,
        *,
        unsealed: Collection[str] | None = None,
        memory_share: float = 1.0,
        own_points: PointReader = no_points,
        named: ServerNamer = AS_STATED,
    ) -> None:
        """`unsealed` scenarios, by key, are read from the database alone, and nothing else is.

        `own_points` reads points that correct answers; `named` names their servers as rows do. `memory_share` is of
        half the machine's memory."""
        self.location = location
        most_bytes = max(int(_MACHINE_SHARE * memory_share * machine_memory()), _LEAST_BYTES)
        self._connection = StoreConnection(location, unsealed=unsealed, most_bytes=most_bytes)
        self._tables = ScopeTables(self._connection, memory_share)
        self._held = HeldScope(self._connection, self._tables, own_points, named)
        self._ran: Report | None = None
        self._ladders = Ladders(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def _scope(self) -> ResolvedScope | None:
        return self._held.scope

    def interrupt(self) -> None:
        """From another thread; the session is then of no more use."""
        self._connection.duckdb.interrupt()

    @property
    def times_read(self) -> int:
        """Answers between two readings are of one moment."""
        return self._connection.loaded

    def refresh(self) -> None:
        """Until then questions see one moment, unless one wants more of the store."""
        self._connection.refresh()
        self._held.forget()

    def ask(self, question: Question, *, pinned: Pinned | None = None, for_table: bool = False) -> Answer:
        """`pinned` scenarios replace its scope.

        `for_table` leaves out columns that no table shows, and is faster."""
        with self._connection.damage_named(), self._connection.within_limits(), connections_kept(self.location):
            return self._asked_within(answered_instead(question), pinned, for_table=for_table)

    def _asked_within(self, question: Question, pinned: Pinned | None, *, for_table: bool) -> Answer:
        answer = self._answered(question, pinned, for_table=for_table)
        if not report(question.report).predicts:
            return answer
        rows = self._scope.rows if self._scope is not None else ()
        ids = (row.scenario_id for row in rows)  # seldom looked at, and there may be many
        answer = with_expected_errors(
            answer, self._held.known, self._connection.duckdb, ids, self._tables.ready, self._held.runs.learned
        )
        answer = with_notes_of_runs(answer, self._held.runs, (row.scenario_id for row in rows))
        if question.options.rows != PREDICTED:
            return measured_rows.with_measured_words(
                answer, self._connection.duckdb, self._tables.ready, self._held.measured.notes()
            )
        return replace(answer, verdict=tuple(self._verdict(question, answer, pinned)))

    def _verdict(self, question: Question, answer: Answer, pinned: Pinned | None) -> Iterable[str]:
        kind = report(question.report).verdict
        if kind == "deployments":
            return verdicts(answer, self._surely(question, pinned))
        if kind == "goodputs":
            return goodput_verdicts(answer)
        if kind == "separation" and question.options.mode == "pd":
            return separation_lines(answer, self._connection.duckdb, self._tables.ready)
        if kind == "changes" and self._scope is not None:
            from queries.judging.changes import change_lines

            groups = [(row.scenario_id, row.question_group) for row in self._scope.rows]
            sweeps, duckdb = question.options.sweeps, self._connection.duckdb
            with read_transaction(self.location) as transaction:
                return list(change_lines(transaction, duckdb, groups, sweeps, self._tables.ready))
        return ()

    def _surely(self, question: Question, pinned: Pinned | None) -> Answer | None:
        if not question.limits.on_times or question.limits.confidence is not None:
            return None
        return self._answered(replace(question, limits=replace(question.limits, confidence=SURELY)), pinned)

    def _answered(
        self, question: Question, pinned: Pinned | None, *, whole: bool = False, for_table: bool = False
    ) -> Answer:
        """From rows that can win where they suffice, unless the `whole` scope is wanted."""
        asked = report(question.report)
        check_options(question)
        check_used(question)
        check_rows(question)
        question = keyed_question(self.location, question)
        whole = whole or "winners" not in asked.reads or question.options.rows != PREDICTED
        scope = self._held.prepare(question, pinned, whole=whole)
        served = by_engine(scope.serving_models)
        phases = phases_of(question, scope.phases, served=served)
        if question.options.mode == "pd" and not served and "split" in variables_read(asked.name):
            raise InputError(
                f"report {asked.name} takes pairs that an engine serves", hint="`mode=aggregated` or decode"
            )
        if asked.verdict == "deployments":
            check_serving_models(scope)
        values = parameters_of(question, phases, served=served)
        best: Answer | None = None
        if asked.best_of is not None:
            only = replace(question.options, top=1)
            best = self._answered(replace(question, report=asked.best_of, options=only), pinned, whole=whole)
            if not best.rows:
                return replace(best, question=question)
            of_best = values_of_best(asked.name, best)
            values = {**of_best, **values, "served": of_best["served"]}
        answering = answering_for(asked, values)
        thinned = question.options.rows != MEASURED and bool(self._connection.thinned)
        if thinned and not suffices(answering, values):
            return self._answered(question, pinned, whole=True, for_table=for_table)
        self._connection.provide(without_view(names_below(answering.name) - self._held.unread))
        if asked.of_loads:
            phases = self._provide_ladders(question, scope, phases)
        told = told_columns(asked, answering) if for_table else None
        answer = self._run(question, answering, values, scope, phases, told=told)
        if best is not None:
            of_run = {name: getattr(answer, name) for name in _OF_A_RUN}
            return replace(best, question=question, report=question.report, **of_run)
        if answer.rows or not has_nearest(report(question.report)):
            return answer
        # Misses are counted among every row.
        return (
            self._answered(question, pinned, whole=True, for_table=for_table)
            if thinned
            else self._with_nearest(answer, phases)
        )

    def _provide_ladders(self, question: Question, scope: ResolvedScope, phases: tuple[str, ...]) -> tuple[str, ...]:
        self._tables.show_every_row()
        longer = {} if self._held.runs.at_rates is None else self._held.runs.at_rates.steps
        self._ladders.provide(scope, [row.scenario_id for row in scope.rows], longer)
        phases = self._ladders.played(question, phases)
        if {"prefill", "decode"} <= set(phases):
            self._ladders.check_pairs()
            self._ladders.provide_requests()
            self._ladders.move_prompts(question.pairs.kv_transfer_gb_per_s)
        else:
            self._ladders.keep_prompts()
        return phases

    def pinned(self) -> list[tuple[str, int, int, int]]:
        """The last question's scenarios by key, to ask it of a copy."""
        if self._scope is None:
            return []
        with read_transaction(self.location) as transaction:
            keys = transaction.keys("scenario")
        return [
            (keys[row.scenario_id], row.first_batch_size, row.last_batch_size, row.question_group)
            for row in self._scope.rows
            if row.scenario_id > 0  # others were measured
        ]

    def points(self) -> list[tuple[str, str]]:
        """Measured points read, by key, with digests."""
        return [] if self._scope is None or not self._scope.of_measured else self._held.measured.points(self._scope)

    def shell_sql(self, answer: Answer) -> str:
        """Statements for any DuckDB shell over an export."""
        from queries.shell import shell_statements

        scope = () if self._scope is None else self._scope.rows
        if self._scope is not None and self._scope.of_measured:
            raise no_shell()
        with read_transaction(self.location) as transaction:
            stored = transaction.keys("scenario")
        keys = {row.scenario_id: stored[row.scenario_id] for row in scope}
        loads = self._ladders.statements(self._ran) if self._ran is not None and self._ran.of_loads else None
        return "\n\n".join(shell_statements(answer, scope, keys, self._connection.duckdb, loads)) + "\n"

    def _run(
        self,
        question: Question,
        asked: Report,
        values: Mapping[str, object],
        scope: ResolvedScope,
        phases: tuple[str, ...],
        *,
        told: frozenset[str] | None,
    ) -> Answer:
        parameters = self._set(asked, values)
        self._ran = asked
        choosing = self._ladders.choosing(asked)
        served = by_engine(scope.serving_models)
        asked_of = AskedOf(phases=phases, served=served, formulas=by_formula(scope), again=self._held.again)
        self._tables.look_at(asked, question.definitions, values, asked_of)
        if choosing:
            self._connection.duckdb.execute(self._tables.ready(choosing))
        cursor = self._connection.duckdb.execute(self._tables.ready(asked.sql, told))
        columns = tuple(str(item[0]) for item in cursor.description or ())
        rows = tuple(cursor.fetchall())
        return Answer(
            question=question,
            report=asked.name,
            columns=columns,
            rows=rows,
            probes_considered=self._ladders.considered(phases) if asked.of_loads else self._tables.considered(phases),
            counts="loads" if asked.of_loads else "probes",
            scenarios_considered=self._held.scenarios,
            scope=scope.groups,
            versions=scope.versions,
            sql=asked.sql,
            parameters=parameters,
            notes=(
                *scope.notes_on(columns, rows, phases),
                *(self._ladders.notes(question, phases) if asked.of_loads else ()),
                *map(elsewhere_note, self._connection.parts_elsewhere),
            ),
            left_out=scope.left_out,
        )

    def _set(self, asked: Report, values: Mapping[str, object]) -> dict[str, object]:
        """Returns the variables set."""
        read = {name: values[name] for name in sorted(variables_read(asked.name))}
        self._tables.set_variables(read)
        return read

    def _with_nearest(self, answer: Answer, phases: tuple[str, ...]) -> Answer:
        nearest = report(NEAREST)
        divisor = DEVICES_A_GROUP if report(answer.question.report).by_device else 1
        columns: tuple[str, ...] = ()
        rows: list[tuple[object, ...]] = []
        for phase in phases:
            served = by_engine(self._scope.serving_models if self._scope is not None else ())
            values = {**parameters_of(answer.question, phases, served=served), "wanted_phase": phase}
            self._set(nearest, values)
            asked_of = AskedOf(phases=(phase,), served=served, formulas=True, again=self._held.again)
            self._tables.look_at(nearest, answer.question.definitions, values, asked_of)
            cursor = self._connection.duckdb.execute(self._tables.ready(nearest.sql))
            columns = tuple(str(item[0]) for item in cursor.description or ())
            group = columns.index("question_group")
            rows += [(*row[:group], row[group] // divisor, *row[group + 1 :]) for row in cursor.fetchall()]
        # A side of pairs that is within the limits stands in nobody's way: the other's misses are told.
        admitted = columns.index("admitted")
        lacking = {row[group] for row in rows if not row[admitted]}
        told = (row for row in rows if not row[admitted] or row[group] not in lacking)
        return replace(answer, nearest_columns=columns, nearest=tuple(told))


def open_session(url: str | None = None, own_points: PointReader = no_points) -> Session:
    return Session(parse_url(url), own_points=own_points)


__all__ = ["Pinned", "Scope", "Session", "open_session"]
