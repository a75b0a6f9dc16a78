"""The state of a store in a few digits: another state means that some answer may differ. Not here: what has changed."""

from __future__ import annotations

import hashlib

from store.location import Moment, StoreLocation
from store.reading.transactions import read_transaction

# Newest rows of what questions read. Prices and comparisons are few and may be replaced: all of them count.
_MEASURED = (
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM measurement",
    "SELECT count(*) || ' ' || coalesce(CAST(max(created_at) AS VARCHAR), '') FROM validation",
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM calibration",
)
_STATEMENTS = (
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM scenario",
    "SELECT coalesce(max(id), 0) FROM block",
    "SELECT coalesce(max(id), 0) FROM load_block",
    "SELECT coalesce(max(id), 0) || ' ' || count(lifted_at) FROM tombstone",
    *_MEASURED,
    "SELECT count(*) || ' ' || coalesce(sum(usd_per_device_hour), 0) || coalesce(sum(watts_per_device), 0) FROM price",
)
_DIGITS = 16


def read_state(location: StoreLocation) -> str:
    """Digits that are the same as long as nothing was added, voided, measured or priced."""
    with read_transaction(location) as transaction:
        parts = [transaction.store_id]
        parts += [str(value) for statement in _STATEMENTS for (value,) in transaction.cells(statement)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def read_moment(location: StoreLocation) -> Moment:
    """How far the store has grown until now."""
    with read_transaction(location) as transaction:
        newest = {
            name: next(transaction.values(int, f"SELECT coalesce(max(id), 0) FROM {name}"))  # noqa: S608  our names
            for name in Moment.__slots__
        }
    return Moment(**newest)


def read_measured(location: StoreLocation) -> str:
    """Digits that are the same as long as nothing was measured, compared or fitted in the store."""
    with read_transaction(location) as transaction:
        parts = [str(value) for statement in _MEASURED for (value,) in transaction.cells(statement)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]
