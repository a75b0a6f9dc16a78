"""Loads, each once and unchanged: a scenario's in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, insert, select

from store.errors import InputError
from store.loads import PackedLoad, kept_digest, loads_digest, pack_cells, pack_kept, pack_rows, split_counts
from store.loads.load_records import ArrivalRecord, LoadRecord
from store.opening import Store
from store.reading.load_blocks import LOAD_VALUES, as_digested
from store.schema.sql_tables import ARRIVAL, LOAD, LOAD_BLOCK, LOAD_CELL, LOAD_REQUEST, LOAD_TOKEN, SCENARIO
from store.schema.tables import TABLES
from store.writing.plausible import refuse_impossible_load
from store.writing.statements import chunks, insert_missing, utc_now


def known_loads(store: Store, keys: Iterable[str], *, with_requests: bool = False) -> frozenset[str]:
    found = select(LOAD.c.key)
    if with_requests:
        found = found.join(LOAD_REQUEST, LOAD_REQUEST.c.load_id == LOAD.c.id)
    with store.reading() as connection:
        return frozenset(key for some in chunks(keys) for key in connection.scalars(found.where(LOAD.c.key.in_(some))))


def loads_of_scenarios(
    store: Store, scenario_ids: Iterable[int], *, with_requests: bool = False
) -> dict[int, frozenset[str]]:
    found = select(LOAD.c.scenario_id, LOAD.c.key)
    if with_requests:
        found = found.join(LOAD_REQUEST, LOAD_REQUEST.c.load_id == LOAD.c.id)
    keys: dict[int, set[str]] = {}
    with store.reading() as connection:
        for some in chunks(sorted(scenario_ids)):
            for scenario_id, key in connection.execute(found.where(LOAD.c.scenario_id.in_(some))):
                keys.setdefault(scenario_id, set()).add(key)
    return {scenario_id: frozenset(some) for scenario_id, some in keys.items()}


def put_loads(
    store: Store, sweep_id: int, scenario_id: int, arrival: ArrivalRecord, records: Sequence[LoadRecord]
) -> int:
    """Returns how many were added. Requests are added to a load that lacks them."""
    with store.writing() as connection:
        # Held until the end of the transaction, so that two writers cannot add the same load.
        scenario_key = connection.scalar(select(SCENARIO.c.key).where(SCENARIO.c.id == scenario_id).with_for_update())
        insert_missing(connection, ARRIVAL, [TABLES["arrival"].row_of(arrival)])
        arrival_id = connection.scalar(select(ARRIVAL.c.id).where(ARRIVAL.c.key == arrival.key))
        held = {
            key
            for some in chunks([record.key for record in records])
            for key in connection.scalars(select(LOAD.c.key).where(LOAD.c.key.in_(some)))
        }
        missing = list({record.key: record for record in records if record.key not in held}.values())
        of = {"scenario_id": scenario_id, "sweep_id": sweep_id, "created_at": utc_now()}
        added: dict[str, list[tuple[int, PackedLoad]]] = {}  # by settings
        for record in missing:
            refuse_impossible_load(record)
            row = TABLES["load"].row_of(record, **of, arrival_id=arrival_id)
            load_id = connection.execute(insert(LOAD).values(row).returning(LOAD.c.id)).scalar_one()
            packed = packed_load(record)
            connection.execute(insert(LOAD_CELL).values(load_id=load_id, cells=packed.cells))
            connection.execute(insert(LOAD_TOKEN).values(load_id=load_id, gaps=packed.gaps))
            added.setdefault(record.settings_key, []).append((load_id, packed))
        for settings, some in added.items():
            block = {
                **of,
                "settings_key": settings,
                "first_load": min(load_id for load_id, _ in some),
                "last_load": max(load_id for load_id, _ in some),
                "load_count": len(some),
                "digest": loads_digest(str(scenario_key), arrival.key, [packed for _, packed in some]),
            }
            connection.execute(insert(LOAD_BLOCK).values(block))
        _put_requests(connection, records)
    return len(missing)


def _put_requests(connection: Connection, records: Sequence[LoadRecord]) -> None:
    given = {record.key: record.requests for record in records if record.requests is not None}
    for some in chunks(list(given)):
        found = (
            select(LOAD.c.id, LOAD.c.key)
            .outerjoin(LOAD_REQUEST, LOAD_REQUEST.c.load_id == LOAD.c.id)
            .where(LOAD.c.key.in_(some), LOAD_REQUEST.c.load_id.is_(None))
        )
        for load_id, key in connection.execute(found).all():
            packed = pack_kept(given[key])
            row = {
                "load_id": load_id,
                "kept_requests": given[key].ttft_us.size,
                "digest": kept_digest(key, packed),
                "requests": packed,
            }
            connection.execute(insert(LOAD_REQUEST).values(row))


def packed_load(record: LoadRecord) -> PackedLoad:
    return PackedLoad(
        values=as_digested({name: getattr(record, name) for name in LOAD_VALUES}),
        cells=pack_cells(record.cells, record.parts),
        gaps=pack_rows(split_counts(record.gaps)),
    )


def require_same_loads(store: Store, scenario_key: str, arrival_key: str, records: Sequence[LoadRecord]) -> None:
    mine = {record.key: packed_load(record) for record in records}
    columns = [LOAD.c[name] for name in LOAD_VALUES]
    with store.writing() as connection:
        for some in chunks(list(mine)):
            found = select(LOAD_CELL.c.cells, LOAD_TOKEN.c.gaps, *columns).where(
                LOAD.c.key.in_(some), LOAD_CELL.c.load_id == LOAD.c.id, LOAD_TOKEN.c.load_id == LOAD.c.id
            )
            for cells, gaps, *values in connection.execute(found):
                stored = PackedLoad(
                    values=as_digested(dict(zip(LOAD_VALUES, values, strict=True))),
                    cells=bytes(cells),
                    gaps=bytes(gaps),
                )
                theirs = mine[str(stored.values["key"])]
                if loads_digest(scenario_key, arrival_key, [stored]) != loads_digest(
                    scenario_key, arrival_key, [theirs]
                ):
                    raise InputError(
                        f"Load {stored.values['key']!s:.12} of scenario {scenario_key[:12]} is stored here with other"
                        " numbers.",
                        hint="One of the two is not what was evaluated: check both stores with `sweepdb db check`.",
                    )
