"""Writes and reads how far the shards of a sweep are, for whoever looks from another machine.

Not here: what a shard is (evaluator.shards)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import update

from store.opening import Store
from store.reading import ReadTransaction
from store.schema.sql_tables import SHARD
from store.texts import escaped
from store.writing.statements import insert_missing, utc_now


class ShardCounts(NamedTuple):
    """How many shards of a sweep are in which state."""

    sweep_id: int
    waiting: int
    stored: int
    failed: int


def put_shards(store: Store, sweep_id: int, shards: Sequence[tuple[str, int, int]]) -> None:
    """Record shards as waiting: key, scenarios and probes of each."""
    rows = [
        {
            "sweep_id": sweep_id,
            "key": key,
            "scenarios": scenarios,
            "probes": probes,
            "state": "waiting",
            "changed_at": utc_now(),
        }
        for key, scenarios, probes in shards
    ]
    with store.writing() as connection:
        insert_missing(connection, SHARD, rows)


def fail_shard(store: Store, sweep_id: int, key: str, reason: str) -> None:
    """Record why a shard was given up."""
    mine = (SHARD.c.sweep_id == sweep_id) & (SHARD.c.key == key)
    with store.writing() as connection:
        connection.execute(
            update(SHARD).where(mine).values(state="failed", reason=escaped(reason), changed_at=utc_now())
        )


def shard_counts(transaction: ReadTransaction) -> dict[int, ShardCounts]:
    """Count the shards of every sweep that has some, by sweep."""
    counted = ", ".join(
        f"SUM(CASE WHEN state = '{state}' THEN 1 ELSE 0 END)" for state in ("waiting", "stored", "failed")
    )
    rows = transaction.rows(ShardCounts, f"SELECT sweep_id, {counted} FROM shard GROUP BY sweep_id")  # noqa: S608
    return {row.sweep_id: row for row in rows}
