"""DuckDB of this process alone, in memory. Not here: what is read into it (store.sealing, queries.connect)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# In a notebook DuckDB refuses to hear of its progress bar, even of having none, where the package that would draw it is
# not installed; it draws none then.
_SILENCED = (
    "SET enable_progress_bar = false",
    "SET enable_progress_bar_print = false",  # even where somebody asks how far a statement is
)


def in_memory() -> duckdb.DuckDBPyConnection:
    """An empty DuckDB that prints nothing: where no script is run, as in `python -c`, it would draw a progress bar."""
    import duckdb

    connection = duckdb.connect()
    for statement in _SILENCED:
        with suppress(duckdb.InvalidInputException):
            connection.execute(statement)
    return connection
