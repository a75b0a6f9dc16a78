"""Scenarios of a store as one relation, and probes hidden by voids: of the scenario, or of every sweep that asked."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from store.light_dataclass import NamedTuple, dataclass
from store.reading import ReadTransaction
from store.schema import ALIASES, SCENARIO, SCENARIO_REFERENCES, VOIDED_SWEEPS, scenario_tables
from store.sealing import LARGEST_KEY, Range, Ranges, complement, create_table, insert_rows, merged

if TYPE_CHECKING:
    import duckdb


_STORED_COLUMN = r"\b([a-z]+)\.(\w+)"
_VOIDED = [("scenario_id", "BIGINT")]
_JOINED_TABLES = {alias: ALIASES[alias] for alias in ("sc", *SCENARIO_REFERENCES)}
_EVERY_SIZE: Ranges = ((0, LARGEST_KEY),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Batch intervals by scenario; a whole one covers all sizes."""

    intervals: dict[int, Ranges]

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        return [(scenario, low, high) for scenario, ranges in self.intervals.items() for low, high in ranges]

    @property
    def whole_scenarios(self) -> list[int]:
        """Nothing is visible, whatever is stored."""
        return [scenario for scenario, ranges in self.intervals.items() if ranges == _EVERY_SIZE]


def read_hidden(transaction: ReadTransaction) -> Hidden:
    voided = "SELECT scenario_id FROM tombstone WHERE lifted_at IS NULL AND scenario_id IS NOT NULL"
    intervals = _without_askers(transaction)
    for scenario in transaction.values(int, voided):
        intervals[scenario] = _EVERY_SIZE
    return Hidden(intervals=intervals)


class _Interval(NamedTuple):
    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    is_voided: int  # 1 where its sweep is


def _without_askers(transaction: ReadTransaction) -> dict[int, Ranges]:
    statement = (
        f"SELECT i.scenario_id, i.first_batch_size, i.last_batch_size,"  # noqa: S608 - our text
        f" CASE WHEN i.sweep_id IN ({VOIDED_SWEEPS}) THEN 1 ELSE 0 END FROM sweep_interval i WHERE i.scenario_id IN"
        f" (SELECT scenario_id FROM sweep_interval WHERE sweep_id IN ({VOIDED_SWEEPS}))"
    )
    asked: dict[int, tuple[list[Range], list[Range]]] = defaultdict(lambda: ([], []))
    for row in transaction.rows(_Interval, statement):
        asked[row.scenario_id][row.is_voided].append((row.first_batch_size, row.last_batch_size))
    hidden = {scenario: _difference(voided, visible) for scenario, (visible, voided) in asked.items()}
    return {scenario: ranges for scenario, ranges in hidden.items() if ranges}


def _difference(voided: list[Range], visible: list[Range]) -> Ranges:
    if not visible:
        return _EVERY_SIZE
    gaps = complement(visible)
    return merged(
        (max(low, gap_low), min(high, gap_high))
        for low, high in voided
        for gap_low, gap_high in gaps
        if max(low, gap_low) <= min(high, gap_high)
    )


def load_scenarios(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction) -> None:
    connection.execute("DROP SCHEMA IF EXISTS joining CASCADE")
    connection.execute("CREATE SCHEMA joining")
    create_table(connection, "joining.voided", _VOIDED)
    insert_rows(connection, "joining.voided", _VOIDED, [(key,) for key in read_hidden(transaction).whole_scenarios])
    for alias, columns in _needed().items():
        table = f"joining.{_JOINED_TABLES[alias]}"
        create_table(connection, table, list(columns.items()))
        rows = transaction.cells(f"SELECT {', '.join(columns)} FROM {_JOINED_TABLES[alias]}")  # noqa: S608 - our names
        insert_rows(connection, table, list(columns.items()), rows)
    selected = ", ".join(f"{column.source} AS {column.name}" for column in SCENARIO.columns)
    connection.execute(
        f"CREATE TABLE raw.scenario AS SELECT {selected} FROM {scenario_tables(schema='joining.')}"  # noqa: S608 - our names
    )
    connection.execute("DROP SCHEMA joining CASCADE")


def _needed() -> dict[str, dict[str, str]]:
    needed: dict[str, dict[str, str]] = defaultdict(lambda: {"id": "BIGINT"})
    for column in SCENARIO.columns:
        for alias, name in re.findall(_STORED_COLUMN, column.source):
            if alias in _JOINED_TABLES:
                needed[alias].setdefault(name, column.type)
    for reference in SCENARIO_REFERENCES.values():
        alias, name = reference.split(".")
        needed[alias][name] = "BIGINT"
    return needed
