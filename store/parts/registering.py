"""Registers a file in one transaction: blocks, digests, intervals, and progress of shards.

Before that it is no part; a worker whose blocks all came from another deletes its file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from sqlalchemy import BindParameter, Connection, bindparam, insert, select, update

from store.errors import InputError
from store.light_dataclass import dataclass
from store.opening import Store
from store.parts.files import PartBlock, PartFile
from store.parts.naming import insert_part
from store.placing import WAITING, shelf_at
from store.schema.sql_tables import BLOCK, COMPOSITION, SCENARIO, SHARD, SWEEP_INTERVAL
from store.texts import escaped
from store.writing.scenarios import BLOCKS_OF, merge_intervals, missing_intervals
from store.writing.statements import chunks, insert_missing, utc_now

Interval = tuple[int, int]
_SCENARIOS: BindParameter[list[int]] = bindparam("scenarios", expanding=True)
_HELD = (
    select(SCENARIO.c.id, SCENARIO.c.status, SCENARIO.c.reason)
    .where(SCENARIO.c.id.in_(_SCENARIOS))
    .order_by(SCENARIO.c.id)
    .with_for_update(of=SCENARIO)
)
_ASKED_COLUMNS = (SWEEP_INTERVAL.c.scenario_id, SWEEP_INTERVAL.c.first_batch_size, SWEEP_INTERVAL.c.last_batch_size)
_ASKED = select(*_ASKED_COLUMNS).where(
    SWEEP_INTERVAL.c.sweep_id == bindparam("sweep_id"),
    SWEEP_INTERVAL.c.first_batch_size > 0,
    SWEEP_INTERVAL.c.scenario_id.in_(_SCENARIOS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Probes added, and blocks that others stored in part."""

    probes_added: int
    probes_known: int
    left: int  # blocks of which only some batch sizes were there: the same command again adds the rest


def register_part(store: Store, sweep_id: int, shard_key: str, file: PartFile) -> Registered:
    """All of the file, or nothing.

    Scenarios are locked by id, so that two workers never deadlock. Stored blocks stay; a file without new ones is
    deleted."""
    with store.writing() as connection:
        known = _claim(connection, {block.scenario_id for block in file.blocks})
        new: list[PartBlock] = []
        asked: list[PartBlock] = []
        left = 0
        for block in file.blocks:
            missing = missing_intervals((block.first, block.last), known.get(block.scenario_id, ()))
            if missing == [(block.first, block.last)]:
                new.append(block)
            elif missing:
                left += 1
                continue
            asked.append(block)
        ids = _insert_blocks(connection, sweep_id, new) if new else []
        _record_intervals(connection, sweep_id, asked)
        done = update(SHARD).where(SHARD.c.sweep_id == sweep_id, SHARD.c.key == shard_key)
        connection.execute(done.values(state="stored", reason=None, changed_at=utc_now()))
        if new:
            insert_part(connection, file, ids, sum(block.last - block.first + 1 for block in new))
    if not new:
        with suppress(OSError):  # then compaction removes it
            shelf_at(file.folder).remove(f"{WAITING}{file.name}")
    added = sum(block.last - block.first + 1 for block in new)
    total = sum(block.last - block.first + 1 for block in asked)
    return Registered(probes_added=added, probes_known=total - added, left=left)


class Asked(NamedTuple):
    scenario_id: int
    first: int
    last: int


def record_known(store: Store, sweep_id: int, asked: Sequence[tuple[int, int, int]]) -> None:
    if asked:
        with store.writing() as connection:
            _record_intervals(connection, sweep_id, [Asked(*one) for one in asked])


def _claim(connection: Connection, scenario_ids: Iterable[int]) -> dict[int, list[Interval]]:
    """Locks scenarios, and returns their stored intervals."""
    known: dict[int, list[Interval]] = {}
    for chunk in chunks(sorted(scenario_ids)):
        held = connection.execute(_HELD, {"scenarios": chunk}).all()
        if len(held) != len(chunk):
            raise InputError("A part holds a scenario that is not in this store.")
        failed = [row.id for row in held if (row.status, row.reason) != ("ok", None)]
        if failed:
            connection.execute(update(SCENARIO).where(SCENARIO.c.id.in_(failed)).values(status="ok", reason=None))
        for scenario_id, first, last in connection.execute(BLOCKS_OF, {"scenarios": chunk}):
            known.setdefault(scenario_id, []).append((first, last))
    return known


def _insert_blocks(connection: Connection, sweep_id: int, blocks: Sequence[PartBlock]) -> list[int]:
    now = utc_now()
    rows = [
        {
            "scenario_id": block.scenario_id,
            "first_batch_size": block.first,
            "last_batch_size": block.last,
            "probe_count": block.last - block.first + 1,
            "sweep_id": sweep_id,
            "created_at": now,
            "digest": block.digest,
        }
        for block in blocks
    ]
    ids = [int(row[0]) for row in connection.execute(insert(BLOCK).returning(BLOCK.c.id), rows)]
    for block in blocks:
        if block.composition is not None:
            connection.execute(insert(COMPOSITION), _composed(block))
    return ids


def _composed(block: PartBlock) -> list[dict[str, int]]:
    if block.composition is None:
        return []
    batches, bins, samples = (np.asarray(part) for part in block.composition)
    chosen = (samples > 0) & (batches >= block.first) & (batches <= block.last)
    return [
        {"scenario_id": block.scenario_id, "batch_size": batch, "bin_index": bin_, "samples": count}
        for batch, bin_, count in zip(
            batches[chosen].tolist(), bins[chosen].tolist(), samples[chosen].tolist(), strict=True
        )
    ]


def _record_intervals(connection: Connection, sweep_id: int, blocks: Sequence[PartBlock | Asked]) -> None:
    """Joined with what they touch, so that nothing counts twice."""
    asked: dict[int, set[Interval]] = {}
    for block in blocks:
        asked.setdefault(block.scenario_id, set()).add((block.first, block.last))
    columns = _ASKED_COLUMNS
    mine = (SWEEP_INTERVAL.c.sweep_id == sweep_id) & (SWEEP_INTERVAL.c.first_batch_size > 0)
    for chunk in chunks(sorted(asked)):
        before: dict[int, set[Interval]] = {}
        for scenario_id, first, last in connection.execute(_ASKED, {"sweep_id": sweep_id, "scenarios": chunk}):
            before.setdefault(scenario_id, set()).add((first, last))
        for scenario_id, stored in before.items():
            gone = stored - set(merge_intervals(stored | asked[scenario_id]))
            for first, _ in gone:
                connection.execute(SWEEP_INTERVAL.delete().where(mine, columns[0] == scenario_id, columns[1] == first))
        rows = [
            {"sweep_id": sweep_id, "scenario_id": scenario_id, "first_batch_size": first, "last_batch_size": last}
            for scenario_id in chunk
            for first, last in merge_intervals(before.get(scenario_id, set()) | asked[scenario_id])
            if (first, last) not in before.get(scenario_id, set())
        ]
        if rows:
            connection.execute(insert(SWEEP_INTERVAL), rows)


def put_shards(store: Store, sweep_id: int, shards: Sequence[tuple[str, int, int]]) -> None:
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
    mine = (SHARD.c.sweep_id == sweep_id) & (SHARD.c.key == key)
    with store.writing() as connection:
        connection.execute(
            update(SHARD).where(mine).values(state="failed", reason=escaped(reason), changed_at=utc_now())
        )
