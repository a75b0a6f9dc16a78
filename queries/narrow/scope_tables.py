"""Relations of a session's scope, each a view over the store or memory.

`probe`: the public view or what is kept; `scoped`: its rows in scope; `judged_rows`: what limits and ranks read,
perhaps from a narrow table. Engines' relations are empty without engines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking.macros import SCOPED, read_sql, scoped_view
from queries.asking.options import Definitions
from queries.asking.variables import literal, settings, with_values
from queries.connect import PROBE_ROWS
from queries.narrow.inlining import Look, written_out
from queries.narrow.kept_rows import KeptRows, Moment, Rows
from queries.thinned import CAN_WIN, COUNT_THINNED, THINNED, suffices
from store.light_dataclass import NamedTuple, dataclass
from store.schema import VIEW_COLUMNS, probe_select, shown_columns, words_of
from store.sealing import insert_rows

if TYPE_CHECKING:
    from queries.asking.headers import Report
    from queries.connect import StoreConnection
    from queries.scoping.scope import ScopeRow

STORED = "main.probe"
_READS_PROBES = re.compile(r"\b(?:FROM|JOIN) probe\b")
PROBE = frozenset({"probe"})  # the view of that name
_PART_BYTES = 33  # a probe, in a part
MOST_AT_ONCE = 200_000  # probes that are kept before anybody asks again: a fifth of a second where they lie together
MUCH_BYTES = 8_000_000  # of parts that are opened: a tenth of a second of decoding, as much as planning a question
_SCATTERED = 4  # times as much is opened as the scope is
_FOLDER = Path(__file__).parent
_SCOPE = """
    CREATE OR REPLACE TEMP TABLE scope (
        scenario_id BIGINT, first_batch_size INTEGER, last_batch_size INTEGER, question_group INTEGER
    )"""
_COUNT_ALL = """
    SELECT phase, count(*)
    FROM {source} AS stored
    JOIN scope ON scope.scenario_id = stored.scenario_id
    WHERE stored.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size
    GROUP BY phase"""
# A row of several groups is looked at once.
_COUNT_DISTINCT = _COUNT_ALL.replace("count(*)", "count(DISTINCT (stored.scenario_id, batch_size))")
_IN_PLACE = f"stored.block_id NOT IN (SELECT block_id FROM raw.{THINNED})"  # noqa: S608  our names
_COUNT_WHOLE = _COUNT_DISTINCT.replace("WHERE", f"WHERE {_IN_PLACE} AND")
_RULES = ("tpot_rule", "prefill_qps_rule", "decode_qps_rule", "throughput_rule", "kv_charge", "reserved_gib")


def without_view(names: frozenset[str]) -> frozenset[str]:
    """Its rows are read with the others; the view itself, a hundred columns, is made where a statement reads it."""
    return names - PROBE | {PROBE_ROWS} if names >= PROBE else names


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOf:
    """The part looked at, and whether it was asked about before."""

    phases: tuple[str, ...]
    served: bool  # whether engines serve some of it
    formulas: bool  # and formulas
    again: bool


class _Seen(NamedTuple):
    """The rows that relations show, and whether judged rows are narrow."""

    rows: Rows = Rows.STORED
    narrow: bool = False
    confident: bool = False  # whether limits are compared with bounds of measured values, by the table `factors`


class ScopeTables:
    """Kept rows are of the store as last read."""

    def __init__(self, connection: StoreConnection, memory_share: float = 1.0) -> None:
        self._connection = connection
        self._kept = KeptRows(connection, memory_share)
        self._source = STORED  # the relation of rows that are looked at or kept
        self._rows: Sequence[ScopeRow] = ()
        self._of_probes = False
        self._of_loads = False  # whether points are loads
        self._relations: dict[str, str] = {}  # views by name, with the statement that each was last made by
        self._served = self._formulas = True
        self._seen = _Seen()
        self._values: dict[str, object] = {}  # of variables that statements read
        self._variables: dict[str, str] = {}  # the statement that each was last set by
        self._confident = False
        self._measured = False  # whether measured settings are among the rows
        self._scopes = 0
        self._in_memory = False  # whether what is kept is to be looked at
        self._counts: Counter[str] = Counter()  # probes by phase

    def provide(
        self, rows: Sequence[ScopeRow], *, of_probes: bool, source: str = STORED, measured: bool = False
    ) -> None:
        """`source`: as stored or as own runs correct; `measured` adds measured settings."""
        duckdb = self._connection.duckdb
        duckdb.execute(_SCOPE)
        columns = [(name, "BIGINT" if name == "scenario_id" else "INTEGER") for name in type(rows[0]).__slots__]
        insert_rows(duckdb, "scope", columns, [[getattr(row, name) for name, _ in columns] for row in rows])
        self._rows, self._counts, self._of_probes, self._source = rows, Counter(), of_probes, source
        self._measured = measured
        self._scopes += 1
        self._confident, self._in_memory = False, False
        self._forget()

    def _forget(self) -> None:
        self._see(_Seen())
        self._kept.forget()

    def read_with_factors(self, confident: bool) -> None:
        self._confident = confident

    def keep_where_scattered(self, phases: Collection[str]) -> None:
        """Few probes among many others are kept before the first question, too.

        Reading mostly decodes neighbours, which is then done once."""
        opened = self._connection.part_bytes
        if opened >= MUCH_BYTES and self._there(phases) <= min(MOST_AT_ONCE, opened / (_SCATTERED * _PART_BYTES)):
            self.keep(phases)

    def keep(self, phases: Collection[str]) -> bool:
        """Unless they take too much memory; returns whether they are kept.

        Phases that nobody asked about stay in the store."""
        there = self._kept.are_of(self._now())
        wanted = self._kept.phases.union(phases) if there else frozenset(phases)
        self._in_memory = (there and wanted == self._kept.phases) or self._kept.fits(self._there(wanted))
        if self._in_memory and not (there and wanted == self._kept.phases):
            self._forget()
            self._provide_view()
            self._kept.keep(wanted, self._now(), self._source)
        return self._in_memory

    def look_at(self, asked: Report, definitions: Definitions, values: Mapping[str, object], asked_of: AskedOf) -> None:
        """Asked again, a report reads memory: rows that can win, and narrow columns, where its header allows.

        Which rows can win rests on one factor of errors a scenario. Own runs leave one for each batch size."""
        self._served, self._formulas, self._of_loads = asked_of.served, asked_of.formulas, asked.of_loads
        again = asked_of.again and self._is_kept()
        sufficient = suffices(asked, values) and not (self._confident and self._source != STORED)
        rows = Rows.WINNERS if again and sufficient else self._every_row()
        narrow = again and "narrow" in asked.reads
        if rows is Rows.WINNERS and not self._kept.has_winners:
            self._see(_Seen(Rows.KEPT))
            self._provide_winners()
        if narrow:
            self._provide_narrow(rows, definitions, values)
        self._see(_Seen(rows, narrow, self._confident))

    def _provide_winners(self) -> None:
        self._relate("contending", self.ready(read_sql(_FOLDER / "contending.sql")))
        self._connection.duckdb.execute(self.ready(read_sql(CAN_WIN)))
        self._kept.keep_winners()

    def _provide_narrow(self, rows: Rows, definitions: Definitions, values: Mapping[str, object]) -> None:
        rules = (definitions.tpot, definitions.prefill_qps, definitions.decode_qps, definitions.throughput,
                 definitions.kv_charge)  # fmt: skip
        if not self._kept.is_narrow(rows, rules):
            self.set_variables({name: values[name] for name in _RULES})
            self._see(_Seen(rows))
            self._kept.keep_narrow(rows, rules, self.ready(read_sql(_FOLDER / "narrow.sql")))

    def show_every_row(self) -> None:
        """For statements without a report."""
        self._see(_Seen(self._every_row(), confident=self._confident))
        if self._of_probes:
            self._provide_view()
            self._relate(SCOPED, scoped_view(confident=self._confident))

    def _every_row(self) -> Rows:
        return Rows.KEPT if self._is_kept() else Rows.STORED

    def set_variables(self, values: Mapping[str, object]) -> None:
        """For statements that are made ready from here on."""
        self._values |= values

    def _provide_variables(self) -> None:
        wanted = settings(self._values)
        if changed := wanted.items() - self._variables.items():
            duckdb = self._connection.duckdb
            duckdb.execute("PRAGMA disable_optimizer")  # half of the 0.3 ms of each: there is nothing to find
            try:
                duckdb.execute("\n".join(statement for _, statement in changed))
            finally:
                duckdb.execute("PRAGMA enable_optimizer")
            self._variables |= wanted

    def ready(self, sql: str, told: frozenset[str] | None = None) -> str:
        """With all calls written out, and of its columns those that are `told`."""
        written = written_out(sql, self._look)
        if told is not None:
            rows = self._connection.stored_rows() if self._shows_view and reads_probes(written) else None
            return with_values(only_told(written, told, rows), self._values)
        self._provide_variables()
        if reads_probes(written):
            self._provide_view()
        return written

    @property
    def _shows_view(self) -> bool:
        return self._seen.rows is Rows.STORED and self._source == STORED

    def _provide_view(self) -> None:
        if self._shows_view:
            self._connection.provide(PROBE)

    @property
    def _look(self) -> Look:
        return Look(
            of_loads=self._of_loads,
            served=self._served,
            formulas=self._formulas,
            measured=self._measured,
            narrow=self._seen.narrow,
            confident=self._seen.confident,
        )

    def _see(self, seen: _Seen) -> None:
        """A view over another need not be made anew."""
        self._seen = seen
        if seen.rows is not Rows.STORED:
            self._relate("probe", self._kept.probe_view(seen.rows))
        elif self._source != STORED:
            self._relate("probe", f"CREATE OR REPLACE TEMP VIEW probe AS FROM {self._source}")
        elif self._relations.pop("probe", None) is not None:
            self._connection.duckdb.execute("DROP VIEW temp.probe")
        if seen.narrow:
            self._relate("narrow", f"CREATE OR REPLACE TEMP VIEW narrow AS FROM narrow_{seen.rows}")

    def _relate(self, name: str, statement: str) -> None:
        if self._relations.get(name) != statement:
            self._connection.duckdb.execute(statement)
            self._relations[name] = statement

    def considered(self, phases: Collection[str]) -> int:
        if not self._counts:
            if self._measured:
                self._counts = self._counted(_COUNT_DISTINCT, self._source)
            elif self._connection.thinned:
                self._counts = self._counted(_COUNT_WHOLE) + self._counted(COUNT_THINNED)
            else:
                self._counts = self._counted(_COUNT_ALL if self._is_single() else _COUNT_DISTINCT)
        # Measured pairs are of a phase that no report names: all rows are looked at.
        return sum(self._counts.values() if self._measured else (self._counts[phase] for phase in phases))

    def _there(self, phases: Collection[str]) -> int:
        if not self._connection.thinned:
            return self.considered(phases)
        there = self._counted(_COUNT_DISTINCT)
        return sum(there[phase] for phase in phases)

    def _counted(self, statement: str, source: str | None = None) -> Counter[str]:
        """Of rows as stored where no `source` is named."""
        asked = statement.format(source=source or self._connection.stored_rows())
        return Counter(dict(self._connection.duckdb.execute(asked).fetchall()))

    def _is_single(self) -> bool:
        return len({(row.scenario_id, row.first_batch_size) for row in self._rows}) == len(self._rows)

    def _is_kept(self) -> bool:
        return self._in_memory and self._kept.are_of(self._now())

    def _now(self) -> Moment:
        return Moment(loaded=self._connection.loaded, scope=self._scopes)


@lru_cache(maxsize=512)  # of the same texts at every question
def only_told(written: str, told: frozenset[str], stored_rows: str | None) -> str:
    """A statement without calls, with the columns that a table shows: all that is made for others is left out.

    DuckDB plans every column of a relation that is named, read or not, which took a third of a small answer. Whatever
    is read of a relation is named somewhere, or comes by a star: words that stand nowhere are columns that nobody asks
    for. `stored` rows are then read from parts, instead of by the view `probe`."""
    text = _without_others(written.rstrip().rstrip(";"), told)
    words = words_of(text) | told
    known = words_of(text).union(one.name for one in VIEW_COLUMNS)
    asked = f"SELECT COLUMNS(lambda name: list_contains({literal(sorted(told & known))}, name)) FROM ({text})"  # noqa: S608
    if stored_rows is None:
        return asked
    return f"WITH probe AS NOT MATERIALIZED ({probe_select(stored_rows, words)}) {asked}"


def reads_probes(sql: str) -> bool:
    return _READS_PROBES.search(sql) is not None


def _without_others(text: str, told: Collection[str]) -> str:
    """Lists of all shown columns become lists of those that are told or named elsewhere."""
    lists = {", ".join(columns.values()): columns for columns in shown_columns().values()}
    rest = text
    for whole in lists:
        rest = rest.replace(whole, "")
    wanted = words_of(rest).union(told)
    for whole, columns in lists.items():
        text = text.replace(whole, ", ".join(sql for name, sql in columns.items() if name in wanted))
    return text
