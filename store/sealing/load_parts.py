"""Loads laid down as Parquet: a part holds all rows that a relation has of some loads, which never change.

The database stays the only truth: a part that does not match it is left aside, and laid down again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.reading import ReadTransaction
from store.revision import HEAD_REVISION
from store.sealing.into_duckdb import create_table
from store.sealing.load_relations import LOAD_RELATIONS, columns_of, holder_of, insert_from_store, rows_of_a_group
from store.sealing.part_files import RETIRED_KEPT_S, WrittenFile, give_name, put_document, quoted
from store.sealing.ranges import Ranges, as_parameter, complement, merged, overlap, ranges_of
from store.sealing.snapshots import UNREADABLE, file_fault, snapshot_directories

if TYPE_CHECKING:
    import duckdb

LoadCounts = dict[tuple[str, Ranges], int]  # how many loads of a table there are in ranges of ids
MANIFEST = "loads.json"
_ALWAYS_MERGED_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart(WrittenFile):
    """One Parquet file of one relation, its `kind`. `loads` are the ids that it holds, `count` how many they are."""

    name: str
    kind: str
    store_id: str
    revision: str
    loads: Ranges
    count: int
    rows: int


def create_load_relation(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    location: StoreLocation,
    relation: str,
    counts: LoadCounts | None,
    *,
    schema: str = "raw",
) -> tuple[Path, ...]:
    """Create a relation of loads in a schema: parts, and what no part holds from the store itself. Returns the files
    that it reads. `counts` is what this transaction has counted; None: read straight from the database."""
    parts = [] if counts is None else _valid_parts(transaction, location, relation, counts)
    table = f"{schema}.unsealed_{relation}"
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    create_table(connection, table, columns_of(relation))
    covered = merged(one for _, part in parts for one in part.loads)
    hot = insert_from_store(connection, transaction, table, relation, complement(covered))
    selects = [_select(relation, [path for path, _ in parts])] if parts else []
    if hot or not parts:
        selects.append(f"SELECT {_names(relation)} FROM {table}")  # noqa: S608 - our names
    connection.execute(f"CREATE OR REPLACE VIEW {schema}.{relation} AS {' UNION ALL '.join(selects)}")
    return tuple(path for path, _ in parts)


def parts_of_loads(transaction: ReadTransaction, location: StoreLocation, relation: str) -> list[tuple[Path, Ranges]]:
    return [(path, part.loads) for path, part in _valid_parts(transaction, location, relation, {})]


def parts_in_manifests(transaction: ReadTransaction, location: StoreLocation) -> dict[Path, str]:
    """The digest of each file of loads, as manifests say it."""
    folders = snapshot_directories(location, transaction.store_id)
    return {path: part.sha256 for folder in folders for path, part in _listed(folder)}


def seal_loads(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    location: StoreLocation,
    store_id: str,
    directory: Path,
) -> int:
    """Lay down the loads that no valid part holds, together with parts that are not much larger; how many loads."""
    sealed = 0
    counts: LoadCounts = {}
    for kind in LOAD_RELATIONS:
        valid = [
            (path, part) for path, part in _valid_parts(transaction, location, kind, counts) if path.parent == directory
        ]
        covered = merged(one for _, part in valid for one in part.loads)
        hot = _ids(transaction, kind, complement(covered))
        if not hot:
            _drop_stale(directory, kind, [part for _, part in valid])
            continue
        sealed = max(sealed, len(hot))
        table = f"unsealed_{kind}"
        create_table(connection, table, columns_of(kind))
        rows = insert_from_store(connection, transaction, table, kind, ranges_of(hot))
        near = [item for item in valid if item[1].rows <= max(2 * rows, _ALWAYS_MERGED_ROWS)]
        loads = merged([*ranges_of(hot), *(one for _, part in near for one in part.loads)])
        count = len(hot) + sum(part.count for _, part in near)
        part = _write(connection, directory, kind, [path for path, _ in near], (store_id, loads, count))
        connection.execute(f"DROP TABLE {table}")
        kept = [one for path, one in valid if (path, one) not in near]
        others = [one for _, one in _listed(directory) if one.kind != kind]
        _publish(directory, [*others, *kept, part])
    return sealed


def _drop_stale(directory: Path, kind: str, valid: Sequence[LoadPart]) -> None:
    """Name no part any more whose loads are gone: kept requests may go."""
    listed = [part for _, part in _listed(directory)]
    kept = [part for part in listed if part.kind != kind or part in valid]
    if len(kept) < len(listed):
        _publish(directory, kept)


def _write(
    connection: duckdb.DuckDBPyConnection,
    directory: Path,
    kind: str,
    near: Sequence[Path],
    held: tuple[str, Ranges, int],
) -> LoadPart:
    sources = [f"SELECT {_names(kind)} FROM unsealed_{kind}", *([_select(kind, near)] if near else [])]  # noqa: S608
    name = f"{kind}-{os.urandom(6).hex()}.parquet"
    temporary = directory / f".{name}.{os.getpid()}"
    try:
        ((rows,),) = connection.execute(
            f"COPY (FROM ({' UNION ALL '.join(sources)}) ORDER BY {_names(kind)}) TO {quoted(temporary)}"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {rows_of_a_group(kind)})"
        ).fetchall()
        written = give_name(temporary, directory / name)
    finally:
        temporary.unlink(missing_ok=True)
    store_id, loads, count = held
    return LoadPart(
        name=name,
        kind=kind,
        store_id=store_id,
        revision=HEAD_REVISION,
        loads=loads,
        count=count,
        rows=int(rows),
        **asdict(written),
    )


def _valid_parts(
    transaction: ReadTransaction, location: StoreLocation, kind: str, counts: LoadCounts
) -> list[tuple[Path, LoadPart]]:
    store_id = transaction.store_id
    found = [
        (path, part)
        for directory in snapshot_directories(location, store_id)
        for path, part in _listed(directory)
        if part.kind == kind
        and part.store_id == store_id
        and part.revision == HEAD_REVISION
        and file_fault(path, part) is None
    ]
    table, _ = holder_of(kind)
    _count(
        transaction, kind, {part.loads for _, part in found} - {loads for one, loads in counts if one == table}, counts
    )
    valid: list[tuple[Path, LoadPart]] = []
    for path, part in found:
        apart = not any(overlap(part.loads, other.loads) for _, other in valid)
        if counts[table, part.loads] == part.count and apart:
            valid.append((path, part))
    return valid


def _count(transaction: ReadTransaction, kind: str, wanted: Collection[Ranges], counts: LoadCounts) -> None:
    """Count the loads of ranges: parts of all relations mostly hold the same, and counting reads the whole table."""
    if not wanted:
        return
    listed = list(wanted)
    ranges = [[number, low, high] for number, loads in enumerate(listed) for low, high in loads]
    table, number = holder_of(kind)
    statement = (
        f"SELECT r.part, COUNT(*) FROM {transaction.ranges} CROSS JOIN {table} l"  # noqa: S608 - our text
        f" WHERE l.{number} BETWEEN r.lo AND r.hi GROUP BY r.part"
    )
    found = dict(transaction.numbers(statement, (json.dumps(ranges),)))
    counts |= {(table, loads): found.get(place, 0) for place, loads in enumerate(listed)}


def _ids(transaction: ReadTransaction, kind: str, within: Ranges) -> list[int]:
    table, number = holder_of(kind)
    statement = (
        f"SELECT l.{number} FROM {transaction.ranges} CROSS JOIN {table} l"  # noqa: S608 - our names
        f" WHERE l.{number} BETWEEN r.lo AND r.hi ORDER BY 1"
    )
    return list(transaction.values(int, statement, (as_parameter(within),)))


def _names(relation: str) -> str:
    return ", ".join(name for name, _ in columns_of(relation))


def _select(relation: str, paths: Sequence[Path]) -> str:
    return f"SELECT {_names(relation)} FROM read_parquet([{', '.join(map(quoted, paths))}])"  # noqa: S608 - our names


def _listed(directory: Path) -> list[tuple[Path, LoadPart]]:
    try:
        document = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        parts = [_part_of(entry) for entry in document["parts"]]
    except UNREADABLE:
        return []
    return [(directory / part.name, part) for part in parts if Path(part.name).name == part.name]


def _part_of(entry: dict[str, Any]) -> LoadPart:
    said: dict[str, Any] = {name: str(entry[name]) for name in ("name", "kind", "store_id", "revision", "sha256")}
    said |= {name: int(entry[name]) for name in ("count", "rows", "size", "mtime_ns", "ctime_ns")}
    return LoadPart(loads=tuple((int(low), int(high)) for low, high in entry["loads"]), **said)


def _publish(directory: Path, parts: Sequence[LoadPart]) -> None:
    """Name the parts in the manifest; files that nobody names any more go once no reader can wait for them."""
    put_document(directory / MANIFEST, {"parts": [asdict(part) for part in parts]})
    named = {part.name for part in parts}
    for kind in LOAD_RELATIONS:
        for path in directory.glob(f"*{kind}-*.parquet*"):
            if path.name not in named and time.time() - path.stat().st_mtime > RETIRED_KEPT_S:
                path.unlink(missing_ok=True)
