"""Footers of parts: what a Parquet file says of itself, read once a process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store.light_dataclass import dataclass
from store.reading import Recalled, Version, version_of

if TYPE_CHECKING:
    import duckdb

    from store.sealing.snapshots import Part

FOOTER_KEY = "sweepdb"


@dataclass(frozen=True, slots=True)
class Footer:
    contents: str
    rows: int


_FOOTERS: Recalled[Footer] = Recalled(most=100_000)


def known_footers(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], *, full_hash: bool
) -> dict[str, Footer]:
    """Read the footers of files, each once a process: a part never changes under its name, size and times."""
    versions: dict[Path, Version] = {}
    for path in paths:
        with suppress(OSError):
            versions[path] = version_of(path, path.stat())
    found = {str(path): _FOOTERS.get(version) for path, version in versions.items() if not full_hash}
    known = {name: footer for name, footer in found.items() if footer is not None}
    read = _footers(connection, [path for path in versions if str(path) not in known])
    for path, version in versions.items():
        if (footer := read.get(str(path))) is not None:
            _FOOTERS.keep(version, footer)
    return known | read


def _footers(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> dict[str, Footer]:
    """Read the footers of several files at once, or one by one where a file among them has none."""
    from store.reading.silent_duckdb import duckdb

    if not paths:
        return {}
    names = [str(path) for path in paths]
    try:
        # Of its own: reading a damaged file fails, and would abort the transaction the caller may be in.
        rows = (
            connection.cursor()
            .execute(
                "SELECT f.file_name, decode(k.value), f.num_rows FROM parquet_file_metadata($files) f"
                " JOIN parquet_kv_metadata($files) k ON k.file_name = f.file_name WHERE k.key = $key::BLOB",
                {"files": names, "key": FOOTER_KEY},
            )
            .fetchall()
        )
    except duckdb.Error:
        if len(paths) == 1:
            return {}
        return {name: footer for path in paths for name, footer in _footers(connection, [path]).items()}
    return {name: Footer(contents, count) for name, contents, count in rows}


def footer_fault(part: Part, footer: Footer | None) -> str | None:
    if footer is None:
        return "the file has no footer of ours"
    if footer.contents != part.contents.as_json():
        return "the footer and the manifest name different stores, blocks or revisions"
    if footer.rows != part.contents.rows:
        return f"the file holds {footer.rows} rows, {part.contents.rows} were written"
    return None
