"""Loads as records, and their distributions as few bytes. Not here: tables (store.schema), writing (store.writing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.loads.distributions import DISTRIBUTIONS, PAYLOADS, insert_distributions, typed_columns
    from store.loads.load_records import ArrivalRecord, LoadRecord, LoadStatus
    from store.loads.packed_rows import pack_rows, split_counts, unpack_rows, whole_counts

__all__ = [
    "DISTRIBUTIONS",
    "PAYLOADS",
    "ArrivalRecord",
    "LoadRecord",
    "LoadStatus",
    "insert_distributions",
    "pack_rows",
    "split_counts",
    "typed_columns",
    "unpack_rows",
    "whole_counts",
]

__getattr__, __dir__ = lazy_face(__name__)
