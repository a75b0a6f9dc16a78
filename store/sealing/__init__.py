"""Snapshots of a store: laying committed blocks down as Parquet, reading them back, and blocks that none holds yet.

Not here: questions over them (queries.connect)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.sealing.into_duckdb import create_table, insert_rows
    from store.sealing.laying_down import check_snapshots, seal, seal_location
    from store.sealing.load_parts import create_distribution
    from store.sealing.ranges import LARGEST_KEY, Range, Ranges, complement, merged
    from store.sealing.snapshots import Part, Snapshot, list_parts, load_snapshot
    from store.sealing.unsealed import blocks_within, load_unsealed, unsealed_select

__all__ = [
    "LARGEST_KEY",
    "Part",
    "Range",
    "Ranges",
    "Snapshot",
    "blocks_within",
    "check_snapshots",
    "complement",
    "create_distribution",
    "create_table",
    "insert_rows",
    "list_parts",
    "load_snapshot",
    "load_unsealed",
    "merged",
    "seal",
    "seal_location",
    "unsealed_select",
]

__getattr__, __dir__ = lazy_face(__name__)
