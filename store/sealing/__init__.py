"""Snapshots of a store: laying committed blocks down as Parquet, reading them back, and blocks that none holds yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.sealing.damage import damage_named, damaged_snapshot
    from store.sealing.digesting import KeptDigest, changed_blocks, groups_of, kept_digests
    from store.sealing.held import HeldRows
    from store.sealing.into_duckdb import create_table, fetched_arrays, insert_rows, put_repeating, put_temporary
    from store.sealing.laying_down import seal, seal_held, seal_location
    from store.sealing.load_parts import LoadCounts, create_load_relation, parts_of_loads
    from store.sealing.load_relations import LOAD_RELATIONS, columns_of, insert_from_store
    from store.sealing.part_files import copy_rows, digest_of, put_document, quoted, rows_written
    from store.sealing.ranges import LARGEST_KEY, Range, Ranges, complement, merged, ranges_of
    from store.sealing.snapshots import Part, Snapshot, list_parts, load_snapshot, snapshot_directories
    from store.sealing.unsealed import (
        UnsealedBlock,
        blocks_of,
        blocks_of_scenarios,
        blocks_within,
        load_unsealed,
        not_within,
        parts_with,
        unsealed_select,
        worth_pruning,
    )

__getattr__, __dir__ = lazy_face(__name__)
