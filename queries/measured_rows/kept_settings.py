"""Rows of measured settings as Parquet beside a file store, asked there while no byte of the store changed.

PostgreSQL stores have none; few points are read as fast."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from queries.measured_rows.relation import MADE_BY, ROWS, Read, show_rows
from queries.measured_rows.servers import NamedServer
from queries.vocabulary import files_for
from store import reading
from store.location import StoreLocation
from store.sealing import put_document, quoted, snapshot_directories

if TYPE_CHECKING:
    import duckdb

_WORTH_KEEPING = 5_000  # settings
_REPLACED_S = 600.0  # since when nobody asks of what another store's state made
_SETTLED_S = 1.0  # since the store was last written: clocks of files may be this coarse
_SAID = "measured-rows.json"
_VIEW = "measured_probe"


class KeptSettings:
    """By the statements that make them, and by what decides how servers are called."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, location: StoreLocation, store_id: str, decided_by: str
    ) -> None:
        self._duckdb, self._location = connection, location
        self._folder = snapshot_directories(location, store_id)[0]
        self._asked: Path | None = None
        texts = [metadata.version("sweepdb"), MADE_BY, decided_by, *(file.sql for file in files_for({_VIEW}))]
        self._program = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def state(self) -> list[object] | None:
        """None while a store may change without a trace."""
        if self._location.path is None:
            return None
        files = [_version(self._location.path.with_name(self._location.path.name + end)) for end in ("", "-wal")]
        newest = max((one[2] for one in files if one), default=0)
        return None if time.time_ns() - newest < _SETTLED_S * 1e9 else [self._program, *files]

    def load(self, state: list[object] | None) -> Read | None:
        """Show the rows, if any were kept."""
        with suppress(OSError, ValueError, LookupError, TypeError, self._duckdb_error()):
            said = json.loads((self._folder / _SAID).read_text(encoding="utf-8"))
            path = self._folder / Path(said["name"]).name
            if state is not None and said["state"] == state and said["file"] == _version(path):
                servers = tuple(NamedServer(*one) for one in said["servers"])
                lengths = tuple((prompt, answer) for prompt, answer in said["lengths"])
                show_rows(self._duckdb, _read(path))
                self._asked = path
                return Read(servers=servers, lengths=lengths, left_out=said["left_out"])
        return None

    @property
    def are_gone(self) -> bool:
        return self._asked is not None and not self._asked.exists()

    def keep(self, read: Read, state: list[object] | None) -> None:
        """Unless the store changed since, or the folder is not ours."""
        self._asked = None
        ((count,),) = self._duckdb.execute(f"SELECT count(*) FROM {ROWS}").fetchall()  # noqa: S608
        if state is None or count < _WORTH_KEEPING or self.state() != state:
            return
        name = f"measured-rows-{hashlib.sha256(json.dumps(state).encode()).hexdigest()[:12]}.parquet"
        with suppress(OSError, self._duckdb_error()):
            self._folder.mkdir(exist_ok=True)
            temporary = self._folder / f".{name}.{time.time_ns()}"
            try:
                self._duckdb.execute(f"COPY {ROWS} TO {quoted(temporary)} (FORMAT parquet)")
                temporary.replace(self._folder / name)
            finally:
                temporary.unlink(missing_ok=True)
            said = {"state": state, "name": name, "file": _version(self._folder / name), **read._asdict()}
            put_document(self._folder / _SAID, said)
            for path in self._folder.glob("measured-rows-*.parquet"):
                if path.name != name and time.time() - path.stat().st_mtime > _REPLACED_S:
                    path.unlink(missing_ok=True)

    @staticmethod
    def _duckdb_error() -> type[Exception]:
        return reading.duckdb.Error


def _version(path: Path) -> list[int]:
    """Changes with its content; none for an empty one, which SQLite makes and removes."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return []
    return [found.st_ino, found.st_size, max(found.st_mtime_ns, found.st_ctime_ns)] if found.st_size else []


def _read(path: Path) -> str:
    return f"read_parquet({quoted(path)})"
