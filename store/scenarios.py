"""Stores scenarios and what they are made of, once each, and says which of their batch intervals are already there.

Not here: probes (store.writing)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, tuple_, update

from store.errors import InputError
from store.opening import Store
from store.records import (
    DeviceRecord,
    ModelRecord,
    PlanRecord,
    ScenarioRecord,
    ScenarioRef,
    SubjectRecord,
    WorkloadRecord,
)
from store.schema import (
    Base,
    Block,
    Device,
    Model,
    ModelAlias,
    Plan,
    Precision,
    Scenario,
    Subject,
    SweepInterval,
    Tombstone,
    Workload,
    WorkloadBin,
    WorkloadName,
)
from store.statements import chunks, insert_missing, utc_now

Row = dict[str, Any]
_PLAN_COLUMNS = ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")


class Dimensions:
    """Finds or inserts dimension rows inside one transaction; what it learns is kept only once that has committed."""

    def __init__(self, store: Store, connection: Connection) -> None:
        self._store = store
        self._connection = connection
        self._learnt: dict[str, dict[Hashable, int]] = {}

    def keep(self) -> None:
        """Remember the ids for the next transaction; call after the commit."""
        for table, ids in self._learnt.items():
            self._store.ids.setdefault(table, {}).update(ids)

    def ids(
        self, model: type[Base], rows: Mapping[Hashable, Row], columns: Sequence[str] = ("key",)
    ) -> dict[Hashable, int]:
        """Return the integer id of every row, inserting the rows that are not there. Keys are values of `columns`."""
        known = self._store.ids.get(model.__tablename__, {})
        learnt = self._learnt.setdefault(model.__tablename__, {})
        missing = [key for key in rows if key not in known and key not in learnt]
        learnt.update(self._find(model, missing, columns))
        # In one order everywhere, so that two writers never wait for each other crosswise.
        absent = sorted((key for key in missing if key not in learnt), key=str)
        insert_missing(self._connection, model, [rows[key] for key in absent])
        learnt.update(self._find(model, absent, columns))
        return {key: known[key] if key in known else learnt[key] for key in rows}

    def is_known(self, model: type[Base], key: Hashable) -> bool:
        """Say whether an earlier transaction has already stored a row."""
        return key in self._store.ids.get(model.__tablename__, {})

    def _find(self, model: type[Base], keys: Sequence[Hashable], columns: Sequence[str]) -> dict[Hashable, int]:
        table = model.__table__
        found: dict[Hashable, int] = {}
        single = len(columns) == 1
        target: ColumnElement[Any] = table.c[columns[0]] if single else tuple_(*(table.c[name] for name in columns))
        selected = [table.c.id, *(table.c[name] for name in columns)]
        for chunk in chunks(keys, 100):
            for row in self._connection.execute(select(*selected).where(target.in_(chunk))):
                found[row[1] if single else tuple(row[1:])] = row[0]
        return found


def put_scenarios(store: Store, sweep_id: int, records: Sequence[ScenarioRecord]) -> list[ScenarioRef]:
    """Store scenarios in one transaction and return them in the given order.

    A failing scenario is recorded as asked for, and its outcome replaces a stored one; with probes it stays `ok`.
    Raises InputError when a scenario has been voided."""
    with store.writing() as connection:
        dimensions = Dimensions(store, connection)
        refuse_voided(connection, [record.key for record in records])
        ids = _scenario_ids(dimensions, connection, records)
        _update_outcomes(connection, records, ids)
        failed = {ids[record.key] for record in records if record.status != "ok"}
        asked = [_interval(sweep_id, scenario_id, 0, 0) for scenario_id in sorted(failed)]
        insert_missing(connection, SweepInterval, asked)
        refs = _refs(connection, ids)
    dimensions.keep()
    return [refs[record.key] for record in records]


def put_workload_rows(
    dimensions: Dimensions, connection: Connection, records: Iterable[WorkloadRecord]
) -> dict[Hashable, int]:
    """Store workloads with their bins and names, and return their ids by key."""
    by_key = {record.key: record for record in records}
    ids = dimensions.ids(Workload, {key: _workload_row(record) for key, record in by_key.items()})
    new = [record for key, record in by_key.items() if not dimensions.is_known(Workload, key)]
    bins = [
        {"workload_id": ids[record.key], "bin_index": index, **_fields(bin_)}
        for record in new
        for index, bin_ in enumerate(record.bins)
    ]
    insert_missing(connection, WorkloadBin, bins)
    _name_workloads(connection, {record.name: ids[record.key] for record in by_key.values() if record.name})
    return ids


def _name_workloads(connection: Connection, names: Mapping[str, int]) -> None:
    rows = [{"name": name, "workload_id": id_, "created_at": utc_now()} for name, id_ in sorted(names.items())]
    insert_missing(connection, WorkloadName, rows)
    for chunk in chunks(names):
        stored = select(WorkloadName.name, WorkloadName.workload_id).where(WorkloadName.name.in_(chunk))
        for name, workload_id in connection.execute(stored):
            if workload_id != names[name]:
                raise InputError(
                    f"The name {name!r} already belongs to another workload of this store.",
                    hint=f"Choose another name; `sweepdb workloads show {name}` shows what it stands for.",
                )


def refuse_voided(connection: Connection, keys: Sequence[str]) -> None:
    """Raise when one of the scenarios is voided, naming what brings it back."""
    for chunk in chunks(keys):
        query = (
            select(Scenario.key, Tombstone.reason, Tombstone.voided_at)
            .join(Tombstone, Tombstone.scenario_id == Scenario.id)
            .where(Scenario.key.in_(chunk), Tombstone.lifted_at.is_(None))
            .order_by(Scenario.key)
        )
        if voided := connection.execute(query).first():
            key, reason, when = voided
            raise InputError(
                f"The scenario {key[:12]} was voided on {when:%Y-%m-%d}: {reason}",
                hint=f"To use it again, run: sweepdb unvoid {key[:12]}",
            )


def _scenario_ids(dimensions: Dimensions, connection: Connection, records: Sequence[ScenarioRecord]) -> dict[str, int]:
    subjects = {record.subject.key: record.subject for record in records}
    devices = dimensions.ids(Device, {record.device.key: _device_row(record.device) for record in records})
    subject_ids = _subject_ids(dimensions, connection, subjects.values())
    rows: dict[Hashable, Row] = {
        record.key: {
            "key": record.key,
            "subject_id": subject_ids[record.subject.key],
            "device_id": devices[record.device.key],
            "formula_version": record.formula_version,
            "status": record.status,
            "reason": record.reason,
            "assumptions": record.assumptions,
            "launchable_by": record.launchable_by,
            "created_at": utc_now(),
        }
        for record in records
    }
    ids = dimensions.ids(Scenario, rows)
    return {record.key: ids[record.key] for record in records}


def _subject_ids(
    dimensions: Dimensions, connection: Connection, subjects: Iterable[SubjectRecord]
) -> dict[Hashable, int]:
    subjects = list(subjects)
    models = dimensions.ids(Model, {item.model.key: _model_row(item.model) for item in subjects})
    aliases = {(item.model.name, models[item.model.key]) for item in subjects}
    insert_missing(connection, ModelAlias, [{"alias": alias, "model_id": id_} for alias, id_ in sorted(aliases)])
    precisions = dimensions.ids(Precision, {item.precision.key: _fields(item.precision) for item in subjects})
    plans = dimensions.ids(Plan, {_plan_key(item.plan): _plan_row(item.plan) for item in subjects}, _PLAN_COLUMNS)
    workloads = put_workload_rows(dimensions, connection, (item.workload for item in subjects))
    rows: dict[Hashable, Row] = {
        item.key: {
            "key": item.key,
            "model_id": models[item.model.key],
            "device_name": item.device_name,
            "precision_id": precisions[item.precision.key],
            "plan_id": plans[_plan_key(item.plan)],
            "workload_id": workloads[item.workload.key],
            "phase": item.phase,
            "convention": item.convention,
            "compile": item.compile,
            "serving_model": item.serving_model,
            "serving_cost_ms": item.serving_cost_ms,
            "shortest_length": item.shortest_length,
            "prompts_per_user": item.prompts_per_user,
            "poll_steps": item.poll_steps,
            "seats": item.seats,
            "wait_steps": item.wait_steps,
            "routing": item.routing,
            "unusual_service": item.unusual_service,
        }
        for item in subjects
    }
    return dimensions.ids(Subject, rows)


def _update_outcomes(connection: Connection, records: Sequence[ScenarioRecord], ids: Mapping[str, int]) -> None:
    """Give stored scenarios the outcome asked for now, unless probes say that they are fine.

    A stored failure asked for again as `ok` keeps its outcome until its first block arrives (store.writing)."""
    failures = {ids[record.key]: record for record in records if record.status != "ok"}
    stored = select(Scenario.id, Scenario.status, Scenario.reason, Scenario.assumptions)
    for chunk in chunks(failures):
        with_probes = set(connection.scalars(select(Block.scenario_id).where(Block.scenario_id.in_(chunk)).distinct()))
        for scenario_id, *outcome in connection.execute(stored.where(Scenario.id.in_(chunk))).all():
            record = failures[scenario_id]
            status = "ok" if scenario_id in with_probes else record.status
            if outcome != [status, record.reason, record.assumptions]:
                change = {"status": status, "reason": record.reason, "assumptions": record.assumptions}
                connection.execute(update(Scenario).where(Scenario.id == scenario_id).values(change))


def _refs(connection: Connection, ids: Mapping[str, int]) -> dict[str, ScenarioRef]:
    known: dict[int, list[tuple[int, int]]] = {}
    outcome: dict[int, tuple[Any, str | None]] = {}
    for chunk in chunks(ids.values()):
        blocks = select(Block.scenario_id, Block.first_batch_size, Block.last_batch_size)
        for scenario_id, first, last in connection.execute(blocks.where(Block.scenario_id.in_(chunk))):
            known.setdefault(scenario_id, []).append((first, last))
        outcomes = select(Scenario.id, Scenario.status, Scenario.reason).where(Scenario.id.in_(chunk))
        outcome.update({row.id: (row.status, row.reason) for row in connection.execute(outcomes)})
    return {
        key: ScenarioRef(
            id=id_, key=key, known=merge_intervals(known.get(id_, [])), status=outcome[id_][0], reason=outcome[id_][1]
        )
        for key, id_ in ids.items()
    }


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Join intervals of integers that overlap or touch, in ascending order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def missing_intervals(wanted: tuple[int, int], known: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of an interval that no known interval covers, in ascending order."""
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


def _fields(record: Any) -> Row:  # noqa: ANN401 - any frozen record of store.records
    return {name: getattr(record, name) for name in record.__slots__}


def _model_row(record: ModelRecord) -> Row:
    return _fields(record)


def _device_row(record: DeviceRecord) -> Row:
    return _fields(record)


def _plan_key(record: PlanRecord) -> tuple[int, ...]:
    return tuple(getattr(record, name) for name in _PLAN_COLUMNS)


def _plan_row(record: PlanRecord) -> Row:
    return {**_fields(record), "num_devices": record.num_devices}


def _workload_row(record: WorkloadRecord) -> Row:
    row = _fields(record)
    del row["bins"]
    return row
