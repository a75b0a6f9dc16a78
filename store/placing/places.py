"""Reads which blocks lie in which parts, and whether the files are those that were registered.

Not here: rows of parts (store.sealing.unsealed reads them as it reads rows of the database)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from store.errors import StoreError
from store.location import StoreLocation
from store.placing.folders import found_shelf, own_shelf
from store.reading import ReadTransaction

_PLACES = (
    "SELECT b.id, b.scenario_id, b.first_batch_size, b.last_batch_size, b.probe_count, p.name, p.folder, p.bytes,"
    " p.sha256"
    " FROM {ranges} JOIN block b ON b.id BETWEEN r.lo AND r.hi"
    " JOIN part_block pb ON pb.last_block >= b.id"
    " AND pb.first_block = (SELECT MAX(x.first_block) FROM part_block x WHERE x.first_block <= b.id)"
    " JOIN part p ON p.id = pb.part_id ORDER BY b.id"
)


Ranges = Sequence[tuple[int, int]]


class Place(NamedTuple):
    """A block whose probes lie in a part, and that part."""

    block_id: int
    scenario_id: int
    first_batch_size: int
    last_batch_size: int
    probe_count: int
    name: str
    folder: str
    bytes: int
    sha256: str


class PartRow(NamedTuple):
    """A part as the store names it."""

    id: int
    name: str
    folder: str
    bytes: int
    sha256: str
    row_count: int


def places_of(transaction: ReadTransaction, blocks: Ranges) -> list[Place]:
    """The blocks within ranges that lie in parts, by id; the others are rows."""
    if not next(transaction.values(int, "SELECT CASE WHEN EXISTS (SELECT 1 FROM part_block) THEN 1 ELSE 0 END")):
        return []
    wanted = json.dumps([[0, low, high] for low, high in blocks])
    return list(transaction.rows(Place, _PLACES.format(ranges=transaction.ranges), (wanted,)))


class _Range(NamedTuple):
    low: int
    high: int


def placed_ranges(transaction: ReadTransaction) -> list[tuple[int, int]]:
    """Every block that lies in a part, as ranges of ids; none overlaps another."""
    rows = transaction.rows(_Range, "SELECT first_block, last_block FROM part_block ORDER BY first_block")
    return [(row.low, row.high) for row in rows]


def parts_in_use(transaction: ReadTransaction) -> list[PartRow]:
    """Every part that no compaction has replaced, by id."""
    statement = "SELECT id, name, folder, bytes, sha256, row_count FROM part WHERE retired_at IS NULL ORDER BY id"
    return list(transaction.rows(PartRow, statement))


def paths_of(location: StoreLocation, places: Sequence[Place]) -> dict[str, Path]:
    """The file of each part that places name; raises where one is not what was registered."""
    found: dict[str, Path] = {}
    for place in places:
        if place.name not in found:
            found[place.name] = _path_of(location, place)
    return found


def _path_of(location: StoreLocation, place: Place) -> Path:
    where = f"{place.folder}/{place.name}"
    try:
        shelf = found_shelf(location, place.name, place.folder)
        where = f"{shelf.address}/{place.name}"
        path = shelf.fetched(place.name, place.bytes, place.sha256)
        size = path.stat().st_size if path.is_file() else None
        what = "is not there" if size is None else f"has {size:,} bytes, {place.bytes:,} were written"
    except FileNotFoundError:
        path, size, what = Path(), None, "is not there"
    except OSError as error:
        path, size, what = Path(), None, f"cannot be read: {error.strerror}"
    if size == place.bytes:
        return path
    raise StoreError(
        f"The part {where} of {location.display} {what}: it holds probes that are nowhere else.",
        hint="Put the file back from a backup, or name the folder with SWEEPDB_PARTS if it has moved;"
        f" sweepdb db check{location.argument} lists all that is missing",
    )


def part_faults(location: StoreLocation, transaction: ReadTransaction) -> Iterator[str]:
    """Compare every part with its file, in full, and with the blocks that it is to hold."""
    held = _PartSums.by_part(transaction)
    for part in parts_in_use(transaction):
        where = f"{part.folder}/{part.name}"
        try:
            shelf = found_shelf(location, part.name, part.folder)
            where = f"{shelf.address}/{part.name}"
            sha256 = shelf.sha256(part.name)
        except OSError as error:
            said = error.strerror or error
            yield f"The part {where} cannot be read, and its {part.row_count:,} probes with it: {said}."
            continue
        if sha256 != part.sha256:
            yield f"The part {where} is not the file that was registered."
        if held.get(part.id, 0) != part.row_count:
            yield f"The part {part.name} is to hold {part.row_count:,} probes, its blocks {held.get(part.id, 0):,}."
    if (stray := next(transaction.values(int, _STRAY))) > 0:
        yield f"There are {stray:,} ranges of parts without a block, or that overlap others."


def orphaned_files(location: StoreLocation, transaction: ReadTransaction) -> tuple[str, ...]:
    """Files on the shelf of parts that are none, by name: of workers that were stopped. Nothing reads them."""
    shelf = own_shelf(location)
    if shelf is None:
        return ()
    try:
        named = "SELECT name FROM part UNION ALL SELECT name FROM part_thinned"
        return tuple(shelf.strangers(set(transaction.values(str, named))))
    except OSError:  # that it does not answer is said of each part
        return ()


_STRAY = """SELECT COUNT(*) FROM part_block p WHERE NOT EXISTS (
      SELECT 1 FROM block b WHERE b.id BETWEEN p.first_block AND p.last_block)
    OR EXISTS (SELECT 1 FROM part_block o WHERE o.first_block > p.first_block AND o.first_block <= p.last_block)"""


class _PartSums(NamedTuple):
    part_id: int
    probes: int

    @classmethod
    def by_part(cls, transaction: ReadTransaction) -> dict[int, int]:
        statement = (
            "SELECT p.part_id, SUM(b.probe_count) FROM part_block p"
            " JOIN block b ON b.id BETWEEN p.first_block AND p.last_block GROUP BY p.part_id"
        )
        return dict(transaction.rows(cls, statement))
