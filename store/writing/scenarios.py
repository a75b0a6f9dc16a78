"""Stores scenarios and their parts once, and tells stored batch intervals."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, select, tuple_, update

from store.errors import InputError
from store.opening import Store
from store.records import (
    ScenarioRecord,
    ScenarioRef,
    SubjectRecord,
    WorkloadRecord,
)
from store.schema.sql_tables import (
    BLOCK,
    DEVICE,
    MODEL,
    MODEL_ALIAS,
    PLAN,
    PRECISION,
    SCENARIO,
    SUBJECT,
    SWEEP_INTERVAL,
    TOMBSTONE,
    WORKLOAD,
    WORKLOAD_BIN,
    WORKLOAD_NAME,
)
from store.schema.tables import TABLES
from store.writing.statements import chunks, insert_missing, utc_now

Row = dict[str, Any]
_PLAN_COLUMNS = TABLES["plan"].unique
_VOIDED = (
    select(SCENARIO.c.key, TOMBSTONE.c.reason, TOMBSTONE.c.voided_at)
    .join(TOMBSTONE, TOMBSTONE.c.scenario_id == SCENARIO.c.id)
    .where(SCENARIO.c.key.in_(bindparam("keys", expanding=True)), TOMBSTONE.c.lifted_at.is_(None))
    .order_by(SCENARIO.c.key)
)
BLOCKS_OF = select(BLOCK.c.scenario_id, BLOCK.c.first_batch_size, BLOCK.c.last_batch_size).where(
    BLOCK.c.scenario_id.in_(bindparam("scenarios", expanding=True))
)
_OUTCOMES = select(SCENARIO.c.id, SCENARIO.c.status, SCENARIO.c.reason).where(
    SCENARIO.c.id.in_(bindparam("scenarios", expanding=True))
)


class Dimensions:
    """Finds or inserts rows; what it learns is kept only after the commit."""

    def __init__(self, store: Store, connection: Connection) -> None:
        self._store = store
        self._connection = connection
        self._learnt: dict[str, dict[Hashable, int]] = {}

    def keep(self) -> None:
        """Call after the commit."""
        for name, ids in self._learnt.items():
            self._store.ids.setdefault(name, {}).update(ids)

    def ids(self, table: Table, rows: Mapping[Hashable, Row], columns: Sequence[str] = ("key",)) -> dict[Hashable, int]:
        known = self._store.ids.get(table.name, {})
        learnt = self._learnt.setdefault(table.name, {})
        missing = [key for key in rows if key not in known and key not in learnt]
        learnt.update(self._find(table, missing, columns))
        # In one order everywhere, so that two writers never wait for each other crosswise.
        absent = sorted((key for key in missing if key not in learnt), key=str)
        insert_missing(self._connection, table, [rows[key] for key in absent])
        learnt.update(self._find(table, absent, columns))
        return {key: known[key] if key in known else learnt[key] for key in rows}

    def is_known(self, table: Table, key: Hashable) -> bool:
        return key in self._store.ids.get(table.name, {})

    def _find(self, table: Table, keys: Sequence[Hashable], columns: Sequence[str]) -> dict[Hashable, int]:
        found: dict[Hashable, int] = {}
        single = len(columns) == 1
        query = _ids_by(table, tuple(columns))
        for chunk in chunks(keys, 500 // len(columns)):
            for row in self._connection.execute(query, {"keys": chunk}):
                found[row[1] if single else tuple(row[1:])] = row[0]
        return found


@functools.cache
def _ids_by(table: Table, columns: tuple[str, ...]) -> Select[Any]:
    named = [table.c[name] for name in columns]
    target: ColumnElement[Any] = named[0] if len(named) == 1 else tuple_(*named)
    return select(table.c.id, *named).where(target.in_(bindparam("keys", expanding=True)))


def put_scenarios(store: Store, sweep_id: int, records: Sequence[ScenarioRecord]) -> list[ScenarioRef]:
    """In the given order.

    A failure replaces a stored outcome; with probes it stays `ok`. InputError for a voided scenario."""
    with store.writing() as connection:
        dimensions = Dimensions(store, connection)
        refuse_voided(connection, [record.key for record in records])
        ids = _scenario_ids(dimensions, connection, records)
        _update_outcomes(connection, records, ids)
        failed = {ids[record.key] for record in records if record.status != "ok"}
        asked = [_interval(sweep_id, scenario_id, 0, 0) for scenario_id in sorted(failed)]
        insert_missing(connection, SWEEP_INTERVAL, asked)
        refs = _refs(connection, ids)
    dimensions.keep()
    return [refs[record.key] for record in records]


def put_workload_rows(
    dimensions: Dimensions, connection: Connection, records: Iterable[WorkloadRecord]
) -> dict[Hashable, int]:
    by_key = {record.key: record for record in records}
    ids = dimensions.ids(WORKLOAD, {key: TABLES["workload"].row_of(record) for key, record in by_key.items()})
    new = [record for key, record in by_key.items() if not dimensions.is_known(WORKLOAD, key)]
    bins = [
        TABLES["workload_bin"].row_of(bin_, workload_id=ids[record.key], bin_index=index)
        for record in new
        for index, bin_ in enumerate(record.bins)
    ]
    insert_missing(connection, WORKLOAD_BIN, bins)
    name_workloads(connection, {record.name: ids[record.key] for record in by_key.values() if record.name})
    return ids


def name_workloads(connection: Connection, names: Mapping[str, int]) -> None:
    rows = [
        TABLES["workload_name"].row_of(None, name=name, workload_id=id_, created_at=utc_now())
        for name, id_ in sorted(names.items())
    ]
    insert_missing(connection, WORKLOAD_NAME, rows)
    for chunk in chunks(names):
        stored = select(WORKLOAD_NAME.c.name, WORKLOAD_NAME.c.workload_id).where(WORKLOAD_NAME.c.name.in_(chunk))
        for name, workload_id in connection.execute(stored):
            if workload_id != names[name]:
                raise InputError(
                    f"The name {name!r} already belongs to another workload of this store.",
                    hint=f"Choose another name; `sweepdb workloads show {name}` shows what it stands for.",
                )


def put_names(store: Store, names: Sequence[tuple[str, str, str]]) -> None:
    with store.writing() as connection:
        models = {row.key: row.id for row in connection.execute(select(MODEL.c.key, MODEL.c.id))}
        workloads = {row.key: row.id for row in connection.execute(select(WORKLOAD.c.key, WORKLOAD.c.id))}
        of_models = TABLES["model_alias"]
        aliases = [
            of_models.row_of(None, alias=name, model_id=models[key])
            for kind, name, key in names
            if kind == "model" and key in models
        ]
        insert_missing(connection, MODEL_ALIAS, aliases)
        named = {name: workloads[key] for kind, name, key in names if kind == "workload" and key in workloads}
        name_workloads(connection, named)


def refuse_voided(connection: Connection, keys: Sequence[str]) -> None:
    for chunk in chunks(keys):
        if voided := connection.execute(_VOIDED, {"keys": chunk}).first():
            key, reason, when = voided
            raise InputError(
                f"The scenario {key[:12]} was voided on {when:%Y-%m-%d}: {reason}",
                hint=f"To use it again, run: sweepdb unvoid {key[:12]}",
            )


def _scenario_ids(dimensions: Dimensions, connection: Connection, records: Sequence[ScenarioRecord]) -> dict[str, int]:
    subjects = {record.subject.key: record.subject for record in records}
    used = {record.device.key: record.device for record in records}
    devices = dimensions.ids(DEVICE, {key: TABLES["device"].row_of(device) for key, device in used.items()})
    subject_ids = _subject_ids(dimensions, connection, subjects.values())
    rows: dict[Hashable, Row] = {
        record.key: TABLES["scenario"].row_of(
            record,
            subject_id=subject_ids[record.subject.key],
            device_id=devices[record.device.key],
            created_at=utc_now(),
        )
        for record in records
    }
    ids = dimensions.ids(SCENARIO, rows)
    return {record.key: ids[record.key] for record in records}


def _subject_ids(
    dimensions: Dimensions, connection: Connection, subjects: Iterable[SubjectRecord]
) -> dict[Hashable, int]:
    subjects = list(subjects)
    named = {(item.model.name, item.model.key): item.model for item in subjects}
    models = dimensions.ids(MODEL, {key: TABLES["model"].row_of(model) for (_, key), model in named.items()})
    aliases = {(name, models[key]) for name, key in named}
    of_models = TABLES["model_alias"]
    insert_missing(
        connection, MODEL_ALIAS, [of_models.row_of(None, alias=alias, model_id=id_) for alias, id_ in sorted(aliases)]
    )
    formats = {item.precision.key: item.precision for item in subjects}
    precisions = dimensions.ids(PRECISION, {key: TABLES["precision"].row_of(one) for key, one in formats.items()})
    # By identity: records of one sweep share their plans, and a plan's key is all of its columns.
    keys = {id(item.plan): (tuple(getattr(item.plan, name) for name in _PLAN_COLUMNS), item.plan) for item in subjects}
    plans = dimensions.ids(PLAN, {key: TABLES["plan"].row_of(plan) for key, plan in keys.values()}, _PLAN_COLUMNS)
    workloads = put_workload_rows(dimensions, connection, (item.workload for item in subjects))
    rows: dict[Hashable, Row] = {
        item.key: TABLES["subject"].row_of(
            item,
            model_id=models[item.model.key],
            precision_id=precisions[item.precision.key],
            plan_id=plans[keys[id(item.plan)][0]],
            workload_id=workloads[item.workload.key],
        )
        for item in subjects
    }
    return dimensions.ids(SUBJECT, rows)


def _update_outcomes(connection: Connection, records: Sequence[ScenarioRecord], ids: Mapping[str, int]) -> None:
    """Unless probes say that they are fine.

    A stored failure asked again as `ok` keeps its outcome until its first block (store.writing)."""
    failures = {ids[record.key]: record for record in records if record.status != "ok"}
    stored = select(SCENARIO.c.id, SCENARIO.c.status, SCENARIO.c.reason, SCENARIO.c.assumptions)
    for chunk in chunks(sorted(failures)):
        with_probes = set(
            connection.scalars(select(BLOCK.c.scenario_id).where(BLOCK.c.scenario_id.in_(chunk)).distinct())
        )
        # Held in the order of ids, as writers of blocks hold them.
        held = stored.where(SCENARIO.c.id.in_(chunk)).order_by(SCENARIO.c.id).with_for_update()
        for scenario_id, *outcome in connection.execute(held).all():
            record = failures[scenario_id]
            status = "ok" if scenario_id in with_probes else record.status
            if outcome != [status, record.reason, record.assumptions]:
                change = {"status": status, "reason": record.reason, "assumptions": record.assumptions}
                connection.execute(update(SCENARIO).where(SCENARIO.c.id == scenario_id).values(change))


def _refs(connection: Connection, ids: Mapping[str, int]) -> dict[str, ScenarioRef]:
    known: dict[int, list[tuple[int, int]]] = {}
    outcome: dict[int, tuple[Any, str | None]] = {}
    for chunk in chunks(ids.values()):
        for scenario_id, first, last in connection.execute(BLOCKS_OF, {"scenarios": chunk}):
            known.setdefault(scenario_id, []).append((first, last))
        outcome.update({id_: end for id_, *end in connection.execute(_OUTCOMES, {"scenarios": chunk})})
    return {
        key: ScenarioRef(
            id=id_, key=key, known=merge_intervals(known.get(id_, [])), status=outcome[id_][0], reason=outcome[id_][1]
        )
        for key, id_ in ids.items()
    }


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Overlapping or touching ones join, ascending."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def missing_intervals(wanted: tuple[int, int], known: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    missing: list[tuple[int, int]] = []
    start = wanted[0]
    for first, last in merge_intervals(known):
        if first > wanted[1]:
            break
        if first > start:
            missing.append((start, first - 1))
        start = max(start, last + 1)
    if start <= wanted[1]:
        missing.append((start, wanted[1]))
    return missing


def _interval(sweep_id: int, scenario_id: int, first: int, last: int) -> Row:
    return {
        "sweep_id": sweep_id,
        "scenario_id": scenario_id,
        "first_batch_size": first,
        "last_batch_size": last,
    }
