"""DuckDB's engine without the Python around it, relations that are built step by step: importing those took a fifth of
the processor time of a question. Everything that a store does with DuckDB is SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:  # another layout of the package
        import duckdb

__all__ = ["duckdb"]
