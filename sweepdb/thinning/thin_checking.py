"""Compares every thinned file with the rows of its part that can win, worked out again.

Not here: whether the file is the one that was registered (store.placing.thinned)."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from queries.thinned import RULES
from store.errors import StoreError
from store.location import StoreLocation
from store.placing import found_shelf, is_registered, parts_in_use, thinned_in_use
from store.reading import read_transaction
from store.sealing import quoted
from sweepdb.thinning.thin_writing import digest_of, winners_of


def winner_faults(location: StoreLocation) -> Iterator[str]:
    """Thinned files that hold other rows than can win. Those by rules of before are not read: they are no fault."""
    with read_transaction(location) as transaction:
        rows = [row for row in thinned_in_use(transaction) if row.rules == RULES and is_registered(location, row)]
        parts = {part.id: part for part in parts_in_use(transaction)}
    for row in rows:
        try:
            shelf = found_shelf(location, row.name, row.folder)
            path = shelf.fetched(row.name, row.bytes, row.sha256)
            with winners_of(location, shelf.scratch, parts[row.part_id]) as (connection, source):
                held = digest_of(connection, f"FROM read_parquet({quoted(path)}) AS f")
                right = held == digest_of(connection, source) and held[0] == row.row_count
        except (StoreError, OSError, duckdb.Error):  # that a file cannot be read is said of the file
            continue
        if not right:
            yield (
                f"The thinned file {row.folder}/{row.name} does not hold the rows of its part that can win; remove"
                f" it, then write it anew with: sweepdb db compact{location.argument} `thin`"
            )
