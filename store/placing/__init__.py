"""Where the probes of blocks lie that are no rows: which part holds them, and in which folder parts are.

Not here: writing parts (store.parts), and reading their rows (store.sealing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.placing.folders import found_path, orphans, own_folder, part_folder
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

__all__ = [
    "PartRow",
    "Place",
    "found_path",
    "orphaned_files",
    "orphans",
    "own_folder",
    "part_faults",
    "part_folder",
    "parts_in_use",
    "paths_of",
    "placed_ranges",
    "places_of",
]

__getattr__, __dir__ = lazy_face(__name__)
