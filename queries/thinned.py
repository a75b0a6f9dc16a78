"""Files of rows that can win: which they are (can_win.sql), and when a question reads only them.

A report's header says whether they suffice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from queries.asking.limit_sql import with_limits
from queries.asking.macros import macros_of, read_sql
from queries.vocabulary import files_for
from store.placing import thinned_in_use, thinned_places
from store.schema import STORED_PROBE
from store.sealing import create_table, insert_rows, load_unsealed, unsealed_select

if TYPE_CHECKING:
    import duckdb

    from queries.asking.headers import Report
    from store.placing import Place
    from store.reading import ReadTransaction
    from store.sealing import Ranges

_FORM = 3  # raised when other rows can win than before: a rate or a rule that rows of before do not answer to
# Other limits are other rules by themselves.
RULES = (_FORM + crc32(with_limits("every_limit_no_worse").encode())) % 2**31
CAN_WIN = Path(__file__).with_name("can_win.sql")
_CONTENDING = "CREATE TEMP VIEW contending AS SELECT *, block_id AS lot FROM probe"
THINNED = "thinned_block"  # in the schema `raw`: blocks that are read so, with how many probes they have
_COLUMNS = [
    ("block_id", "BIGINT"),
    ("scenario_id", "BIGINT"),
    ("first_batch_size", "INTEGER"),
    ("last_batch_size", "INTEGER"),
    ("probe_count", "BIGINT"),
]
# Probes of a scope that lie in blocks of which some rows are not read, each once, by phase.
COUNT_THINNED = f"""
    SELECT b.phase, sum(t.probe_count)::BIGINT
    FROM raw.{THINNED} AS t
    JOIN raw.unsealed_block AS b ON b.block_id = t.block_id
    WHERE EXISTS (
        SELECT 1 FROM scope AS s WHERE s.scenario_id = t.scenario_id
            AND t.first_batch_size >= s.first_batch_size AND t.last_batch_size <= s.last_batch_size
    )
    GROUP BY b.phase"""  # noqa: S608  our names
_GROWING = frozenset({"batch_size", "concurrency"})  # objectives that a row behind a smaller batch size may win by
_Sizes = Sequence[tuple[int, int]] | None
Intervals = Mapping[int, _Sizes]  # of batch sizes that are asked about, by scenario; None: all rows are needed


class _ScopeRow(Protocol):
    @property
    def scenario_id(self) -> int: ...

    @property
    def first_batch_size(self) -> int: ...

    @property
    def last_batch_size(self) -> int: ...


def suffices(asked: Report, values: Mapping[str, object]) -> bool:
    every = values.get("all_pairs") or values.get("target_users")  # of a number of users the row of as many is read
    return "winners" in asked.reads and values.get("objective") not in _GROWING and not every


def intervals_of(rows: Iterable[_ScopeRow], every_row: Collection[int]) -> Intervals:
    """Of scenarios of `every_row` no row may be left out.

    Own runs correct each batch size by a factor of its own, so rows that can win as predicted are not those that win
    as corrected. But which rows of a scenario can win depends on no other scenario: where some are corrected, the
    others' thinned files suffice."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        found[row.scenario_id].append((row.first_batch_size, row.last_batch_size))
    return {**found, **dict.fromkeys(every_row)}


class ThinnedBlocks:
    """Blocks read from thinned files, and for which scope."""

    def __init__(self) -> None:
        self.within: Intervals | None = None
        """What is asked about, where rows that can win suffice; None: every row is needed."""
        self.left_aside = False
        """Whether there are thinned files that were not read: every row was asked for."""
        self._bound: dict[int, list[Place]] = {}
        self._bound_for: Intervals | None = None

    def __bool__(self) -> bool:
        return bool(self._bound)

    def serve(self) -> bool:
        """Enough for this question, and not much more."""
        if self.within is self._bound_for:
            return True
        if self.within is None or not self._bound:
            return not self._bound and not (self.left_aside and self.within is not None)
        return all(
            _is_whole(place, intervals)
            for scenario, intervals in self.within.items()
            for place in self._bound.get(scenario, ())
        )

    def clear(self) -> None:
        self._bound, self._bound_for, self.left_aside = {}, self.within, False

    def place(
        self, transaction: ReadTransaction, places: Sequence[Place], hidden: Mapping[int, Ranges]
    ) -> Sequence[Place]:
        within = self.within
        beside = [row for row in thinned_in_use(transaction) if row.rules == RULES] if places else []
        if within is None or not beside:
            self.left_aside = bool(beside)
            return places

        def suits(place: Place) -> bool:
            return _is_whole(place, within.get(place.scenario_id, ())) and not any(
                _meets(place, interval) for interval in hidden.get(place.scenario_id, ())
            )

        found, replaced = thinned_places(transaction, places, beside, suits)
        for place in replaced:
            self._bound.setdefault(place.scenario_id, []).append(place)
        return found

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        create_table(connection, f"raw.{THINNED}", _COLUMNS)
        insert_rows(
            connection, f"raw.{THINNED}", _COLUMNS, [place[:5] for places in self._bound.values() for place in places]
        )


def create_winners(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, blocks: Ranges) -> None:
    """`can_win` by block, scenario and batch size, in a bare DuckDB."""
    connection.execute("CREATE SCHEMA raw")
    load_unsealed(connection, transaction, blocks, schema="raw")
    connection.execute(f"CREATE VIEW raw.{STORED_PROBE} AS {unsealed_select('raw')}")
    for file in files_for({"probe"}):
        connection.execute(file.sql)
    statements = read_sql(CAN_WIN)
    for macro in macros_of(statements):
        connection.execute(macro.sql)
    connection.execute(_CONTENDING)
    connection.execute(statements)


def _is_whole(place: Place, intervals: _Sizes) -> bool:
    return intervals is not None and all(
        not _meets(place, (low, high)) or (low <= place.first_batch_size and place.last_batch_size <= high)
        for low, high in intervals
    )


def _meets(place: Place, interval: tuple[int, int]) -> bool:
    return interval[0] <= place.last_batch_size and place.first_batch_size <= interval[1]
