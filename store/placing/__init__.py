"""Where the probes of blocks lie that are no rows: which part holds them, and in which folder parts are.

Not here: writing parts (store.parts), and reading their rows (store.sealing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.placing.folders import found_shelf, own_shelf, part_shelf, shelf_at
    from store.placing.places import (
        PartRow,
        Place,
        orphaned_files,
        part_faults,
        parts_in_use,
        paths_of,
        placed_ranges,
        places_of,
    )
    from store.placing.shelves import Folder, Shelf
    from store.placing.thinned import ThinnedRow, is_registered, thinned_faults, thinned_in_use, thinned_places

__all__ = [
    "Folder",
    "PartRow",
    "Place",
    "Shelf",
    "ThinnedRow",
    "found_shelf",
    "is_registered",
    "orphaned_files",
    "own_shelf",
    "part_faults",
    "part_shelf",
    "parts_in_use",
    "paths_of",
    "placed_ranges",
    "places_of",
    "shelf_at",
    "thinned_faults",
    "thinned_in_use",
    "thinned_places",
]

__getattr__, __dir__ = lazy_face(__name__)
