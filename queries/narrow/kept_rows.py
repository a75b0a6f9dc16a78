"""A scope's probes in memory: all of some phases, those that can win, and what limits read."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from queries.asking.macros import read_sql
from store.errors import InputError
from store.light_dataclass import dataclass
from store.reading import machine_memory
from store.schema import NAMED_COLUMNS, VIEW_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from queries.connect import StoreConnection

MEMORY = "SWEEPDB_SESSION_MEMORY"
_SHARE = 0.25  # of this machine's memory
_KEPT_BYTES = 800  # a probe, in every table: 570 as it is kept, and where it can win half of them once more
_FOLDER = Path(__file__).parent
_OF_BLOCKS = ("block_id", "first_sweep", "stored_at")  # probes of a scenario differ in them
_OF_SCENARIOS = (
    *(one.name for one in NAMED_COLUMNS if one.name not in {*_OF_BLOCKS, "scenario_id", "batch_size"}),
    "plan",
)
_NAMED = f"""
    CREATE OR REPLACE TEMP TABLE named AS
    SELECT scenario_id, {", ".join(f"any_value({name}) AS {name}" for name in _OF_SCENARIOS)}
    FROM {{source}}
    WHERE scenario_id IN (SELECT scenario_id FROM scope) AND phase IN (SELECT unnest($phases::VARCHAR[]))
    GROUP BY scenario_id"""  # noqa: S608  our names
_KEPT = f"""
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT * EXCLUDE ({", ".join(_OF_SCENARIOS)}) FROM {{source}}
    WHERE scenario_id IN (SELECT scenario_id FROM named)"""  # noqa: S608  our names
_WINNERS = """
    CREATE OR REPLACE TEMP TABLE winners AS
    SELECT kept.*
    FROM kept
    SEMI JOIN can_win ON can_win.scenario_id = kept.scenario_id AND can_win.batch_size = kept.batch_size"""


class Rows(StrEnum):
    """In the store, or in a table of this name."""

    STORED = "stored"
    KEPT = "kept"
    WINNERS = "winners"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The store as read, and the scope."""

    loaded: int
    scope: int


class KeptRows:
    """Tables `kept`, `lots`, `winners`, `narrow_kept` and `narrow_winners` of one moment."""

    def __init__(self, connection: StoreConnection, memory_share: float) -> None:
        self._connection = connection
        self._memory_share = memory_share
        self._moment: Moment | None = None
        self._narrow: dict[Rows, object] = {}  # by rows, the rules that a narrow table is by
        self.phases: frozenset[str] = frozenset()
        self.has_winners = False

    def are_of(self, moment: Moment) -> bool:
        return self._moment == moment

    def fits(self, probes: int) -> bool:
        return probes * _KEPT_BYTES <= self._memory_share * memory_given()

    def forget(self) -> None:
        """Before replacements are made: both would take twice the memory."""
        if self._moment is not None:
            for table in ("kept", "winners", *(f"narrow_{rows}" for rows in self._narrow)):
                self._connection.duckdb.execute(f"DROP TABLE IF EXISTS temp.{table} CASCADE")
        self._moment, self._narrow = None, {}
        self.phases, self.has_winners = frozenset(), False

    def keep(self, phases: Collection[str], moment: Moment, source: str) -> None:
        duckdb = self._connection.duckdb
        duckdb.execute(_NAMED.format(source=source), {"phases": sorted(phases)})
        duckdb.execute(_KEPT.format(source=source))
        duckdb.execute(read_sql(_FOLDER / "kept.sql"))
        self._moment, self.phases = moment, frozenset(phases)

    def keep_winners(self) -> None:
        self._connection.duckdb.execute(_WINNERS)
        self._connection.duckdb.execute("DROP TABLE temp.can_win")
        self.has_winners = True

    def is_narrow(self, rows: Rows, rules: object) -> bool:
        return self._narrow.get(rows) == rules

    def keep_narrow(self, rows: Rows, rules: object, select: str) -> None:
        self._connection.duckdb.execute(f"CREATE OR REPLACE TEMP TABLE narrow_{rows} AS\n{select}")
        self._narrow[rows] = rules

    def probe_view(self, rows: Rows) -> str:
        """In place of `probe`, with the same columns."""
        of_scenarios = frozenset(_OF_SCENARIOS)
        names = (column.name for column in VIEW_COLUMNS)
        columns = ", ".join(f"{'named' if name in of_scenarios else rows}.{name}" for name in names)
        return (
            f"CREATE OR REPLACE TEMP VIEW probe AS SELECT {columns} FROM {rows}"  # noqa: S608  our names
            f" JOIN named ON named.scenario_id = {rows}.scenario_id"
        )


def memory_given() -> float:
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
