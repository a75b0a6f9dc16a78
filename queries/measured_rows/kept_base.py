"""Measured settings as Parquet beside a file store, read while no byte of it changed.

PostgreSQL stores have none; few points are read as fast."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from queries.vocabulary import files_for
from store.location import StoreLocation
from store.sealing import put_document, quoted, snapshot_directories

if TYPE_CHECKING:
    import duckdb

_WORTH_KEEPING = 5_000  # settings
_SETTLED_S = 1.0  # since the store was last written: clocks of files may be this coarse
_SAID = "measured-rows.json"
_VIEW = "measured_probe"


class KeptBase:
    """By the statement that makes them."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, location: StoreLocation, store_id: str, made_by: str
    ) -> None:
        self._duckdb, self._location = connection, location
        self._folder = snapshot_directories(location, store_id)[0]
        texts = [metadata.version("sweepdb"), made_by, *(file.sql for file in files_for({_VIEW}))]
        self._program = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def state(self) -> list[object] | None:
        """None while a store may change without a trace."""
        if self._location.path is None:
            return None
        files = [_version(self._location.path.with_name(self._location.path.name + end)) for end in ("", "-wal")]
        newest = max((one[2] for one in files if one), default=0)
        return None if time.time_ns() - newest < _SETTLED_S * 1e9 else [self._program, *files]

    def load(self, table: str, state: list[object] | None) -> bool:
        """Returns whether any was kept."""
        with suppress(OSError, ValueError, LookupError, TypeError, self._duckdb_error()):
            said = json.loads((self._folder / _SAID).read_text(encoding="utf-8"))
            path = self._folder / Path(said["name"]).name
            if state is not None and said["state"] == state and said["file"] == _version(path):
                self._duckdb.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {_read(path)}")  # noqa: S608
                return True
        return False

    def keep(self, table: str, state: list[object] | None) -> None:
        """Unless the store changed since, or the folder is not ours."""
        ((count,),) = self._duckdb.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
        if state is None or count < _WORTH_KEEPING or self.state() != state:
            return
        name = f"measured-rows-{hashlib.sha256(json.dumps(state).encode()).hexdigest()[:12]}.parquet"
        with suppress(OSError, self._duckdb_error()):
            self._folder.mkdir(exist_ok=True)
            temporary = self._folder / f".{name}.{time.time_ns()}"
            try:
                self._duckdb.execute(f"COPY {table} TO {quoted(temporary)} (FORMAT parquet)")
                temporary.replace(self._folder / name)
            finally:
                temporary.unlink(missing_ok=True)
            said = {"state": state, "name": name, "file": _version(self._folder / name)}
            put_document(self._folder / _SAID, said)
            for path in self._folder.glob("measured-rows-*.parquet"):
                if path.name != name:
                    path.unlink(missing_ok=True)

    @staticmethod
    def _duckdb_error() -> type[Exception]:
        from store.reading import duckdb

        return duckdb.Error


def _version(path: Path) -> list[int]:
    """Changes with its content; none for an empty one, which SQLite makes and removes."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return []
    return [found.st_ino, found.st_size, max(found.st_mtime_ns, found.st_ctime_ns)] if found.st_size else []


def _read(path: Path) -> str:
    return f"read_parquet({quoted(path)})"
