"""Simulated loads, measured requests, and their digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.loads.distributions import DISTRIBUTIONS, PART_ROWS, PAYLOADS, insert_distributions
    from store.loads.load_records import ArrivalRecord, LoadRecord, PackedLoad, loads_digest
    from store.loads.measured_requests import (
        NEVER,
        REJECTED,
        KeptRequests,
        MeasuredRequests,
        kept_digest,
        pack_kept,
        pack_requests,
        unpack_kept,
        unpack_requests,
    )
    from store.loads.packed_rows import (
        PARTS_OF_A_BIN,
        pack_cells,
        pack_rows,
        split_counts,
        unpack_cells,
        unpack_rows,
        whole_counts,
    )

__getattr__, __dir__ = lazy_face(__name__)
