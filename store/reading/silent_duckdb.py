"""DuckDB of this process alone, in memory. Not here: what is read into it (store.sealing, queries.connect)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def in_memory() -> duckdb.DuckDBPyConnection:
    """An empty DuckDB that prints nothing: where no script is run, as in `python -c`, it would draw a progress bar."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET enable_progress_bar_print = false")  # even where somebody asks how far a statement is
    return connection
