"""Rewrites parts so that what is asked about together lies together: by model, workload and phase, 1.5 M rows a file.

A reader keeps the files that it has opened; files that were replaced, or left by stopped workers, go later.
A row whose file belongs to another database is forgotten, and its file stays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, delete, select, update

from store.errors import StoreError
from store.light_dataclass import dataclass
from store.location import StoreLocation
from store.opening import Store, open_store
from store.parts.claiming import claim_beside, part_shelf, require_own
from store.parts.files import PutFile, put_in_place, unfinished
from store.parts.naming import forget_state, forget_thinned, insert_part, thinned_of
from store.placing import LEFT_S, WAITING, Ownership, PartRow, Shelf, found_shelf, home_of, parts_in_use
from store.reading import read_transaction
from store.reading.silent_duckdb import in_memory
from store.schema.sql_tables import PART, PART_BLOCK, PART_SUBJECT, PART_THINNED
from store.schema.tables import MEASURES
from store.sealing.digesting import groups_of
from store.sealing.into_duckdb import create_table, insert_rows
from store.sealing.part_files import LARGEST_PART_ROWS, RETIRED_KEPT_S, copy_rows, quoted, rows_written
from store.writing.statements import as_utc, utc_now

if TYPE_CHECKING:
    import duckdb


class _Retired(NamedTuple):
    id: int
    name: str
    folder: str


def remove_retired(store: Store, kept_s: float) -> int:
    removed = 0
    ownership = _ownership(store)
    with store.writing() as connection:
        for part in _retired(connection, kept_s):
            with suppress(OSError):  # a place that does not answer now is asked by the next compaction
                files = [(part.name, part.folder), *thinned_of(connection, part.id)]
                removed += sum(_removed(store, ownership, name, folder) for name, folder in files)
                forget_thinned(connection, part.id)
                forget_state(connection, part.name)
                connection.execute(delete(PART).where(PART.c.id == part.id))
    return removed


def remove_unneeded(store: Store) -> int:
    """Delete files of workers that did not come back for them within a day; no database ever named one."""
    removed = 0
    with store.reading() as connection:
        thinned = set(connection.scalars(select(PART_THINNED.c.name)))
    ownership = _ownership(store)
    for home, shelf in ownership.own_shelves():
        with suppress(OSError), shelf.locked():
            for name in shelf.unneeded(thinned, older_than_s=LEFT_S) if ownership.may_change(shelf, home) else ():
                shelf.remove(name)
                removed += 1
    return removed


def _ownership(store: Store) -> Ownership:
    with read_transaction(store.location) as transaction:
        return Ownership.read(transaction)


def _retired(connection: Connection, kept_s: float) -> Iterator[_Retired]:
    found = select(PART.c.id, PART.c.name, PART.c.folder, PART.c.retired_at).where(PART.c.retired_at.is_not(None))
    for id_, name, folder, moment in connection.execute(found).all():
        if utc_now() - as_utc(moment) >= timedelta(seconds=kept_s):
            yield _Retired(id_, name, folder)


def _removed(store: Store, ownership: Ownership, name: str, folder: str) -> bool:
    """Delete a file in a folder that belongs to this database, and to no other since a moment ago."""
    shelf, home = found_shelf(store.location, name, folder), home_of(folder)
    if not ownership.may_change(shelf, home):
        return False
    with shelf.locked():  # whoever takes the folder over does so under this lock
        mine = ownership.may_change(shelf, home)
        if mine:
            shelf.remove(name)
    return mine


_MUCH_LARGER = 4
_MEMORY = 10**9
_PLACE = [
    ("block_id", "BIGINT"),
    ("scenario_id", "BIGINT"),
    ("first_batch_size", "INTEGER"),
    ("last_batch_size", "INTEGER"),
    ("probe_count", "BIGINT"),
    ("file", "VARCHAR"),
    ("number", "BIGINT"),
]
_BLOCKS = (
    "SELECT b.id, b.scenario_id, b.first_batch_size, b.last_batch_size, b.probe_count, pb.part_id, sj.model_id,"
    " sj.workload_id, sj.phase FROM part_block pb JOIN block b ON b.id BETWEEN pb.first_block AND pb.last_block"
    " JOIN scenario sc ON sc.id = b.scenario_id JOIN subject sj ON sj.id = sc.subject_id"
    " WHERE pb.part_id BETWEEN ? AND ? ORDER BY b.id"
)


class _Subject(NamedTuple):
    part_id: int
    model_id: int
    workload_id: int
    phase: str


class _Block(NamedTuple):
    id: int
    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    probe_count: int
    part_id: int
    model_id: int
    workload_id: int
    phase: str

    @property
    def place(self) -> tuple[int, int, str, int, int]:
        return self.model_id, self.workload_id, self.phase, self.scenario_id, self.first_batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport:
    parts_before: int
    parts: int
    probes_rewritten: int
    files_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written(PutFile):
    blocks: tuple[_Block, ...]


@dataclass(frozen=True, slots=True)
class _Extent:
    """Parts that hold rows of the same subjects, from the first of them to the last."""

    first: tuple[int, int, str]
    last: tuple[int, int, str]
    parts: tuple[PartRow, ...]

    @property
    def rows(self) -> int:
        return sum(part.row_count for part in self.parts)

    def joined(self, other: _Extent) -> _Extent:
        return _Extent(min(self.first, other.first), max(self.last, other.last), (*self.parts, *other.parts))


def compact_parts(location: StoreLocation) -> CompactReport:
    """Sort and merge parts until none would gain, then remove files that nothing reads any more."""
    with open_store(location.url) as store:
        before = _count(location)
        rewritten = removed = 0
        if _has_parts(location):
            claim_beside(store)
            require_own(store)
            shelf = part_shelf(store)
            while (extent := _worth_rewriting(location)) is not None:
                rewritten += _rewrite(store, shelf, extent.parts)
            removed = remove_retired(store, RETIRED_KEPT_S) + remove_unneeded(store)
        return CompactReport(
            parts_before=before, parts=_count(location), probes_rewritten=rewritten, files_removed=removed
        )


def _has_parts(location: StoreLocation) -> bool:
    with read_transaction(location) as transaction:
        return next(transaction.values(int, "SELECT COUNT(*) FROM part")) > 0


def _count(location: StoreLocation) -> int:
    with read_transaction(location) as transaction:
        return len(parts_in_use(transaction))


def _worth_rewriting(location: StoreLocation) -> _Extent | None:
    """Find parts that interleave, or neighbours that fit into one; None where every part is as it should be."""
    with read_transaction(location) as transaction:
        parts = parts_in_use(transaction)
        subjects: dict[int, list[tuple[int, int, str]]] = {}
        for row in transaction.rows(_Subject, "SELECT part_id, model_id, workload_id, phase FROM part_subject"):
            subjects.setdefault(row.part_id, []).append((row.model_id, row.workload_id, row.phase))
    extents = {part.id: _Extent(min(held), max(held), (part,)) for part in parts if (held := subjects.get(part.id))}
    for tier in tiers([part for part in parts if part.id in extents]):
        grouped = grouped_extents([extents[part.id] for part in tier])
        if (found := next((extent for extent in grouped if len(extent.parts) > 1), None)) is not None:
            return found
    return None


def tiers(parts: Sequence[PartRow]) -> Iterator[list[PartRow]]:
    """Parts that are rewritten together, if they interleave: of runs of which none is much larger than those before it.

    A small sweep over everything is sorted by itself, not merged into a hundred times its rows: a row is rewritten as
    often as the store has grown fourfold, and a subject lies in as many parts."""
    runs: dict[str, list[PartRow]] = {}
    for part in parts:
        runs.setdefault(_run_of(part.name), []).append(part)
    current: list[PartRow] = []
    rows = 0
    for run in sorted(runs.values(), key=lambda run: (sum(part.row_count for part in run), run[0].id)):
        size = sum(part.row_count for part in run)
        if current and size > _MUCH_LARGER * rows:
            yield current
            current, rows = [], 0
        current += run
        rows += size
    if current:
        yield current


def _run_of(name: str) -> str:
    """The name that the parts of one compaction have in common; any other part is a run by itself."""
    words = name.split("-")  # shard-sorted-RUN-...
    return words[2] if words[1] == "sorted" and len(words) > 3 else name


def grouped_extents(extents: Sequence[_Extent]) -> Iterator[_Extent]:
    """Join extents that overlap in more than their ends, and neighbours that are small enough together."""
    current: _Extent | None = None
    for extent in sorted(extents, key=lambda one: (one.first, one.last)):
        if current is None:
            current = extent
        elif extent.first < current.last or current.rows + extent.rows <= LARGEST_PART_ROWS:
            current = current.joined(extent)
        else:
            yield current
            current = extent
    if current is not None:
        yield current


def _rewrite(store: Store, shelf: Shelf, parts: Sequence[PartRow]) -> int:
    location = store.location
    wanted = {part.id for part in parts}
    with read_transaction(location) as transaction:
        low, high = min(wanted), max(wanted)
        blocks = [block for block in transaction.rows(_Block, _BLOCKS, (low, high)) if block.part_id in wanted]
    paths = {part.id: checked_path(location, part) for part in parts}
    written: list[_Written] = []
    try:
        with in_memory(_MEMORY, shelf.scratch / ".sorting") as connection:
            connection.execute("SET dynamic_or_filter_threshold = 2000")  # row groups without a wanted scenario
            ordered = sorted(blocks, key=lambda block: block.place)
            run = os.urandom(4).hex()
            written.extend(
                _copy(connection, shelf, group, paths, run) for group in groups_of(ordered, LARGEST_PART_ROWS)
            )
    except BaseException:
        for file in written:
            with suppress(OSError):
                shelf.remove(f"{WAITING}{file.name}")
        raise
    # What stops this one may come after its commit, ^C or a lost connection: files stay, named or waiting.
    _replace(store, parts, written)
    return sum(block.probe_count for block in blocks)


def checked_path(location: StoreLocation, part: PartRow) -> Path:
    """The file of a part, unless it is not what was registered: its rows would be laid down as if they were true."""
    said = "is missing or is not the file that was registered"
    try:
        shelf = found_shelf(location, part.name, part.folder)
        if shelf.sha256(part.name) == part.sha256:
            return shelf.fetched(part.name, part.bytes, part.sha256)
    except FileNotFoundError:
        pass
    except OSError as error:
        said = f"cannot be read ({error.strerror or error})"
    raise StoreError(
        f"The part {part.folder}/{part.name} {said}, so nothing is rewritten.",
        hint=f"Put it back from a backup; sweepdb db check{location.argument} lists all that is wrong",
    )


def _copy(
    connection: duckdb.DuckDBPyConnection, shelf: Shelf, blocks: Sequence[_Block], paths: dict[int, Path], run: str
) -> _Written:
    """Write one sorted file, and read it back: it must hold every row that went in."""
    name = f"shard-sorted-{run}-{os.urandom(6).hex()}.parquet"
    connection.execute("DROP TABLE IF EXISTS place")
    create_table(connection, "place", _PLACE)
    insert_rows(
        connection,
        "place",
        _PLACE,
        [(*block[:5], str(paths[block.part_id]), number) for number, block in enumerate(blocks)],
    )
    names = ", ".join(f"f.{name}" for name in ("scenario_id", "batch_size", *(column.name for column in MEASURES)))
    files = ", ".join(quoted(path) for path in sorted({paths[block.part_id] for block in blocks}))
    source = (
        f"FROM read_parquet([{files}], filename = true, union_by_name = true) f JOIN place pl ON pl.file = f.filename"
        " AND pl.scenario_id = f.scenario_id AND f.batch_size BETWEEN pl.first_batch_size AND pl.last_batch_size"
    )
    with unfinished(shelf, name) as temporary:
        copy_rows(connection, f"SELECT {names} {source} ORDER BY pl.number, f.batch_size", temporary)
        if rows_written(connection, names, source, temporary) != sum(block.probe_count for block in blocks):
            raise StoreError(
                f"The part {name} does not hold what was written to it, so it is not used.",
                hint="Check the disk; the parts that were to be merged are as they were.",
            )
        put = put_in_place(shelf, temporary, name)
    return _Written(**asdict(put), blocks=tuple(blocks))


def _replace(store: Store, parts: Sequence[PartRow], written: Sequence[_Written]) -> None:
    ids = [part.id for part in parts]
    with store.writing() as connection:
        held = connection.execute(
            select(PART.c.id).where(PART.c.id.in_(ids), PART.c.retired_at.is_(None)).with_for_update()
        ).all()
        if len(held) != len(ids):
            raise StoreError(
                "Another compaction has replaced the same parts.",
                hint="Nothing is lost: run `sweepdb db compact` again.",
            )
        connection.execute(delete(PART_BLOCK).where(PART_BLOCK.c.part_id.in_(ids)))
        connection.execute(delete(PART_SUBJECT).where(PART_SUBJECT.c.part_id.in_(ids)))
        connection.execute(update(PART).where(PART.c.id.in_(ids)).values(retired_at=utc_now()))
        for file in written:
            insert_part(
                connection, file, [block.id for block in file.blocks], sum(block.probe_count for block in file.blocks)
            )
