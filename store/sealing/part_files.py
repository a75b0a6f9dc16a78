"""Files of rows, whether snapshots of a store or parts in place of its rows: one format, written and read back one way.

Both are sorted by scenario and batch size. A snapshot also holds the names of its rows, which makes a question over all
of a store half as dear; a part holds numbers alone, so that renaming a model changes no file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from store.light_dataclass import dataclass
from store.placing import flush_folder, put_text, whole_digest

if TYPE_CHECKING:
    import duckdb

LARGEST_PART_ROWS = 1_500_000
RETIRED_KEPT_S = 300.0  # a reader opens the files it listed within this time; a slower one lists them again
ROWS_AT_ONCE = 200_000  # that are handed over or compared together
# A dictionary of numbers that all differ is made for nothing; version 2 splits them into bytes that compress to half.
PARQUET = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2, DICTIONARY_SIZE_LIMIT 1000, ROW_GROUP_SIZE 122880"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file as it was when it got its name."""

    size: int
    mtime_ns: int
    ctime_ns: int  # when anything of it changed, which nobody can set
    sha256: str


def quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def copy_rows(connection: duckdb.DuckDBPyConnection, select: str, path: Path, *, footer: str = "") -> None:
    """Write the rows of a statement to a file, in their order. `footer` is more of what COPY takes."""
    connection.execute(f"COPY ({select}) TO {quoted(path)} ({PARQUET}{footer})")


def rows_written(connection: duckdb.DuckDBPyConnection, columns: str, source: str, path: Path) -> int | None:
    went_in = digest_of(connection, columns, source)
    return went_in[0] if digest_of(connection, columns, f"FROM read_parquet({quoted(path)}) AS f") == went_in else None


def digest_of(connection: duckdb.DuckDBPyConnection, columns: str, source: str) -> tuple[int, int | None]:
    """How many rows there are, and a digest of them whatever their order."""
    row = connection.execute(f"SELECT COUNT(*), BIT_XOR(hash({columns})) {source}").fetchone()
    return row if row is not None else (0, None)


def give_name(temporary: Path, path: Path) -> WrittenFile:
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    sha256 = whole_digest(temporary)
    temporary.replace(path)
    flush_folder(path.parent)
    status = path.stat()
    return WrittenFile(size=status.st_size, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns, sha256=sha256)


def put_document(path: Path, document: object) -> None:
    put_text(path, json.dumps(document, indent=1))
