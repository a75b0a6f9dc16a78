"""Writes sweeps and blocks: one transaction each, acknowledged only once it has committed, and never changed after.

Not here: what scenarios are made of (store.writing.scenarios), and voiding (store.writing.voiding)."""

from __future__ import annotations

from datetime import datetime

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, join, select, update

from store.digests import DigestedRows, rows_digest
from store.errors import InputError
from store.opening import Store
from store.reading import read_transaction
from store.records import BlockRecord, SweepOutcome, SweepRecord
from store.running_lock import abandoned_sweeps, forget
from store.schema.measures import MEASURES
from store.schema.sql_tables import BLOCK, PLAN, PROBE, SCENARIO, SUBJECT, SWEEP, SWEEP_INTERVAL
from store.schema.tables import TABLES
from store.writing.arrays import check_block, insert_block_arrays
from store.writing.plausible import refuse_impossible
from store.writing.scenarios import merge_intervals, missing_intervals
from store.writing.statements import as_utc, utc_now

# Built once: building them for every block would cost as much as inserting its probes.
_OUTCOME = (
    select(SCENARIO.c.status, SCENARIO.c.reason, SCENARIO.c.key, PLAN.c.dp * PLAN.c.pp)
    .join(SUBJECT, SUBJECT.c.id == SCENARIO.c.subject_id)
    .join(PLAN, PLAN.c.id == SUBJECT.c.plan_id)
    .where(SCENARIO.c.id == bindparam("scenario_id"))
    .with_for_update(of=SCENARIO)
)
_KNOWN_INTERVALS = select(BLOCK.c.first_batch_size, BLOCK.c.last_batch_size).where(
    BLOCK.c.scenario_id == bindparam("scenario_id")
)
_ASKED_INTERVALS = select(SWEEP_INTERVAL.c.first_batch_size, SWEEP_INTERVAL.c.last_batch_size).where(
    SWEEP_INTERVAL.c.sweep_id == bindparam("sweep_id"),
    SWEEP_INTERVAL.c.scenario_id == bindparam("scenario_id"),
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
        with store.engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            if driver is not None:
                driver.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")


def sweep_counts(connection: Connection, sweep_id: int) -> tuple[int, int, int]:
    """Count the probes a sweep added, the probes it asked for, and its scenarios that are not ok."""
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
    """Store the probes of a batch interval that are not there yet, and return how many were added.

    One transaction: the blocks, their probes and compositions, and that the sweep asked for them."""
    first, last = check_block(record)
    rows = DigestedRows.of_columns(record.batch_sizes, record.columns)
    with store.writing() as connection:
        scenario_key, replicas = _claim(connection, scenario_id)
        refuse_impossible(scenario_key, record, replicas)
        missing = missing_intervals((first, last), _known_intervals(connection, scenario_id))
        for start, stop in missing:
            digest = rows_digest(scenario_key, rows.within(start, stop), record.composition)
            _insert_block(connection, sweep_id, scenario_id, (start, stop), digest)
        if missing:
            insert_block_arrays(connection, scenario_id, record, missing)
        _record_interval(connection, sweep_id, scenario_id, first, last)
    return sum(stop - start + 1 for start, stop in missing)


def require_same(store: Store, scenario_id: int, key: str, record: BlockRecord) -> None:
    """Raise where rows of a block that are stored already have other numbers under the same key."""
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
    theirs = DigestedRows(batch_sizes=table[:, 0].astype(np.int64), values=table[:, 1:])
    chosen = np.isin(mine.batch_sizes, theirs.batch_sizes)
    same = DigestedRows(batch_sizes=mine.batch_sizes[chosen], values=mine.values[chosen])
    if rows_digest(key, same, None) != rows_digest(key, theirs, None):
        raise _other_numbers(key, first, last)


def _require_same_digest(store: Store, scenario_id: int, key: str, record: BlockRecord) -> None:
    """Compare a block whose probes lie in a part with the digest that it was committed with."""
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
    """Record that a sweep asked for a batch interval that was there already."""
    with store.writing() as connection:
        covered = _known_intervals(connection, scenario_id)
        if missing_intervals((first, last), covered):
            raise InputError(f"Batch sizes {first} to {last} of scenario {scenario_id} are not all stored.")
        _record_interval(connection, sweep_id, scenario_id, first, last)


def _claim(connection: Connection, scenario_id: int) -> tuple[str, int]:
    """Hold the scenario until the end of the transaction, so that two writers cannot add the same interval.

    Returns its content key, and how many batches an instance has in flight."""
    outcome = connection.execute(_OUTCOME, {"scenario_id": scenario_id}).one_or_none()
    if outcome is None:
        raise InputError(f"There is no scenario {scenario_id} in this store.")
    status, reason, key, replicas = outcome
    if (status, reason) != ("ok", None):
        cleared = update(SCENARIO).where(SCENARIO.c.id == scenario_id).values(status="ok", reason=None)
        connection.execute(cleared)
    return str(key), int(replicas)


def _known_intervals(connection: Connection, scenario_id: int) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in connection.execute(_KNOWN_INTERVALS, {"scenario_id": scenario_id})]


def _insert_block(
    connection: Connection, sweep_id: int, scenario_id: int, interval: tuple[int, int], digest: str
) -> None:
    first, last = interval
    row = {
        "scenario_id": scenario_id,
        "first_batch_size": first,
        "last_batch_size": last,
        "probe_count": last - first + 1,
        "sweep_id": sweep_id,
        "created_at": utc_now(),
        "digest": digest,
    }
    connection.execute(_INSERT_BLOCK, row)


def _record_interval(connection: Connection, sweep_id: int, scenario_id: int, first: int, last: int) -> None:
    """Add an interval to what the sweep asked for, joined with those it touches so that nothing is counted twice."""
    of = {"sweep_id": sweep_id, "scenario_id": scenario_id}
    rows = {(row[0], row[1]) for row in connection.execute(_ASKED_INTERVALS, of)}
    joined = set(merge_intervals([*rows, (first, last)]))
    for start, _ in rows - joined:
        mine = (SWEEP_INTERVAL.c.sweep_id == sweep_id) & (SWEEP_INTERVAL.c.scenario_id == scenario_id)
        connection.execute(delete(SWEEP_INTERVAL).where(mine, SWEEP_INTERVAL.c.first_batch_size == start))
    for start, stop in joined - rows:
        row = {**of, "first_batch_size": start, "last_batch_size": stop}
        connection.execute(_INSERT_INTERVAL, row)
