"""Writes sweeps and blocks: one transaction each, acknowledged only once it has committed, and never changed after."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, join, select, update

from store.digests import DigestedRows, rows_digest
from store.errors import InputError
from store.faults import store_faults
from store.opening import Store
from store.reading import read_transaction
from store.records import BlockRecord, SweepRecord
from store.running_lock import abandoned_sweeps, forget
from store.schema.declaring import SweepOutcome
from store.schema.sql_tables import BLOCK, PLAN, PROBE, SCENARIO, SUBJECT, SWEEP, SWEEP_INTERVAL
from store.schema.tables import MEASURES, TABLES
from store.sealing.held import HeldBlock, HeldRows, held_block
from store.texts import checked_arguments
from store.writing.arrays import MissingRows, check_block, insert_block_arrays
from store.writing.plausible import refuse_impossible
from store.writing.scenarios import BLOCKS_OF, merge_intervals, missing_intervals
from store.writing.statements import as_utc, chunks, utc_now

# Built once: building them for every block would cost as much as inserting its probes.
_OUTCOMES = (
    select(SCENARIO.c.id, SCENARIO.c.status, SCENARIO.c.reason, SCENARIO.c.key, PLAN.c.dp * PLAN.c.pp)
    .join(SUBJECT, SUBJECT.c.id == SCENARIO.c.subject_id)
    .join(PLAN, PLAN.c.id == SUBJECT.c.plan_id)
    .where(SCENARIO.c.id.in_(bindparam("scenarios", expanding=True)))
    .order_by(SCENARIO.c.id)  # in one order everywhere, so that two writers never wait for each other crosswise
    .with_for_update(of=SCENARIO)
)
_ASKED_INTERVALS = select(
    SWEEP_INTERVAL.c.scenario_id, SWEEP_INTERVAL.c.first_batch_size, SWEEP_INTERVAL.c.last_batch_size
).where(
    SWEEP_INTERVAL.c.sweep_id == bindparam("sweep_id"),
    SWEEP_INTERVAL.c.scenario_id.in_(bindparam("scenarios", expanding=True)),
    SWEEP_INTERVAL.c.first_batch_size > 0,  # 0 marks a failure
)
_LAST_COMMIT = (
    select(func.coalesce(func.max(BLOCK.c.created_at), func.max(SWEEP.c.started_at)))
    .select_from(join(SWEEP, BLOCK, BLOCK.c.sweep_id == SWEEP.c.id, isouter=True))
    .where(SWEEP.c.id == bindparam("sweep_id"))
)
_INSERT_BLOCK = insert(BLOCK)
_INSERT_INTERVAL = insert(SWEEP_INTERVAL)


def begin_sweep(store: Store, record: SweepRecord, *, held: bool = True) -> int:
    """Record a request as running and return its integer id; what writers that are gone left running is settled.

    It counts as running while this process has the store open; not `held`, only what is stored of it is known."""
    checked_arguments(record.arguments)
    if held:
        _settle(store)
    row = TABLES["sweep"].row_of(
        record,
        started_at=as_utc(record.started_at),
        status="running",
        probes_stored=0,
        probes_known=0,
        scenarios_failed=0,
    )
    with store.writing() as connection:
        sweep_id = int(connection.execute(insert(SWEEP).values(row).returning(SWEEP.c.id)).scalar_one())
        if held:
            store.running_lock.hold(store.engine, sweep_id, record.key)
        return sweep_id


def _settle(store: Store) -> None:
    """Record sweeps as interrupted whose writers were killed, with what they had stored until then."""
    with read_transaction(store.location) as transaction:
        abandoned = abandoned_sweeps(store.location, transaction)
    for sweep in abandoned:
        with store.reading() as connection:
            last = connection.execute(_LAST_COMMIT, {"sweep_id": sweep.id}).scalar_one()
        finish_sweep(store, sweep.id, "interrupted", finished_at=last)
        forget(store.location, sweep.key)


def finish_sweep(store: Store, sweep_id: int, status: SweepOutcome, *, finished_at: datetime | None = None) -> None:
    """Record how a request ended, with what it added, found and could not evaluate, all counted from the store."""
    with store.writing() as connection:
        stored, asked, failed = sweep_counts(connection, sweep_id)
        connection.execute(
            update(SWEEP)
            .where(SWEEP.c.id == sweep_id)
            .values(
                status=status,
                finished_at=as_utc(finished_at or utc_now()),
                probes_stored=stored,
                probes_known=max(asked - stored, 0),
                scenarios_failed=failed,
            )
        )
    store.running_lock.release(sweep_id)
    checkpoint(store)


def checkpoint(store: Store) -> None:
    """Move SQLite's log into the file and flush it, as far as readers allow: it then survives a power cut."""
    if store.kind == "sqlite":
        with store_faults(store.location), store.engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            if driver is not None:
                driver.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")


def sweep_counts(connection: Connection, sweep_id: int) -> tuple[int, int, int]:
    stored = select(func.coalesce(func.sum(BLOCK.c.probe_count), 0)).where(BLOCK.c.sweep_id == sweep_id)
    width = SWEEP_INTERVAL.c.last_batch_size - SWEEP_INTERVAL.c.first_batch_size + 1
    mine = SWEEP_INTERVAL.c.sweep_id == sweep_id
    asked = select(func.coalesce(func.sum(width), 0)).where(mine, SWEEP_INTERVAL.c.first_batch_size > 0)
    failed = (
        select(func.count(func.distinct(SCENARIO.c.id)))
        .join(SWEEP_INTERVAL, SWEEP_INTERVAL.c.scenario_id == SCENARIO.c.id)
        .where(mine, SCENARIO.c.status != "ok")
    )
    added, wanted, refused = (int(connection.execute(query).scalar_one()) for query in (stored, asked, failed))
    return added, wanted, refused


def put_block(store: Store, sweep_id: int, scenario_id: int, record: BlockRecord) -> int:
    """Store the probes of a batch interval that are not there yet, and return how many were added."""
    return put_blocks(store, sweep_id, [(scenario_id, record)])


def put_blocks(
    store: Store, sweep_id: int, blocks: Sequence[tuple[int, BlockRecord]], *, held: HeldRows | None = None
) -> int:
    """Store the probes of batch intervals, each with its scenario, that are not there yet; return how many were added.

    One transaction: the blocks, their probes and compositions, and that the sweep asked for them. `held` keeps what was
    added for whoever lays it down."""
    intervals = [(scenario_id, check_block(record)) for scenario_id, record in blocks]
    digested = [DigestedRows.of_columns(record.batch_sizes, record.columns) for _, record in blocks]
    scenarios = sorted({scenario_id for scenario_id, _ in blocks})
    parts: list[MissingRows] = []
    rows: list[dict[str, Any]] = []
    added: list[HeldBlock] = []
    with store.writing() as connection:
        claimed = _claim(connection, scenarios)
        known = _known_intervals(connection, scenarios)
        for (scenario_id, record), (_, interval), numbers in zip(blocks, intervals, digested, strict=True):
            key, replicas = claimed[scenario_id]
            refuse_impossible(key, record, replicas)
            missing = missing_intervals(interval, known[scenario_id])
            for part in missing:
                digest = rows_digest(key, numbers.within(*part), record.composition)
                rows.append(_block_row(sweep_id, scenario_id, part, digest))
                added.append(held_block(scenario_id, part, digest, record))
            if missing:
                known[scenario_id].extend(missing)
                parts.append(MissingRows(scenario_id=scenario_id, record=record, intervals=missing))
        if rows:
            connection.execute(_INSERT_BLOCK, rows)
            insert_block_arrays(connection, parts)
        _record_intervals(connection, sweep_id, intervals)
    if held is not None and store.joint is None:  # else it may still be undone
        for block in added:
            held.keep(block)
    return sum(row["probe_count"] for row in rows)


def require_same(store: Store, scenario_id: int, key: str, record: BlockRecord) -> None:
    first, last = check_block(record)
    mine = DigestedRows.of_columns(record.batch_sizes, record.columns)
    columns = [PROBE.c.batch_size, *(PROBE.c[column.name] for column in MEASURES)]
    within = PROBE.c.batch_size.between(first, last)
    query = select(*columns).where(PROBE.c.scenario_id == scenario_id, within).order_by(PROBE.c.batch_size)
    with store.writing() as connection:
        stored = connection.execute(query).all()
    if not stored:
        _require_same_digest(store, scenario_id, key, record)
        return
    table = np.array([tuple(row) for row in stored], dtype=np.float64)
    theirs = DigestedRows(batch_sizes=table[:, 0].astype(np.int64), measures=tuple(table[:, 1:].T))
    same = mine.part(np.isin(mine.batch_sizes, theirs.batch_sizes))
    if rows_digest(key, same, None) != rows_digest(key, theirs, None):
        raise _other_numbers(key, first, last)


def _require_same_digest(store: Store, scenario_id: int, key: str, record: BlockRecord) -> None:
    first, last = int(record.batch_sizes[0]), int(record.batch_sizes[-1])
    mine = DigestedRows.of_columns(record.batch_sizes, record.columns)
    within = (BLOCK.c.first_batch_size >= first) & (BLOCK.c.last_batch_size <= last)
    query = select(BLOCK.c.first_batch_size, BLOCK.c.last_batch_size, BLOCK.c.digest).where(
        BLOCK.c.scenario_id == scenario_id, within, BLOCK.c.digest.is_not(None)
    )
    with store.reading() as connection:
        stored = connection.execute(query).all()
    for start, stop, digest in stored:
        if rows_digest(key, mine.within(start, stop), record.composition) != digest:
            raise _other_numbers(key, start, stop)


def _other_numbers(key: str, first: int, last: int) -> InputError:
    return InputError(
        f"Scenario {key[:12]} is stored here with other numbers at batch sizes {first} to {last}.",
        hint="One of the two is not what was evaluated: check both stores with `sweepdb db check`.",
    )


def record_interval(store: Store, sweep_id: int, scenario_id: int, first: int, last: int) -> None:
    with store.writing() as connection:
        covered = _known_intervals(connection, [scenario_id])[scenario_id]
        if missing_intervals((first, last), covered):
            raise InputError(f"Batch sizes {first} to {last} of scenario {scenario_id} are not all stored.")
        _record_intervals(connection, sweep_id, [(scenario_id, (first, last))])


def _claim(connection: Connection, scenarios: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Hold scenarios until the end of the transaction, so that two writers cannot add the same interval.

    Returns the content key of each, and how many batches an instance has in flight."""
    claimed: dict[int, tuple[str, int]] = {}
    for chunk in chunks(scenarios):
        for scenario_id, status, reason, key, replicas in connection.execute(_OUTCOMES, {"scenarios": chunk}).all():
            if (status, reason) != ("ok", None):
                cleared = update(SCENARIO).where(SCENARIO.c.id == scenario_id).values(status="ok", reason=None)
                connection.execute(cleared)
            claimed[scenario_id] = (str(key), int(replicas))
    if absent := [scenario_id for scenario_id in scenarios if scenario_id not in claimed]:
        raise InputError(f"There is no scenario {absent[0]} in this store.")
    return claimed


_Intervals = dict[int, list[tuple[int, int]]]  # by scenario


def _known_intervals(connection: Connection, scenarios: Sequence[int]) -> _Intervals:
    known: _Intervals = {scenario_id: [] for scenario_id in scenarios}
    for chunk in chunks(scenarios):
        for scenario_id, first, last in connection.execute(BLOCKS_OF, {"scenarios": chunk}):
            known[scenario_id].append((first, last))
    return known


def _block_row(sweep_id: int, scenario_id: int, interval: tuple[int, int], digest: str) -> dict[str, Any]:
    first, last = interval
    return {
        "scenario_id": scenario_id,
        "first_batch_size": first,
        "last_batch_size": last,
        "probe_count": last - first + 1,
        "sweep_id": sweep_id,
        "created_at": utc_now(),
        "digest": digest,
    }


def _record_intervals(connection: Connection, sweep_id: int, intervals: Sequence[tuple[int, tuple[int, int]]]) -> None:
    """Add intervals to what the sweep asked for, joined with those they touch so that nothing is counted twice."""
    asked: dict[int, set[tuple[int, int]]] = {scenario_id: set() for scenario_id, _ in intervals}
    for chunk in chunks(asked):
        for scenario_id, first, last in connection.execute(
            _ASKED_INTERVALS, {"sweep_id": sweep_id, "scenarios": chunk}
        ):
            asked[scenario_id].add((first, last))
    new: list[dict[str, int]] = []
    for scenario_id, rows in asked.items():
        of = {"sweep_id": sweep_id, "scenario_id": scenario_id}
        joined = set(merge_intervals([*rows, *(interval for owner, interval in intervals if owner == scenario_id)]))
        for start, _ in rows - joined:
            mine = (SWEEP_INTERVAL.c.sweep_id == sweep_id) & (SWEEP_INTERVAL.c.scenario_id == scenario_id)
            connection.execute(delete(SWEEP_INTERVAL).where(mine, SWEEP_INTERVAL.c.first_batch_size == start))
        new.extend({**of, "first_batch_size": start, "last_batch_size": stop} for start, stop in joined - rows)
    if new:
        connection.execute(_INSERT_INTERVAL, new)
