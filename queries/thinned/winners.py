"""Works out which probes of some blocks can win, by the views and macros that reports are built on.

Not here: files of such rows (sweepdb.thinning), and reading them in place of parts (queries.thinned.binding)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from queries.asking.limits import with_limits
from queries.asking.macros import macros_of, read_sql
from queries.vocabulary import files_for
from store.schema.raw_relations import STORED_PROBE
from store.sealing import load_unsealed, unsealed_select

if TYPE_CHECKING:
    import duckdb

    from store.reading import ReadTransaction
    from store.sealing import Ranges

_FORM = 1  # raised when other rows can win than before: a rate or a rule that rows of before do not answer to
# Other limits are other rules by themselves.
RULES = (_FORM + crc32(with_limits("every_limit_never_better").encode())) % 2**31
CAN_WIN = Path(__file__).with_name("can_win.sql")


def create_winners(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, blocks: Ranges) -> None:
    """Create `can_win` of the committed blocks within ranges, by block, scenario and batch size, in a bare DuckDB."""
    connection.execute("CREATE SCHEMA raw")
    load_unsealed(connection, transaction, blocks, schema="raw")
    connection.execute(f"CREATE VIEW raw.{STORED_PROBE} AS {unsealed_select('raw')}")
    for file in files_for({"probe"}):
        connection.execute(file.sql)
    statements = read_sql(CAN_WIN)
    for macro in macros_of(statements):
        connection.execute(macro.sql)
    connection.execute(statements)
