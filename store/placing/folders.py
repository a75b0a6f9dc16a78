"""Where parts lie: a folder beside a file store, or the shared folder or bucket that SWEEPDB_PARTS names.

Not here: what such a place can do (store.placing.shelves), and which files there are parts (store.placing.places)."""

from __future__ import annotations

import os
from pathlib import Path

from store.errors import StoreError
from store.location import StoreLocation
from store.placing.shelves import Folder, Shelf

PARTS = "SWEEPDB_PARTS"
ORPHANS_KEPT_S = 24 * 3600.0  # of a worker that has written its file and not yet registered it


def shelf_at(address: str | Path) -> Shelf:
    """The shelf at an address: a path, or what fsspec reads, such as s3://bucket/sweeps."""
    if "://" not in str(address):
        return Folder(Path(address))
    from store.placing.buckets import Bucket

    return Bucket(str(address))


def own_shelf(location: StoreLocation) -> Shelf | None:
    """The shelf of a store's parts; None where it is not known on this machine."""
    if named := os.environ.get(PARTS):
        return shelf_at(named)
    return None if location.path is None else Folder(location.path.with_name(f"{location.path.name}.parts"))


def part_shelf(location: StoreLocation) -> Shelf:
    """The shelf that new parts of a store go to; a folder is made if missing."""
    shelf = own_shelf(location)
    if shelf is None:
        raise StoreError(
            f"Workers on {location.display} write files that every reader must see, and no place is named for them.",
            hint=f"Name a folder that all machines share, such as {PARTS}=/shared/sweepdb, or {PARTS}=s3://bucket/sweeps",
        )
    if not isinstance(shelf, Folder):
        return shelf
    try:
        shelf.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder for parts {shelf.path} cannot be made: {error.strerror}.") from error
    return Folder(shelf.path.resolve())


def found_shelf(location: StoreLocation, name: str, written_to: str) -> Shelf:
    """The shelf of a part: where parts of this store are now, else where it was written."""
    own = own_shelf(location)
    if own is not None and (own.address == written_to or own.has(name)):
        return own
    return shelf_at(written_to)
