"""Thinned files that may be read in place of parts.

Where one is missing or changed the part is read. What it may lack: queries.thinned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.placing.folders import found_shelf
from store.placing.places import FileState, Place, changed_since, states_of_files
from store.placing.shelves import Folder
from store.reading import ReadTransaction

_THINNED = (
    "SELECT t.part_id, p.name AS part_name, t.name, t.folder, t.bytes, t.sha256, t.row_count, t.rules"
    " FROM part_thinned t JOIN part p ON p.id = t.part_id WHERE p.retired_at IS NULL ORDER BY t.part_id"
)


class ThinnedRow(NamedTuple):
    part_id: int
    part_name: str
    name: str
    folder: str
    bytes: int
    sha256: str
    row_count: int
    rules: int


def thinned_in_use(transaction: ReadTransaction) -> list[ThinnedRow]:
    return list(transaction.rows(ThinnedRow, _THINNED))


def is_whole(location: StoreLocation, thinned: ThinnedRow, state: FileState | None) -> bool:
    """There and untouched; a bucket's is copied for that."""
    try:
        shelf = found_shelf(location, thinned.name, thinned.folder)
        path = shelf.fetched(thinned.name, thinned.bytes, thinned.sha256)
        return changed_since(path, thinned.bytes, thinned.sha256, state) is None
    except OSError:
        return False


def is_registered(location: StoreLocation, thinned: ThinnedRow) -> bool:
    try:
        shelf = found_shelf(location, thinned.name, thinned.folder)
        return shelf.sha256(thinned.name) == thinned.sha256 if isinstance(shelf, Folder) else shelf.has(thinned.name)
    except OSError:
        return False


def thinned_places(
    transaction: ReadTransaction, places: Sequence[Place], thinned: Sequence[ThinnedRow], suits: Callable[[Place], bool]
) -> tuple[list[Place], list[Place]]:
    named = {place.name for place in places}
    beside = {row.part_name: row for row in thinned if row.part_name in named}
    states = states_of_files(transaction, [row.name for row in beside.values()])
    good: dict[str, bool] = {}
    found: list[Place] = []
    replaced: list[Place] = []
    for place in places:
        row = beside.get(place.name)
        if row is not None and row.name not in good:
            good[row.name] = is_whole(transaction.location, row, states.get(row.name))
        if row is None or not good[row.name] or not suits(place):
            found.append(place)
            continue
        replaced.append(place)
        found.append(place._replace(name=row.name, folder=row.folder, bytes=row.bytes, sha256=row.sha256))
    return found, replaced


def thinned_faults(location: StoreLocation, transaction: ReadTransaction) -> Iterator[str]:
    """A wrong one costs time, no answer."""
    for row in thinned_in_use(transaction):
        try:
            right = found_shelf(location, row.name, row.folder).sha256(row.name) == row.sha256
            said = "is not the file that was registered"
        except OSError as error:
            right, said = False, f"cannot be read: {error.strerror or error}"
        if not right:
            yield (
                f"The thinned file {row.folder}/{row.name} {said}. Questions are answered from its part;"
                f" remove it, then write it anew with: sweepdb db compact{location.argument} `thin`"
            )
