"""Scopes that a page can choose, everything of their answers but rows, and tables that reports read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, cast

from queries.asking import NEAREST, Answer, Question, limit_table, question_of, report, settings, shown_names
from queries.replaying import STORED_TABLES, Recorded, RecordingSession, asked_sql, limit_variables, parted
from queries.scope_list import SHOWN_FIRST, ScopeEntry
from store.errors import SweepdbError
from store.location import StoreLocation
from store.reading import duckdb
from store.schema import short_plan
from store.sealing import quoted
from sweepdb.web.documents import PICTURE_SHAPE, answer_document, column_meanings
from sweepdb.web.pool import Told, status_of, told

_FORM = "STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384"  # small blocks: a table has a hundred short columns
# A scope takes of a scenario the batch sizes between two: each such piece is judged by itself.
_PIECES = """
CREATE OR REPLACE TEMP TABLE scope AS
SELECT
    scenario_id, first_batch_size, last_batch_size,
    (row_number() OVER (PARTITION BY scenario_id ORDER BY first_batch_size, last_batch_size) - 1)::INTEGER
        AS question_group
FROM (SELECT DISTINCT scenario_id, first_batch_size, last_batch_size FROM whole)"""


class WantedTable(NamedTuple):
    """A scope, as statements."""

    scope: str
    variables: Sequence[str]


@contextmanager
def rows_of_choice(connection: duckdb.DuckDBPyConnection, ids: Collection[int]) -> Iterator[duckdb.DuckDBPyConnection]:
    """As `main.probe`, with devices."""
    numbers = ", ".join(map(str, sorted(ids))) or "NULL"
    cursor = connection.cursor()
    cursor.execute("ATTACH ':memory:' AS choice; USE choice")
    try:
        cursor.execute(
            f"CREATE TABLE probe AS FROM memory.main.probe WHERE scenario_id IN ({numbers})"
            " ORDER BY scenario_id, batch_size"
        )
        cursor.execute("CREATE TABLE device AS FROM memory.main.device")
        yield cursor
    finally:
        cursor.execute("USE memory; DETACH choice")
        cursor.close()


def write_tables(
    choice: duckdb.DuckDBPyConnection, recorded: Recorded, wanted: Sequence[WantedTable], path: Path
) -> None:
    """Over all scopes asked about."""
    with choice.cursor() as run:
        run.execute(f"USE choice; ATTACH {quoted(path)} AS site ({_FORM})")
        try:
            _make(run, recorded, wanted)
            for table in parted(recorded).tables:
                of = f"choice.{table}" if table in STORED_TABLES else f"temp.{table}"
                run.execute(f"CREATE TABLE site.{table} AS SELECT DISTINCT * FROM {of} ORDER BY ALL")  # noqa: S608  our names
            run.execute("CREATE TABLE site.pieces AS FROM temp.scope")
        finally:
            run.execute("DETACH site")


def _make(run: duckdb.DuckDBPyConnection, recorded: Recorded, wanted: Sequence[WantedTable]) -> None:
    reserve = next(limit_variables()[one.keyword] for one in limit_table() if one.is_reserve)
    run.execute(f"{asked_sql()}; UPDATE asked SET {reserve} = 0; SET VARIABLE {reserve} = 0")  # noqa: S608  our names
    for place, scope in enumerate(dict.fromkeys(one.scope for one in wanted)):
        run.execute(scope)
        run.execute(f"{'INSERT INTO whole' if place else 'CREATE TEMP TABLE whole AS'} FROM scope")
    for statement in (*wanted[0].variables, _PIECES, *recorded.statements):
        run.execute(statement)


Document = dict[str, object]
# What the page asks besides limits; `sweepdb/web/static/explore.js` says the same of the served page.
_TOP, _MOST_POINTS, _FEWEST_POINTS = 10, 300, 60
USUAL = {one.keyword: one.slider.usual for one in limit_table() if one.slider and one.slider.usual}
"""The limits of a page that is opened without any: answers under them are written, and need no engine."""
_BUDGET = "num_devices"
_OF_BROWSER = ("columns", "rows", "rows_left_out", "shown", "sql", "took_ms", "plans", "nearest")
_NOTHING = 1e-9  # no row keeps a limit of so little
_NEAREST_KIND = "nearest"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageChoice:
    """The same but for devices and cost models."""

    values: Mapping[str, str]
    entries: tuple[ScopeEntry, ...]

    def scopes(self) -> Iterator[tuple[str | None, str | None]]:
        """None: all."""
        devices = sorted({one.device for one in self.entries})
        for device in (None, *devices):
            families = sorted({one.family for one in self.entries if device in {None, one.device}})
            for family in (None, *(families if len(families) > 1 else ())):
                yield device, family

    def devices(self, device: str | None) -> int:
        return 1 if device is not None else len({one.device for one in self.entries})


def choices_of(entries: Iterable[ScopeEntry]) -> list[PageChoice]:
    """By what ranked rows share."""

    def common(one: ScopeEntry) -> tuple[str, ...]:
        return tuple(str(getattr(one, name)) for name in SHOWN_FIRST)

    return [
        PageChoice(values=dict(zip(SHOWN_FIRST, values, strict=True)), entries=tuple(mine))
        for values, mine in groupby(sorted(entries, key=common), common)
    ]


class NearestAsked(NamedTuple):
    """Variables of each look, beside the report's."""

    variables: list[list[str]]
    setup: int


@dataclass(slots=True, kw_only=True)
class ChoiceDocuments:
    """Scenarios, and questions for each place of `Documents.setups`."""

    scopes: list[Document] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    wanted: dict[int, list[WantedTable]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Documents:
    """Statements that scopes share are kept once."""

    location: StoreLocation
    state: str
    setups: list[Recorded] = field(default_factory=list)
    reports: dict[str, Document] = field(default_factory=dict)
    _places: dict[object, int] = field(default_factory=dict)
    _refused: dict[object, Document] = field(default_factory=dict)
    _nearests: dict[object, NearestAsked | None] = field(default_factory=dict)
    _made: ChoiceDocuments = field(default_factory=ChoiceDocuments)

    def of_choice(self, choice: PageChoice) -> ChoiceDocuments:
        self._made = ChoiceDocuments()
        with RecordingSession(self.location) as session:
            for device, family in choice.scopes():
                scope = {**choice.values, "device": device, "family": family}
                given = {name: value for name, value in scope.items() if value is not None}
                answers: dict[str, Document] = {}
                for name, beside in beside_limits(choice.devices(device)).items():
                    asked = {**given, **beside}
                    answers[name] = self._answered(session, name, asked)
                    if device is family is None and "refused" not in answers[name]:
                        answers[name]["first"] = self._first(session, name, asked)
                self._made.scopes.append({"device": device, "family": family, "answers": answers})
        return self._made

    def _answered(self, session: RecordingSession, name: str, asked: Mapping[str, object]) -> Document:
        """Independent of limits; or the scope's error."""
        session.asked.clear()
        try:
            answer = session.ask(question_of(name, asked))
        except SweepdbError as error:
            return _refused(error)
        self._made.ids |= session.scenario_ids()
        scope, variables = session.scope_sql(), _variables(answer.parameters)
        document = answer_document(Told(answer=answer, state=self.state, took_ms=0.0), picture=PICTURE_SHAPE)
        self._describe(name, answer)
        setup = self._setup(name, session.kind(), question_of(name, asked))
        nearest = self._nearest(session, asked) if name == "best" else None
        for place in (setup, *((nearest.setup,) if nearest else ())):
            self._made.wanted.setdefault(place, []).append(WantedTable(scope, variables))
        return {
            **{key: value for key, value in document.items() if key not in _OF_BROWSER},
            "scope": scope,
            "variables": variables,
            "setup": setup,
            "refuses": self._refusals(name, session, asked),
            "nearest": nearest and nearest._asdict(),
        }

    def _first(self, session: RecordingSession, name: str, asked: Mapping[str, object]) -> object:
        """Under the usual limits, as first shown."""
        try:
            answer = session.ask(question_of(name, {**asked, **USUAL}))
        except SweepdbError:  # a phase without one of these limits
            return None
        document = answer_document(Told(answer=answer, state=self.state, took_ms=0.0))
        if document["rows_left_out"]:
            return None
        places = [
            answer.columns.index(one["name"]) for one in cast("list[dict[str, str]]", self.reports[name]["columns"])
        ]
        return [[row[place] for place in places] for row in cast("list[list[object]]", document["rows"])] or None

    def _describe(self, name: str, answer: Answer) -> None:
        if name in self.reports and "columns" in self.reports[name]:
            return
        asked = report(name)
        columns = [one for one in answer.columns if one != "basis"]
        self.reports[name] = {
            "told_sql": answer.sql, "columns": column_meanings(asked, columns), "shown": shown_by_limit(name),
        }  # fmt: skip

    def _nearest(self, session: RecordingSession, asked: Mapping[str, object]) -> NearestAsked | None:
        kind = session.kind()
        if kind not in self._nearests:
            self._nearests[kind] = self._looked_up(session, asked)
        return self._nearests[kind]

    def _looked_up(self, session: RecordingSession, asked: Mapping[str, object]) -> NearestAsked | None:
        session.asked.clear()
        question = question_of("best", {**asked, "tpot_limit": _NOTHING, "ttft_limit": _NOTHING})
        try:
            answer = session.ask(question)
        except SweepdbError:  # a phase without one of these limits
            question = question_of("best", {**asked, "ttft_limit": _NOTHING})
            answer = session.ask(question)
        looked_up = [values for name, values in session.asked if name == NEAREST]
        if not looked_up:
            return None
        nearest = report(NEAREST)
        self.reports.setdefault(NEAREST, {
            "columns": column_meanings(nearest, answer.nearest_columns), "shown": shown_by_limit(NEAREST),
        })  # fmt: skip
        return NearestAsked(
            [_variables(values) for values in looked_up], self._setup(_NEAREST_KIND, session.kind(), question)
        )

    def _setup(self, name: str, kind: object, question: Question) -> int:
        """The place of the preparing statements."""
        key = (name, kind)
        if key not in self._places:
            with RecordingSession(self.location) as session:
                made = session.record(question)
            if name != _NEAREST_KIND:  # whose columns refer to each other, as subqueries cannot
                made = made.with_limits_asked()
            if made not in self.setups:
                self.setups.append(made)
            self._places[key] = self.setups.index(made)
        return self._places[key]

    def _refusals(self, name: str, session: RecordingSession, asked: Mapping[str, object]) -> Document:
        key = (name, session.kind())
        if key not in self._refused:
            found = {}
            for one in limit_table():
                if one.slider is None:
                    continue
                given = {one.keyword: one.slider.low if one.least else one.slider.high}
                try:
                    session.ask(question_of(name, {**asked, **given}))
                except SweepdbError as error:
                    found[one.keyword] = _refused(error)
            self._refused[key] = dict(found)
        return self._refused[key]


def beside_limits(devices: int) -> dict[str, dict[str, object]]:
    points = max(_FEWEST_POINTS, min(_MOST_POINTS, 2 * _MOST_POINTS // devices))
    by_device = {"by_device": True} if devices > 1 else {}
    return {"best": {"top": _TOP}, "pareto": {"max_points": points, **by_device}}


def _refused(error: SweepdbError) -> Document:
    return {"refused": status_of(error), **told(error)}


def _variables(parameters: Mapping[str, object]) -> list[str]:
    limits = set(limit_variables().values())
    return [text for name, text in settings(parameters).items() if name not in limits and name != _BUDGET]


def shown_by_limit(name: str) -> list[tuple[str, list[str] | None]] | None:
    asked = report(name)
    keywords = [*limit_variables(), _BUDGET]
    every, always = shown_names(asked, keywords), shown_names(asked, ())
    if every is None or always is None:
        return None
    return [
        (
            column,
            None if column in always else [one for one in keywords if column in (shown_names(asked, (one,)) or ())],
        )
        for column in every
    ]


def short_plans(labels: Sequence[str]) -> dict[str, str]:
    return {label: short_plan(label) for label in sorted(labels)}
