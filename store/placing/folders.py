"""Where parts lie: a folder beside a file store, or the shared folder that SWEEPDB_PARTS names.

Not here: which files there are parts (store.placing.places)."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from store.errors import StoreError
from store.location import StoreLocation

PARTS = "SWEEPDB_PARTS"
_WRITTEN = "shard-*.parquet"
_HIDDEN = ".shard-*.parquet"
ORPHANS_KEPT_S = 24 * 3600.0  # of a worker that has written its file and not yet registered it


def own_folder(location: StoreLocation) -> Path | None:
    """The folder of a store's parts; None where it is not known on this machine."""
    if named := os.environ.get(PARTS):
        return Path(named)
    return None if location.path is None else location.path.with_name(f"{location.path.name}.parts")


def part_folder(location: StoreLocation) -> Path:
    """The folder that new parts of a store go to, made if missing."""
    folder = own_folder(location)
    if folder is None:
        raise StoreError(
            f"Workers on {location.display} write files that every reader must see, and no folder is named for them.",
            hint=f"Name a folder that all machines share, such as {PARTS}=/shared/sweepdb",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder for parts {folder} cannot be made: {error.strerror}.") from error
    return folder.resolve()


def found_path(location: StoreLocation, name: str, written_to: str) -> Path:
    """The file of a part: where parts of this store are now, else where it was written."""
    folder = own_folder(location)
    if folder is not None and (folder / name).is_file():
        return folder / name
    return Path(written_to) / name


def orphans(folder: Path, names: Collection[str], *, older_than_s: float = 0.0) -> list[Path]:
    """Files of workers that no row names, by name."""
    found = []
    for pattern in (_WRITTEN, _HIDDEN):
        for path in folder.glob(pattern):
            with suppress(OSError):
                if path.name not in names and time.time() - path.stat().st_mtime >= older_than_s:
                    found.append(path)
    return sorted(found)
