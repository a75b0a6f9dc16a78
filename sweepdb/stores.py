"""Creating, upgrading, checking and sealing stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.probes import find_probe
    from store.location import StoreLocation, parse_url
    from store.migrating import create_store, current_revision
    from store.opening import open_store
    from store.parts import adopt_parts, compact_parts
    from store.reading import NameKind, duckdb, in_memory, read_store_id, stored_names
    from store.records import PriceRecord
    from store.revision import HEAD_REVISION
    from store.sealing import seal_location
    from store.sweep_list import SweepDetail, SweepSummary, list_sweeps, show_sweep
    from store.texts import arguments_of, csv_line, escaped, plain
    from store.upkeep import CheckReport, repair_store, vacuum_store
    from store.waiting import wait_at_most
    from store.whole_files import (
        STANDARD_OUTPUT,
        drop_unfinished_files,
        is_device,
        is_standard_output,
        is_stream,
        unwritable,
        written_whole,
    )
    from store.writing import unvoid, void
    from sweepdb.upkeep import check_store, thin_parts, upgrade_store

__getattr__, __dir__ = lazy_face(__name__)
