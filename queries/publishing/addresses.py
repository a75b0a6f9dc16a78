"""The target that an address names."""

from __future__ import annotations

from pathlib import Path

from queries.publishing.duckdb_targets import DuckdbTarget, ParquetTarget
from queries.publishing.row_targets import PostgresqlTarget, SqliteTarget
from queries.publishing.targets import Target
from store.errors import InputError

_KINDS = "FILE.duckdb, FILE.sqlite, FOLDER.parquet or postgresql://user@host/database"


def target_of(text: str) -> Target:
    """A target by its address."""
    if "://" in text:
        if not text.startswith(("postgresql://", "postgres://")):
            raise InputError(f"{text!r} is no place to publish to", hint=f"name {_KINDS}")
        return PostgresqlTarget(text)
    path = Path(text).expanduser()
    match path.suffix.lower():
        case ".duckdb":
            return DuckdbTarget(path)
        case ".parquet":
            return ParquetTarget(path)
        case ".sqlite" | ".db":
            return SqliteTarget(path)
    raise InputError(f"{text!r} does not say what it is to be", hint=f"name {_KINDS}")
