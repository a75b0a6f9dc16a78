"""Where the probes of blocks lie that are no rows: which part holds them, and in which folder parts are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.placing.claims import Claim, NotOwned, Ownership, owner_note, parts_elsewhere, parts_not_owned
    from store.placing.folders import AT_THE_ROOT, LEFT_S, found_shelf, home_of, made, made_root, shelf_at
    from store.placing.places import (
        FileState,
        PartRow,
        Place,
        damaged_part,
        files_beside,
        footer_digest,
        has_parts,
        part_faults,
        parts_in_use,
        paths_of,
        placed_ranges,
        places_of,
        states_of_files,
        whole_digest,
    )
    from store.placing.shelves import WAITING, FileTimes, Folder, Shelf, flush_folder, put_text
    from store.placing.thinned import is_registered, thinned_faults, thinned_in_use, thinned_places

__getattr__, __dir__ = lazy_face(__name__)
