"""Stores loads: those of one scenario in one transaction, each once, and never changed after.

Not here: playing them (evaluator.arrivals)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import insert, select

from store.loads.load_records import ArrivalRecord, LoadRecord
from store.loads.packed_rows import pack_rows, split_counts
from store.opening import Store
from store.schema.sql_tables import ARRIVAL, LOAD, LOAD_CELL, LOAD_TOKEN, SCENARIO
from store.schema.tables import TABLES
from store.writing.statements import chunks, insert_missing, utc_now


def known_loads(store: Store, keys: Iterable[str]) -> frozenset[str]:
    """Content keys, of those given, that are stored."""
    with store.reading() as connection:
        return frozenset(
            key for some in chunks(keys) for key in connection.scalars(select(LOAD.c.key).where(LOAD.c.key.in_(some)))
        )


def put_loads(
    store: Store, sweep_id: int, scenario_id: int, arrival: ArrivalRecord, records: Sequence[LoadRecord]
) -> int:
    """Store the loads of a scenario that are not there yet, and return how many were added."""
    with store.writing() as connection:
        # Held until the end of the transaction, so that two writers cannot add the same load.
        connection.execute(select(SCENARIO.c.id).where(SCENARIO.c.id == scenario_id).with_for_update())
        insert_missing(connection, ARRIVAL, [TABLES["arrival"].row_of(arrival)])
        arrival_id = connection.scalar(select(ARRIVAL.c.id).where(ARRIVAL.c.key == arrival.key))
        held = {
            key
            for some in chunks([record.key for record in records])
            for key in connection.scalars(select(LOAD.c.key).where(LOAD.c.key.in_(some)))
        }
        missing = list({record.key: record for record in records if record.key not in held}.values())
        of = {"scenario_id": scenario_id, "arrival_id": arrival_id, "sweep_id": sweep_id, "created_at": utc_now()}
        for record in missing:
            row = TABLES["load"].row_of(record, **of)
            load_id = connection.execute(insert(LOAD).values(row).returning(LOAD.c.id)).scalar_one()
            connection.execute(insert(LOAD_CELL).values(load_id=load_id, cells=pack_rows(record.cells)))
            connection.execute(insert(LOAD_TOKEN).values(load_id=load_id, gaps=pack_rows(split_counts(record.gaps))))
    return len(missing)
