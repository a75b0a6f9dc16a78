"""DuckDB files, and folders of Parquet."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from queries.asking.variables import literal
from queries.publishing import targets
from queries.publishing.row_targets import TableTarget, whole_or_not
from store.errors import InputError
from store.reading import duckdb
from store.sealing import put_temporary
from store.whole_files import refuse_special, unwritable

_FORMAT = "v1.2.0"  # the oldest DuckDB that reads what is published: shells and drivers lag behind the library
_STAMPED = [(name, type_) for name, type_ in targets.STAMP_COLUMNS]


class DuckdbTarget(TableTarget):
    """In a format that much older programs read."""

    place = "published."

    def __init__(self, path: Path) -> None:
        self.display = str(path)
        self._path = path

    @contextmanager
    def opened(self, duckdb_: duckdb.DuckDBPyConnection) -> Iterator[None]:
        refuse_special(self._path)
        self._duckdb = self._connection = duckdb_
        was_there = self._path.exists()
        try:
            form = "" if was_there else f" (STORAGE_VERSION '{_FORMAT}')"  # a file keeps the one it has
            duckdb_.execute(f"ATTACH {literal(str(self._path))} AS published{form}")
        except duckdb.IOException as error:
            raise (
                unwritable(self._path, error)
                if not was_there
                else InputError(
                    f"{self._path}: {str(error).splitlines()[0]}", hint="close who has it open, or name another file"
                )
            ) from error
        duckdb_.execute("BEGIN")
        with whole_or_not(duckdb_, lambda: duckdb_.execute("DETACH published"), self._path, was_there=was_there):
            yield

    def remove(self, blocks: Sequence[targets.Block]) -> None:
        if blocks:
            put_temporary(self._duckdb, "gone", targets.BLOCK_COLUMNS, blocks)
            self._duckdb.execute(
                f"DELETE FROM published.{targets.PROBES} AS p USING gone"
                " WHERE p.scenario_id = gone.scenario_id AND p.block_id = gone.block_id"
            )

    def append(self, columns: targets.Typed, select: str) -> None:
        self._insert(targets.PROBES, columns, select, " ORDER BY scenario_id, batch_size")

    def _tables(self) -> set[str]:
        found = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'published'"
        return {name for (name,) in self._duckdb.execute(found).fetchall()}

    def _insert(self, name: str, columns: targets.Typed, select: str, order: str = "") -> None:
        self._duckdb.execute(f"INSERT INTO published.{name} SELECT {_named(columns)} FROM ({select}) AS came{order}")


class ParquetTarget(targets.Target):
    """`probes/*.parquet` and a file a small table, moved into place at the end."""

    def __init__(self, path: Path) -> None:
        self.display = str(path)
        self._path = path
        self._written: list[tuple[Path, Path]] = []  # under a temporary name, and the name it takes
        self._dropped: list[Path] = []

    @contextmanager
    def opened(self, duckdb_: duckdb.DuckDBPyConnection) -> Iterator[None]:
        self._duckdb = duckdb_
        if self._path.exists() and not self._path.is_dir():
            raise InputError(f"{self._path} is no folder", hint="Parquet is published as a folder of files")
        try:
            (self._path / targets.PROBES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self._path, error) from error
        try:
            yield
            for temporary, file in self._written:
                temporary.replace(file)
            for file in self._dropped:
                file.unlink(missing_ok=True)
        finally:
            for temporary, _ in self._written:
                temporary.unlink(missing_ok=True)

    def published_of(self) -> targets.Published | None:
        others = [path for path in self._path.iterdir() if path.name != targets.PROBES]
        stamp = self._path / f"{targets.STAMP}.parquet"
        if not stamp.exists():
            if others or self._parts():
                raise targets.not_ours(self.display)
            return None
        row = self._duckdb.execute(f"SELECT store_id, layout FROM {_files([stamp])}").fetchone()
        return None if row is None else targets.Published(store_id=str(row[0]), layout=str(row[1]))

    def begin_anew(self, probes: targets.PublishedRelation) -> None:
        self._dropped += self._parts()
        empty = ", ".join(f"NULL::{column.type} AS {targets.quoted(column.name)}" for column in probes.columns)
        self._copy(f"SELECT {empty} WHERE false", self._path / targets.PROBES / "columns.parquet")

    def blocks(self) -> targets.Blocks:
        rows = self._duckdb.execute(targets.BLOCKS.format(probes=_files(self._parts()))).fetchall()
        return {(row[0], row[1]): tuple(row[2:]) for row in rows}

    def remove(self, blocks: Sequence[targets.Block]) -> None:
        if not blocks:
            return
        put_temporary(self._duckdb, "gone", targets.BLOCK_COLUMNS, blocks)
        matched = "SELECT 1 FROM gone WHERE gone.scenario_id = p.scenario_id AND gone.block_id = p.block_id"
        for part in self._parts():
            held = self._duckdb.execute(
                f"SELECT count(*) FROM {_files([part])} AS p WHERE EXISTS ({matched})"
            ).fetchone()
            if held is not None and held[0]:
                self._copy(f"SELECT * FROM {_files([part])} AS p WHERE NOT EXISTS ({matched})", self._new_part())
                self._dropped.append(part)

    def append(self, columns: targets.Typed, select: str) -> None:
        self._copy(
            f"SELECT {_named(columns)} FROM ({select}) AS came ORDER BY model, device, scenario_id, batch_size",
            self._new_part(),
        )

    def replace(self, name: str, columns: targets.Typed, select: str) -> None:
        typed = ", ".join(f"{targets.quoted(column)}::{type_} AS {targets.quoted(column)}" for column, type_ in columns)
        self._copy(f"SELECT {typed} FROM ({select}) AS shown", self._path / f"{name}.parquet")

    def stamp(self, store_id: str, layout: str, moment: str, probes: int) -> None:
        put_temporary(self._duckdb, "stamped", _STAMPED, [(store_id, layout, moment, probes)])
        self.replace(targets.STAMP, targets.STAMP_COLUMNS, "SELECT * FROM stamped")

    def comment(self, relations: Sequence[targets.PublishedRelation]) -> None:
        """The file `dictionary.parquet` has them."""

    def _parts(self) -> list[Path]:
        return sorted((self._path / targets.PROBES).glob("*.parquet"))

    def _new_part(self) -> Path:
        return self._path / targets.PROBES / f"part-{secrets.token_hex(8)}.parquet"

    def _copy(self, select: str, file: Path) -> None:
        temporary = file.with_name(f".{file.name}.part")
        self._written.append((temporary, file))
        try:
            self._duckdb.execute(f"COPY ({select}) TO {literal(str(temporary))} (FORMAT parquet, COMPRESSION zstd)")
        except duckdb.IOException as error:
            raise unwritable(file, error) from error


def _named(columns: targets.Typed) -> str:
    return ", ".join(targets.quoted(name) for name, _ in columns)


def _files(paths: Sequence[Path]) -> str:
    return f"read_parquet([{', '.join(literal(str(path)) for path in paths)}])"
