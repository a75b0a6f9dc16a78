"""Reads which blocks lie in which parts, and whether the files are those that were registered.

That a file is the one that was named is looked at as far as that is cheap: by size, times, inode, and footer. One whose
times moved, as after a copy, is compared whole, once a process."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.errors import StoreError
from store.light_dataclass import NamedTuple, dataclass
from store.location import StoreLocation
from store.placing.claims import Ownership
from store.placing.folders import found_shelf
from store.placing.shelves import NO_TIMES, FileTimes
from store.reading import ReadTransaction, Recalled, version_of

_TAIL = 8  # the length of the footer, and four letters
_AT_FIRST = 32_768
_RIGHT: Recalled[str] = Recalled(most=100_000)  # digests of files that were compared, by their version


class FileState(NamedTuple):
    """A file as it was when it was named. Without times its place keeps none, a bucket."""

    name: str
    footer: str
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None

    @property
    def times(self) -> FileTimes:
        return FileTimes(self.mtime_ns, self.ctime_ns, self.inode)


def footer_digest(path: Path) -> str:
    """Digest what a Parquet file says at its end of itself: rows, columns, and where each of their pages lies."""
    file = os.open(path, os.O_RDONLY)  # a question opens thousands of files
    try:
        end = os.fstat(file).st_size
        last = os.pread(file, _AT_FIRST, max(0, end - _AT_FIRST))
        length = min(int.from_bytes(last[-_TAIL:-4], "little") + _TAIL, end)
        if length > len(last):
            last = os.pread(file, length, end - length)
        return hashlib.sha256(last[-length:]).hexdigest()
    finally:
        os.close(file)


def whole_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def states_of_files(transaction: ReadTransaction, names: Iterable[str]) -> dict[str, FileState]:
    """How files were when they were named; those of before revision 0018 are not there."""
    statement = "SELECT name, footer, mtime_ns, ctime_ns, inode FROM part_file WHERE name IN ({marks})"
    return {row.name: row for row in transaction.rows_of(FileState, statement, names)}


def changed_since(path: Path, size: int, sha256: str, state: FileState | None) -> str | None:
    """Say in which way a file is not the one that was named; raises FileNotFoundError where there is none."""
    status = path.stat()
    if status.st_size != size:
        return f"has {status.st_size:,} bytes, {size:,} were written"
    version = version_of(path, status)
    if _RIGHT.get(version) == sha256:
        return None
    if state is not None and footer_digest(path) != state.footer:
        return "is not the file that was registered: its footer is another"
    untouched = state is not None and state.times in (NO_TIMES, FileTimes.of(status))
    if not untouched and whole_digest(path) != sha256:
        return "is not the file that was registered: it was changed after it was written"
    _RIGHT.keep(version, sha256)
    return None


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
    id: int
    name: str
    folder: str
    bytes: int
    sha256: str
    row_count: int


def has_parts(transaction: ReadTransaction) -> bool:
    statement = "SELECT CASE WHEN EXISTS (SELECT 1 FROM part_block) THEN 1 ELSE 0 END"
    return next(transaction.values(int, statement)) > 0


def places_of(transaction: ReadTransaction, blocks: Ranges) -> list[Place]:
    if not has_parts(transaction):
        return []
    wanted = json.dumps([[0, low, high] for low, high in blocks])
    return list(transaction.rows(Place, _PLACES.format(ranges=transaction.ranges), (wanted,)))


def placed_ranges(transaction: ReadTransaction) -> list[tuple[int, int]]:
    """Every block that lies in a part, as ranges of ids; none overlaps another."""
    return list(transaction.numbers("SELECT first_block, last_block FROM part_block ORDER BY first_block"))


def parts_in_use(transaction: ReadTransaction) -> list[PartRow]:
    statement = "SELECT id, name, folder, bytes, sha256, row_count FROM part WHERE retired_at IS NULL ORDER BY id"
    return list(transaction.rows(PartRow, statement))


def paths_of(transaction: ReadTransaction, places: Sequence[Place]) -> dict[str, Path]:
    """The file of each part that places name; raises where one is not what was registered."""
    named = {place.name: place for place in places}
    states = states_of_files(transaction, named)
    return {name: _path_of(transaction.location, place, states.get(name)) for name, place in named.items()}


def _path_of(location: StoreLocation, place: Place, state: FileState | None) -> Path:
    where = f"{place.folder}/{place.name}"
    try:
        shelf = found_shelf(location, place.name, place.folder)
        where = f"{shelf.address}/{place.name}"
        path = shelf.fetched(place.name, place.bytes, place.sha256)
        if (fault := changed_since(path, place.bytes, place.sha256, state)) is None:
            return path
    except FileNotFoundError:
        fault = "is not there"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    raise damaged_part(location, where, fault)


def damaged_part(location: StoreLocation, where: str, fault: str) -> StoreError:
    return StoreError(
        f"The part {where} of {location.display} {fault}. It holds probes that are nowhere else.",
        hint="Put the file back from a backup. If its folder has moved, name it with SWEEPDB_PARTS. "
        f"sweepdb db check{location.argument} lists all that is missing or changed",
    )


def part_faults(location: StoreLocation, transaction: ReadTransaction) -> Iterator[str]:
    held = _probes_by_part(transaction)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesBeside:
    """Files in the folders of a store that are none of its parts."""

    unneeded: tuple[str, ...] = ()  # of workers that were stopped: no database ever named them
    unknown: tuple[str, ...] = ()  # another state of this database may name them, or a copy of it


def files_beside(transaction: ReadTransaction) -> FilesBeside:
    """Files that are no parts of this store, in folders that belong to it alone; others are not looked at."""
    ownership = Ownership.read(transaction)
    unneeded: list[str] = []
    unknown: list[str] = []
    known = set(transaction.values(str, "SELECT name FROM part"))
    thinned = set(transaction.values(str, "SELECT name FROM part_thinned"))
    for home, shelf in ownership.own_shelves():
        with suppress(OSError):  # that it does not answer is said of each part
            if ownership.may_change(shelf, home):
                unneeded += shelf.unneeded(thinned)
                unknown += [name for name in shelf.named() if name not in known]
    return FilesBeside(unneeded=tuple(unneeded), unknown=tuple(unknown))


_STRAY = """SELECT COUNT(*) FROM part_block p WHERE NOT EXISTS (
      SELECT 1 FROM block b WHERE b.id BETWEEN p.first_block AND p.last_block)
    OR EXISTS (SELECT 1 FROM part_block o WHERE o.first_block > p.first_block AND o.first_block <= p.last_block)"""


def _probes_by_part(transaction: ReadTransaction) -> dict[int, int]:
    return dict(
        transaction.numbers(
            "SELECT p.part_id, SUM(b.probe_count) FROM part_block p"
            " JOIN block b ON b.id BETWEEN p.first_block AND p.last_block GROUP BY p.part_id"
        )
    )
