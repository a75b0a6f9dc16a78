"""The temporary relations of the scope that a session looks at: `scope`, `scoped`, macros, and what is kept in memory.

A second question finds the probes of its scope in memory, and what limits read of them in a narrow table beside.
Not here: which scope a question has (queries.scoping), running reports (queries.session)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking.library import CONFIDENT
from queries.asking.macros import SCOPED, Macro, macros, macros_of, read_macros
from queries.asking.options import Definitions
from queries.asking.parameters import OBJECTIVES
from queries.asking.variables import literal, settings
from queries.thinned.binding import COUNT_THINNED, THINNED
from store.errors import InputError
from store.schema import NAMED_COLUMNS
from store.sealing import insert_rows

if TYPE_CHECKING:
    from queries.asking.headers import Report
    from queries.connect import StoreConnection
    from queries.scoping.scope import ScopeRow

MEMORY = "SWEEPDB_SESSION_MEMORY"
_SHARE = 0.25  # of this machine's memory
_KEPT_BYTES = 650  # a probe, in both tables
_PART_BYTES = 33  # a probe, in a part
MOST_AT_ONCE = 200_000  # probes that are kept before anybody asks again: a fifth of a second where they lie together
MUCH_BYTES = 8_000_000  # of parts that are opened: a tenth of a second of decoding, as much as planning a question
_SCATTERED = 4  # times as much is opened as the scope is
_FOLDER = Path(__file__).parent
_VIEW_TO_EMPTY_TABLE = """
    CREATE TEMP TABLE shape AS SELECT * FROM scoped LIMIT 0;
    DROP VIEW temp.scoped;
    ALTER TABLE temp.shape RENAME TO scoped"""
_SCOPE = """
    CREATE OR REPLACE TEMP TABLE scope (
        scenario_id BIGINT, first_batch_size INTEGER, last_batch_size INTEGER, question_group INTEGER
    )"""
_COUNT_ALL = "SELECT count(*) FROM scoped WHERE (len($phases) = 0 OR phase IN (SELECT unnest($phases::VARCHAR[])))"
_COUNT_DISTINCT = _COUNT_ALL.replace("count(*)", "count(DISTINCT probe)")  # a row of several groups is looked at once
_COUNT_WHOLE = f"{_COUNT_DISTINCT} AND block_id NOT IN (SELECT block_id FROM raw.{THINNED})"  # noqa: S608  our names
_FROM_STORE = re.compile(r"\bFROM probe\b")
_OF_BLOCKS = ("block_id", "first_sweep", "stored_at")  # probes of a scenario differ in them
_OF_SCENARIOS = (
    *(one.name for one in NAMED_COLUMNS if one.name not in {*_OF_BLOCKS, "scenario_id", "batch_size"}),
    "plan",
)
_NAMED = f"""
    CREATE OR REPLACE TEMP TABLE named AS
    SELECT scenario_id, {", ".join(f"any_value({name}) AS {name}" for name in _OF_SCENARIOS)}
    FROM probe WHERE scenario_id IN (SELECT scenario_id FROM scope) GROUP BY scenario_id"""  # noqa: S608  our names
_KEPT = f"""
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT * EXCLUDE ({", ".join(_OF_SCENARIOS)}) FROM probe
    WHERE scenario_id IN (SELECT scenario_id FROM scope);
    CREATE OR REPLACE TEMP VIEW kept_probe AS
    SELECT kept.*, kept.rowid AS kept_row, named.* EXCLUDE (scenario_id)
    FROM kept JOIN named ON named.scenario_id = kept.scenario_id"""  # noqa: S608  our names
_BY_OBJECTIVE = re.compile(r"\bpicked\([^()]*(?:\(\'wanted_phase\'\))?[^()]*getvariable\(\'objective\'\)")
_OF_PICKS = {"picked", "side", "ranked_rows"}  # macros over the table of picks
# Macros that yield rows of engines alone, with arguments that they can be planned with.
_OF_ENGINES = {
    "engine_prefills": "", "engine_decodes": "", "engine_frontier": "", "engine_pairs": "'budget', 1, FALSE, 1, ''",
}  # fmt: skip
_PICKS = "CREATE OR REPLACE TEMP TABLE picks AS SELECT * FROM first_rows($objective)"
Rules = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The store as one connection read it, and the scope: tables are of both."""

    loaded: int
    scope: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOf:
    """The part of a scope that a question looks at, and whether the scope was asked about before."""

    phases: tuple[str, ...]
    served: bool  # whether engines serve some of it
    again: bool


class ScopeTables:
    """Relations of one scope. Whatever is kept is of the store as the connection last read it, and made anew after."""

    def __init__(self, connection: StoreConnection, memory_share: float = 1.0) -> None:
        self._connection = connection
        self._memory_share = memory_share
        self._rows: Sequence[ScopeRow] = ()
        self._created: dict[str, str] = {}  # macros by name, with the text that each was created by
        self._others: dict[str, Macro] = {}  # over what is kept, in place of those over the store
        self._empty: dict[str, Macro] = {}  # macros about rows of engines that yield none
        self._variables: dict[str, str] = {}  # the statement that each was last set by
        self._confident = False
        self._view = ""  # the statement that made `scoped`
        self._scopes = 0
        self._kept: Moment | None = None
        self._narrow: tuple[Moment, Rules] | None = None
        self._counts: dict[tuple[str, ...], int] = {}

    def provide(self, rows: Sequence[ScopeRow], *, of_probes: bool) -> None:
        """Make `scope` the rows of a question, and `scoped` their probes as the store has them."""
        duckdb = self._connection.duckdb
        duckdb.execute(_SCOPE)
        columns = [(name, "BIGINT" if name == "scenario_id" else "INTEGER") for name in type(rows[0]).__slots__]
        insert_rows(duckdb, "scope", columns, [[getattr(row, name) for name, _ in columns] for row in rows])
        self._rows, self._counts = rows, {}
        self._scopes += 1
        self._kept = self._narrow = None
        self._confident, self._others = False, {}
        for table in ("kept", "narrow"):
            duckdb.execute(f"DROP TABLE IF EXISTS temp.{table} CASCADE")
        if of_probes:
            self._show()

    def read_with_factors(self, confident: bool) -> None:
        """Compare limits with bounds of measured values, by the table `factors`, or with predictions."""
        if confident != self._confident:
            self._confident = confident
            self._show()

    def keep_where_scattered(self) -> None:
        """Keep a few probes that lie among many others before the first question, too.

        Reading them is mostly decoding what lies beside them, which is done once instead of twice."""
        opened = self._connection.part_bytes
        if opened >= MUCH_BYTES and self._probes() <= min(MOST_AT_ONCE, opened / (_SCATTERED * _PART_BYTES)):
            self.keep()

    def keep(self) -> bool:
        """Keep the probes of a scope that is asked about again, unless they take too much memory; whether they are."""
        if self._kept == self._now():
            return True
        if self._probes() * _KEPT_BYTES > self._memory_share * memory_given():
            return False
        self._connection.duckdb.execute(_NAMED)
        self._connection.duckdb.execute(_KEPT)
        self._connection.duckdb.execute((_FOLDER / "kept.sql").read_text(encoding="utf-8"))
        self._kept = self._now()
        self._show()
        return True

    def provide_macros(
        self,
        asked: Report,
        definitions: Definitions,
        values: Mapping[str, object],
        asked_of: AskedOf,
        *,
        more: str = "",
    ) -> None:
        """Make ready what a report is built on. Asked again, it reads the narrow table where its header says so."""
        self._others = {**narrow_macros("stored")} if self._kept == self._now() else {}
        if asked_of.again and asked.narrow and self._is_narrow(definitions, values):
            if not asked_of.served:
                self._others |= self._without_engines(asked)
            self._others |= narrow_macros("judged")
            if self._confident:
                self._others |= narrow_macros("confident")
            if values["objective"] not in _OTHER_OBJECTIVES:
                self._pick(asked, values, asked_of)
        self.create_macros(f"{asked.sql}\n{more}")

    def _pick(self, asked: Report, values: Mapping[str, object], asked_of: AskedOf) -> None:
        """Write down the best row of each scenario, where a report asks for these."""
        built_on = "\n".join((asked.sql, *(macro.sql for macro in macros_of(asked.sql))))
        if "picked(" not in built_on:
            return
        self._others |= narrow_macros("picked")
        if not values["all_pairs"] and not asked_of.served:
            self._others |= narrow_macros("sides")
        objective = values["objective"] if _BY_OBJECTIVE.search(built_on) else "qps"
        duckdb = self._connection.duckdb
        duckdb.execute(f"SET VARIABLE picked_phases = {literal(asked_of.phases)}")
        of_picks = {name: macro for name, macro in self._others.items() if name not in _OF_PICKS}
        self._create(of_picks["first_rows"].sql, of_picks)
        duckdb.execute(_PICKS, {"objective": objective})

    def _without_engines(self, asked: Report) -> dict[str, Macro]:
        """Macros about rows of an engine as DuckDB plans them fastest, where there are none."""
        found = {}
        for macro in macros_of(asked.sql):
            if (arguments := _OF_ENGINES.get(macro.name)) is not None:
                if macro.name not in self._empty:
                    self._create(f"FROM {macro.name}()", {})
                    described = self._connection.duckdb.execute(f"DESCRIBE FROM {macro.name}({arguments})").fetchall()
                    columns = ", ".join(f"NULL::{type_} AS {name}" for name, type_, *_ in described)
                    head = macro.sql[macro.sql.index("CREATE") : macro.sql.index(" AS TABLE")]
                    sql = f"{head} AS TABLE SELECT {columns} WHERE false;"
                    self._empty[macro.name] = Macro(name=macro.name, sql=sql, calls=frozenset())
                found[macro.name] = self._empty[macro.name]
        return found

    def _is_narrow(self, definitions: Definitions, values: Mapping[str, object]) -> bool:
        """Whether the narrow table is there, or could be made."""
        rules = (definitions.tpot, definitions.prefill_qps, definitions.decode_qps, definitions.throughput,
                 definitions.kv_charge)  # fmt: skip
        if self._narrow == (self._now(), rules):
            return True
        if self._kept != self._now():
            return False
        self.set_variables({name: values[name] for name in _RULES})
        text = (_FOLDER / "narrow.sql").read_text(encoding="utf-8")
        self._create(text, {})
        self._connection.duckdb.execute(text)
        self._narrow = (self._now(), rules)
        return True

    def set_variables(self, values: Mapping[str, object]) -> None:
        """Set variables that SQL reads, where they hold something else."""
        wanted = settings(values)
        changed = wanted.items() - self._variables.items()  # each takes 0.3 ms
        self._connection.duckdb.execute("\n".join(statement for _, statement in changed))
        self._variables |= wanted

    def create_macros(self, sql: str) -> None:
        """Create what statements call and this session lacks."""
        self._create(sql, self._others)

    def _create(self, sql: str, others: Mapping[str, Macro]) -> None:
        """Create macros that statements call; `others` take the place of those of their names.

        DuckDB plans a macro when it is created, with all that it calls. Over a table without rows that takes half as
        long as over the view, whose every column is computed."""
        below = macros_of("\n".join(macro.sql for macro in others.values()))
        below = [macro for macro in below if macro.name not in others]
        needed = [macro for macro in (*below, *others.values(), *macros_of(sql)) if macro.name != SCOPED]
        wanted = {macro.name: others.get(macro.name, macro) for macro in needed}.values()
        missing = [macro for macro in wanted if self._created.get(macro.name) != macro.sql]
        duckdb = self._connection.duckdb
        as_table = any(SCOPED in macro.calls for macro in missing)
        if as_table:
            duckdb.execute(_VIEW_TO_EMPTY_TABLE)
        for macro in missing:
            duckdb.execute(macro.sql)
            self._created[macro.name] = macro.sql
        if as_table:
            duckdb.execute("DROP TABLE temp.scoped")
            duckdb.execute(self._view)

    def considered(self, phases: tuple[str, ...]) -> int:
        """How many probes of the scope a question looks at, those among them that cannot win."""
        if phases not in self._counts:
            if self._connection.thinned:
                self._counts[phases] = self._count(_COUNT_WHOLE, phases) + self._count(COUNT_THINNED, phases)
            else:
                self._counts[phases] = self._count(_COUNT_ALL if self._is_single() else _COUNT_DISTINCT, phases)
        return self._counts[phases]

    def _count(self, statement: str, phases: tuple[str, ...]) -> int:
        row = self._connection.duckdb.execute(statement, {"phases": list(phases)}).fetchone()
        return int(row[0]) if row else 0

    def _probes(self) -> int:
        """How many probes there are to keep."""
        return self._count(_COUNT_ALL, ()) if self._connection.thinned else self.considered(())

    def _is_single(self) -> bool:
        return len({(row.scenario_id, row.first_batch_size) for row in self._rows}) == len(self._rows)

    def _now(self) -> Moment:
        return Moment(loaded=self._connection.loaded, scope=self._scopes)

    def _show(self) -> None:
        """Create the view `scoped`: over the store or over what is kept of it."""
        text = CONFIDENT.read_text(encoding="utf-8") if self._confident else macros()[SCOPED].sql
        if self._kept is not None:
            text = _FROM_STORE.sub("FROM kept_probe AS probe", text)
        self._connection.duckdb.execute(text)
        self._view = text


_RULES = ("tpot_rule", "prefill_qps_rule", "decode_qps_rule", "throughput_rule", "kv_charge", "reserved_gib")
_OTHER_OBJECTIVES = frozenset(OBJECTIVES.values()) - {"rate", "qps"}


@cache
def narrow_macros(name: str) -> Mapping[str, Macro]:
    """The macros of a file of this folder."""
    return read_macros((_FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def memory_given() -> float:
    """Bytes that a session may keep probes in."""
    asked = os.environ.get(MEMORY)
    if asked is None:
        return _SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        given = float(asked)
    except ValueError:
        given = -1.0
    if not given >= 0:
        raise InputError(f"{MEMORY} is {asked!r}: a number of GiB is expected", hint=f"such as {MEMORY}=2")
    return given * 2**30
