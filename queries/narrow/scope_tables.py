"""The temporary relations of the scope that a session looks at: `scope`, `scoped`, macros, and what is kept in memory.

A second question finds the probes of its phases in memory, what limits read of them in a narrow table beside, and
the rows that can win at all (contenders) in the order of an objective.
Not here: which scope a question has (queries.scoping), running reports (queries.session)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from queries.asking.library import CONFIDENT
from queries.asking.macros import SCOPED, Macro, macros, macros_of, names_in, read_macros, read_sql
from queries.asking.options import Definitions
from queries.asking.parameters import OBJECTIVES
from queries.asking.variables import literal, settings
from queries.thinned.binding import COUNT_THINNED, THINNED
from store.errors import InputError
from store.reading import machine_memory
from store.schema import NAMED_COLUMNS
from store.sealing import insert_rows

if TYPE_CHECKING:
    from queries.asking.headers import Report
    from queries.connect import StoreConnection
    from queries.scoping.scope import ScopeRow

MEMORY = "SWEEPDB_SESSION_MEMORY"
_SHARE = 0.25  # of this machine's memory
_KEPT_BYTES = 800  # a probe, in every table: 570 as it is kept, and as a contender half of them once more
_PART_BYTES = 33  # a probe, in a part
MOST_AT_ONCE = 200_000  # probes that are kept before anybody asks again: a fifth of a second where they lie together
MUCH_BYTES = 8_000_000  # of parts that are opened: a tenth of a second of decoding, as much as planning a question
_SCATTERED = 4  # times as much is opened as the scope is
_FOLDER = Path(__file__).parent
_VIEW = "CREATE OR REPLACE TEMP VIEW scoped AS"
_NO_VIEW = "DROP VIEW IF EXISTS temp.scoped"
_EMPTY_TABLE = "CREATE TEMP TABLE scoped AS SELECT * FROM (\n{}\n) LIMIT 0"
_SCOPE = """
    CREATE OR REPLACE TEMP TABLE scope (
        scenario_id BIGINT, first_batch_size INTEGER, last_batch_size INTEGER, question_group INTEGER
    )"""
_COUNT_ALL = """
    SELECT phase, count(*)
    FROM raw.stored_probe AS stored
    JOIN scope ON scope.scenario_id = stored.scenario_id
    WHERE stored.batch_size BETWEEN scope.first_batch_size AND scope.last_batch_size
    GROUP BY phase"""
# A row of several groups is looked at once.
_COUNT_DISTINCT = _COUNT_ALL.replace("count(*)", "count(DISTINCT (stored.scenario_id, batch_size))")
_IN_PLACE = f"stored.block_id NOT IN (SELECT block_id FROM raw.{THINNED})"  # noqa: S608  our names
_COUNT_WHOLE = _COUNT_DISTINCT.replace("WHERE", f"WHERE {_IN_PLACE} AND")
_FROM_STORE = re.compile(r"\bFROM probe\b")
_FROM_NARROW = re.compile(r"\bFROM narrow\b")
_OF_BLOCKS = ("block_id", "first_sweep", "stored_at")  # probes of a scenario differ in them
_OF_SCENARIOS = (
    *(one.name for one in NAMED_COLUMNS if one.name not in {*_OF_BLOCKS, "scenario_id", "batch_size"}),
    "plan",
)
_NAMED = f"""
    CREATE OR REPLACE TEMP TABLE named AS
    SELECT scenario_id, {", ".join(f"any_value({name}) AS {name}" for name in _OF_SCENARIOS)}
    FROM probe
    WHERE scenario_id IN (SELECT scenario_id FROM scope) AND phase IN (SELECT unnest($phases::VARCHAR[]))
    GROUP BY scenario_id"""  # noqa: S608  our names
_KEPT = f"""
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT * EXCLUDE ({", ".join(_OF_SCENARIOS)}) FROM probe
    WHERE scenario_id IN (SELECT scenario_id FROM named);
    CREATE OR REPLACE TEMP VIEW kept_probe AS
    SELECT kept.*, kept.rowid AS kept_row, named.* EXCLUDE (scenario_id)
    FROM kept JOIN named ON named.scenario_id = kept.scenario_id"""  # noqa: S608  our names
_BY_OBJECTIVE = re.compile(r"\bpicked\([^()]*(?:\(\'wanted_phase\'\))?[^()]*getvariable\(\'objective\'\)")
_OF_PICKS = re.compile(r"(?<!MACRO )\b(?:picked|side|ranked_rows)\(")  # calls of what is over the table of picks
# Macros that yield rows of engines alone, with arguments that they can be planned with.
_OF_ENGINES = {
    "engine_prefills": "", "engine_decodes": "", "engine_frontier": "", "engine_pairs": "'budget', 1, FALSE, 1, ''",
}  # fmt: skip
_NARROW = "CREATE OR REPLACE TEMP TABLE narrow AS SELECT * FROM narrow_rows({})"
_MORE_NARROW = "INSERT INTO narrow SELECT * FROM narrow_rows({})"
_PICKS = "CREATE OR REPLACE TEMP TABLE picks AS SELECT * FROM first_rows($objective)"
_CONTENDING = "CREATE OR REPLACE TEMP TABLE contenders_by_{0} AS SELECT * FROM contending_rows('{0}')"
_CONTENDERS = "CREATE OR REPLACE TEMP VIEW contenders AS SELECT *, rowid AS contender_row FROM contenders_by_{}"
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
        self._of_loads = False  # whether points are loads
        self._others: dict[str, Macro] = {}  # over what is kept, in place of those over the store
        self._empty: dict[str, Macro] = {}  # macros about rows of engines that yield none
        self._variables: dict[str, str] = {}  # the statement that each was last set by
        self._confident = False
        self._view = ""  # the statement that makes `scoped`
        self._is_there = False  # whether it was made
        self._scopes = 0
        self._kept: Moment | None = None
        self._kept_phases: frozenset[str] = frozenset()
        self._in_memory = False  # whether `scoped` shows what is kept
        self._narrow: tuple[Moment, frozenset[str], Rules] | None = None
        self._contending: list[str] = []  # objectives by which rows are in order, the last one asked for at the end
        self._counts: Counter[str] = Counter()  # probes by phase

    def provide(self, rows: Sequence[ScopeRow], *, of_probes: bool) -> None:
        """Make `scope` the rows of a question, and `scoped` their probes as the store has them."""
        duckdb = self._connection.duckdb
        duckdb.execute(_SCOPE)
        columns = [(name, "BIGINT" if name == "scenario_id" else "INTEGER") for name in type(rows[0]).__slots__]
        insert_rows(duckdb, "scope", columns, [[getattr(row, name) for name, _ in columns] for row in rows])
        self._rows, self._counts = rows, Counter()
        self._scopes += 1
        self._confident, self._in_memory, self._others = False, False, {}
        self._forget()
        self._view, self._is_there = "", True
        if of_probes:
            self._show()

    def _forget(self) -> None:
        """Give up what is kept before anything takes its place: both would take twice the memory."""
        tables = () if self._kept is None else ("kept", "narrow", *(f"contenders_by_{one}" for one in self._contending))
        for table in tables:
            self._connection.duckdb.execute(f"DROP TABLE IF EXISTS temp.{table} CASCADE")
        self._kept = self._narrow = None
        self._kept_phases, self._contending = frozenset(), []

    def read_with_factors(self, confident: bool) -> None:
        """Compare limits with bounds of measured values, by the table `factors`, or with predictions."""
        if confident != self._confident:
            self._confident = confident
            self._show()

    def keep_where_scattered(self, phases: Collection[str]) -> None:
        """Keep a few probes that lie among many others before the first question, too.

        Reading them is mostly decoding what lies beside them, which is done once instead of twice."""
        opened = self._connection.part_bytes
        if opened >= MUCH_BYTES and self._there(phases) <= min(MOST_AT_ONCE, opened / (_SCATTERED * _PART_BYTES)):
            self.keep(phases)

    def keep(self, phases: Collection[str]) -> bool:
        """Keep the probes of phases that are asked about again, unless they take too much memory; whether they are.

        Those of phases that nobody asked about stay in the store: `scoped` shows what is kept where that is all there
        is to look at."""
        shown, there = self._in_memory, self._kept == self._now()
        wanted = self._kept_phases.union(phases) if there else frozenset(phases)
        if there and wanted == self._kept_phases:
            self._in_memory = True
        else:
            self._in_memory = self._there(wanted) * _KEPT_BYTES <= self._memory_share * memory_given()
            if self._in_memory:
                self._keep(wanted)
                shown = False
        if shown != self._in_memory:
            self._show()
        return self._in_memory

    def _keep(self, phases: frozenset[str]) -> None:
        self._forget()
        duckdb = self._connection.duckdb
        duckdb.execute(_NAMED, {"phases": sorted(phases)})
        duckdb.execute(_KEPT)
        duckdb.execute((_FOLDER / "kept.sql").read_text(encoding="utf-8"))
        self._kept, self._kept_phases = self._now(), phases

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
        self._of_loads = asked.of_loads
        self._others = {**narrow_macros("stored")} if self._is_kept() else {}
        if asked_of.again and "narrow" in asked.reads and self._is_narrow(definitions, values):
            if not asked_of.served:
                self._others |= self._without_engines(asked)
            self._others |= narrow_macros("judged")
            if self._confident:
                self._others |= narrow_macros("confident")
            if values["objective"] not in _OTHER_OBJECTIVES:
                self._pick(asked, values, asked_of)
        self.create_macros(f"{asked.sql}\n{more}")

    def _pick(self, asked: Report, values: Mapping[str, object], asked_of: AskedOf) -> None:
        """Have the best row of each scenario looked up among the contenders, where a report asks for these.

        They are written down where it looks at them more than once."""
        looks = _looks_at_picks(asked.sql, tuple(self._others.values()))
        if looks is None:
            return
        objective = str(values["objective"]) if looks.by_objective else "qps"
        self._contend(objective)
        self._others |= {"judged_contenders": self._judged_contenders(), **narrow_macros("first_rows")}
        self._set({"picked_phases": f"SET VARIABLE picked_phases = {literal(asked_of.phases)};"})
        if looks.times == 1:
            self._others |= narrow_macros("picked_once")
            return
        self._create(self._others["first_rows"].sql, self._others)
        self._connection.duckdb.execute(_PICKS, {"objective": objective})
        self._others |= narrow_macros("picked")
        if not values["all_pairs"] and not asked_of.served:
            self._others |= narrow_macros("sides")

    def _contend(self, objective: str) -> None:
        """Have the view `contenders` show rows in order by an objective."""
        if self._contending[-1:] == [objective]:
            return
        if objective in self._contending:
            self._contending.remove(objective)
        else:
            duckdb = self._connection.duckdb
            duckdb.execute(read_sql(_FOLDER / "contenders.sql"))
            duckdb.execute(_CONTENDING.format(objective))
        self._connection.duckdb.execute(_CONTENDERS.format(objective))
        self._contending.append(objective)

    def _judged_contenders(self) -> Macro:
        """The macro of judged rows over those that can be the first of their scenario."""
        judged = self._others["judged_rows"]
        sql = _FROM_NARROW.sub("FROM contenders AS narrow", judged.sql).replace("narrow.rowid", "narrow.contender_row")
        return Macro(
            name="judged_contenders", sql=sql.replace("judged_rows()", "judged_contenders()"), calls=judged.calls
        )

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
        wanted = (self._now(), self._kept_phases, rules)
        if not self._is_kept() or self._narrow == wanted:
            return self._is_kept()
        self.set_variables({name: values[name] for name in _RULES})
        text = read_sql(_FOLDER / "narrow.sql")
        self._create(text, {})
        duckdb = self._connection.duckdb
        duckdb.execute(text)
        for number, phase in enumerate(sorted(self._kept_phases)):
            duckdb.execute((_MORE_NARROW if number else _NARROW).format(literal(phase)))
        self._narrow, self._contending = wanted, []
        return True

    def set_variables(self, values: Mapping[str, object]) -> None:
        """Set variables that SQL reads, where they hold something else."""
        self._set(settings(values))

    def _set(self, wanted: dict[str, str]) -> None:
        if changed := wanted.items() - self._variables.items():  # each takes 0.3 ms
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
        called = macros_of(sql, of_loads=self._of_loads)
        needed = [macro for macro in (*below, *others.values(), *called) if macro.name != SCOPED]
        wanted = {macro.name: others.get(macro.name, macro) for macro in needed}.values()
        missing = [macro for macro in wanted if self._created.get(macro.name) != macro.sql]
        duckdb = self._connection.duckdb
        as_table = any(SCOPED in macro.calls for macro in missing)
        if as_table:
            self._is_there = False
            duckdb.execute(_NO_VIEW)
            duckdb.execute(_EMPTY_TABLE.format(self._view[self._view.index(_VIEW) + len(_VIEW) :].rstrip().rstrip(";")))
        elif missing:
            self.show()  # planned over what is kept, they would miss what was given up since
        for macro in missing:
            duckdb.execute(macro.sql)
            self._created[macro.name] = macro.sql
        if as_table:
            duckdb.execute("DROP TABLE temp.scoped")
        self.show()

    def show(self) -> None:
        """Have the view `scoped` there, for statements that no macro is created for."""
        if not self._is_there:
            self._connection.duckdb.execute(self._view)
            self._is_there = True

    def considered(self, phases: Collection[str]) -> int:
        """How many probes of the scope a question looks at, those among them that cannot win."""
        if not self._counts:
            if self._connection.thinned:
                self._counts = self._counted(_COUNT_WHOLE) + self._counted(COUNT_THINNED)
            else:
                self._counts = self._counted(_COUNT_ALL if self._is_single() else _COUNT_DISTINCT)
        return sum(self._counts[phase] for phase in phases)

    def _there(self, phases: Collection[str]) -> int:
        """How many of them can be read."""
        if not self._connection.thinned:
            return self.considered(phases)
        there = self._counted(_COUNT_DISTINCT)
        return sum(there[phase] for phase in phases)

    def _counted(self, statement: str) -> Counter[str]:
        return Counter(dict(self._connection.duckdb.execute(statement).fetchall()))

    def _is_single(self) -> bool:
        return len({(row.scenario_id, row.first_batch_size) for row in self._rows}) == len(self._rows)

    def _is_kept(self) -> bool:
        return self._in_memory and self._kept == self._now()

    def _now(self) -> Moment:
        return Moment(loaded=self._connection.loaded, scope=self._scopes)

    def _show(self) -> None:
        """Have the view `scoped` over the store or over what is kept of it, from the next statement on."""
        text = read_sql(CONFIDENT) if self._confident else macros()[SCOPED].sql
        if self._in_memory:
            text = _FROM_STORE.sub("FROM kept_probe AS probe", text)
        self._view, self._is_there = text, False


class _Looks(NamedTuple):
    """How often a report looks at the best rows of scenarios, and whether by the objective that is asked for."""

    times: int
    by_objective: bool


@lru_cache(maxsize=64)  # reading every macro of a report takes a millisecond
def _looks_at_picks(sql: str, others: tuple[Macro, ...]) -> _Looks | None:
    """How a report looks at the best rows; None where it does not. `others` stand in place of macros of their names."""
    known = {**macros(), **{macro.name: macro for macro in others}}
    texts: dict[str, str] = {}
    pending: set[str] = set(names_in(sql) & known.keys())
    while pending:
        texts |= {name: known[name].sql for name in pending}
        pending = {one for name in pending for one in names_in(texts[name]) & known.keys()} - texts.keys()
    built_on = "\n".join((sql, *texts.values()))
    if "picked(" not in built_on:
        return None
    return _Looks(times=len(_OF_PICKS.findall(built_on)), by_objective=_BY_OBJECTIVE.search(built_on) is not None)


_RULES = ("tpot_rule", "prefill_qps_rule", "decode_qps_rule", "throughput_rule", "kv_charge", "reserved_gib")
_OTHER_OBJECTIVES = frozenset(OBJECTIVES.values()) - {"rate", "qps"}


@cache
def narrow_macros(name: str) -> Mapping[str, Macro]:
    """The macros of a file of this folder."""
    return read_macros(read_sql(_FOLDER / f"{name}.sql"))


def memory_given() -> float:
    """Bytes that a session may keep probes in."""
    asked = os.environ.get(MEMORY)
    if asked is None:
        return _SHARE * machine_memory()
    try:
        given = float(asked)
    except ValueError:
        given = -1.0
    if not given >= 0:
        raise InputError(f"{MEMORY} is {asked!r}: a number of GiB is expected", hint=f"such as {MEMORY}=2")
    return given * 2**30
