"""Parts beside a file store, or where SWEEPDB_PARTS says; a folder a store."""

from __future__ import annotations

import os
import re
from pathlib import Path

from store.errors import StoreError
from store.location import StoreLocation
from store.placing.shelves import Folder, Shelf

PARTS = "SWEEPDB_PARTS"
LEFT_S = 24 * 3600.0  # a worker that has written its file comes back for it sooner
AT_THE_ROOT = "."  # the name of the place itself, where parts lay before each store had a folder
_HOME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{12}")


def shelf_at(address: str | Path) -> Shelf:
    """A path, or what fsspec reads, such as s3://bucket/sweeps."""
    if "://" not in str(address):
        return Folder(Path(address))
    from store.placing.buckets import Bucket

    return Bucket(str(address))


def parts_root(location: StoreLocation) -> Shelf | None:
    if named := os.environ.get(PARTS):
        return shelf_at(named)
    return None if location.path is None else beside(location.path)


def beside(path: Path) -> Folder:
    return Folder(path.with_name(f"{path.name}.parts"))


def made_root(location: StoreLocation) -> Shelf:
    root = parts_root(location)
    if root is None:
        raise StoreError(
            f"Workers on {location.display} write files that every reader must see, and no place is named for them.",
            hint=f"Name a folder that all machines share, such as {PARTS}=/shared/sweepdb, or {PARTS}=s3://bucket/sweeps",
        )
    return made(root)


def made(shelf: Shelf) -> Shelf:
    if not isinstance(shelf, Folder):
        return shelf
    try:
        shelf.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder for parts {shelf.path} cannot be made: {error.strerror}.") from error
    return Folder(shelf.path.resolve())


def home_of(folder: str) -> str:
    name = folder.rstrip("/").rpartition("/")[2]
    return name if _HOME.fullmatch(name) else AT_THE_ROOT


def found_shelf(location: StoreLocation, name: str, written_to: str) -> Shelf:
    root = parts_root(location)
    if root is not None:
        home = home_of(written_to)
        for shelf in (root,) if home == AT_THE_ROOT else (root.below(home), root):
            if shelf.address == written_to or shelf.has(name):
                return shelf
    return shelf_at(written_to)
