"""Adds what a bundle has and a store lacks, in one step or not at all.

Requests become imports, which questions without filters pass over. Operators are traced again: forged ones would price
later evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluator.arrivals import is_stream, load_key
from evaluator.graph import CaptureRequest, operators_text
from evaluator.ledger import rekeyed
from evaluator.together import captures
from queries.bundles import Bundle, BundledBlock, BundledSweep, BundleSummary
from store import schema, sealing, writing
from store.digests import DigestedRows, rows_digest
from store.errors import InputError, SweepdbError
from store.opening import Store
from store.records import BlockRecord, OperatorSetRecord, ScenarioRecord, ScenarioRef
from store.schema import MEASURES, SweepOutcome
from store.writing import get_operators
from sweepdb.restoring import planned_of
from sweepdb.sharing.believable import refuse_unbelievable_load

RowCheck = Callable[[ScenarioRecord, BlockRecord], None]
_COPY_AGAIN = "nothing was taken in; copy the whole bundle again, or export it again"


def add_bundle(store: Store, bundle: Bundle, refuse_row: RowCheck | None = None) -> BundleSummary:
    """Counts what was added. `refuse_row` raises where a block does not fit its scenario."""
    try:
        with store.together():
            summary = _add(store, bundle, refuse_row)
    except InputError as error:
        raise InputError(error.message, hint=error.hint or _COPY_AGAIN) from error
    sealing.seal(store)
    return summary


def _add(store: Store, bundle: Bundle, refuse_row: RowCheck | None) -> BundleSummary:
    records, sweeps = bundle.scenarios(), list(bundle.sweeps())
    unknown = {key for sweep in sweeps for key, _, _ in sweep.intervals} - set(records)
    if unknown:
        raise InputError(
            f"sweeps.jsonl asks for {len(unknown)} scenarios that scenarios.jsonl lacks",
        )
    known, ended_before = _known_sweeps(store)
    ids = {sweep.record.key: known.get(sweep.record.key) or _begin(store, sweep) for sweep in sweeps}
    refs: dict[str, ScenarioRef] = {}
    for sweep in sweeps:
        keys = list(dict.fromkeys(key for key, _, _ in sweep.intervals))
        for ref in writing.put_scenarios(store, ids[sweep.record.key], [records[key] for key in keys]):
            refs[ref.key] = ref
    writing.put_names(store, bundle.names())
    added = _put_probes(store, _believed(bundle, records, refuse_row), sweeps, ids, refs)
    for sweep in sweeps:
        if sweep.record.key not in ended_before:
            ended: SweepOutcome = "finished" if sweep.status == "finished" else "interrupted"
            writing.finish_sweep(store, ids[sweep.record.key], ended, finished_at=sweep.finished_at)
    _put_beside(store, bundle, records.values(), refs)
    loads = _put_loads(store, bundle, ids, refs)
    new = len(set(ids) - set(known))
    return BundleSummary(sweeps=new, scenarios=len(refs), probes=added, loads=loads)


def _known_sweeps(store: Store) -> tuple[dict[str, int], set[str]]:
    """By key, and those that ended; a killed import left the others."""
    from sqlalchemy import select

    with store.writing() as connection:
        rows = connection.execute(select(schema.SWEEP.c.key, schema.SWEEP.c.id, schema.SWEEP.c.status)).all()
    return {row[0]: row[1] for row in rows}, {row[0] for row in rows if row[2] in {"finished", "failed"}}


def _begin(store: Store, sweep: BundledSweep) -> int:
    record = sweep.record if sweep.record.kind == "validation" else replace(sweep.record, kind="import")
    return writing.begin_sweep(store, record, held=False)  # thousands of locks would be too many


def _put_beside(
    store: Store, bundle: Bundle, scenarios: Iterable[ScenarioRecord], refs: Mapping[str, ScenarioRef]
) -> None:
    writing.put_operators(store, traced_again(store, scenarios, bundle.operators()))
    for calibration in bundle.calibrations():
        writing.put_calibration(store, calibration)
    known = {(price.device_name, price.effective_from) for price in writing.get_prices(store)}
    writing.put_prices(store, [one for one in bundle.prices() if (one.device_name, one.effective_from) not in known])
    measured = {one.key: rekeyed(one) for one in bundle.measurements()}
    writing.put_measurements(store, list(measured.values()))
    writing.put_validations(
        store,
        [
            replace(one, measurement_key=measured[one.measurement_key].key)
            for one in bundle.validations()
            if one.scenario_key in refs and one.measurement_key in measured
        ],
    )


def _believed(
    bundle: Bundle, records: Mapping[str, ScenarioRecord], refuse_row: RowCheck | None
) -> Iterator[tuple[BundledBlock, BlockRecord]]:
    for block in bundle.blocks():
        if block.scenario not in records:
            raise InputError(f"scenario {block.scenario[:12]} has rows, but scenarios.jsonl lacks it")
        made = block_record(block)
        if refuse_row is not None:
            refuse_row(records[block.scenario], made)
        yield block, made


def _put_probes(
    store: Store,
    blocks: Iterable[tuple[BundledBlock, BlockRecord]],
    sweeps: Sequence[BundledSweep],
    ids: Mapping[str, int],
    refs: Mapping[str, ScenarioRef],
) -> int:
    askers = {key: ids[sweep.record.key] for sweep in sweeps for key, _, _ in sweep.intervals}
    added = 0
    for block, record in blocks:
        if block.scenario not in refs:
            raise InputError(f"scenario {block.scenario[:12]} has rows, but no sweep of the bundle asked for it")
        ref = refs[block.scenario]
        if ref.known:
            writing.require_same(store, ref.id, ref.key, record)
        # A sweep's own bundle may hold probes that an earlier sweep stored: they then come in with this one.
        added += writing.put_block(store, ids.get(block.sweep, askers[block.scenario]), ref.id, record)
    for sweep in sweeps:
        for key, first, last in sweep.intervals:
            if first > 0:
                try:
                    writing.record_interval(store, ids[sweep.record.key], refs[key].id, first, last)
                except InputError:
                    continue  # voided rows are not in a bundle, so what was asked for may not be there whole
    return added


def _put_loads(store: Store, bundle: Bundle, ids: Mapping[str, int], refs: Mapping[str, ScenarioRef]) -> int:
    """Derived values are computed again, present ones compared."""
    added, any_sweep = 0, next(iter(ids.values()), None)
    for block in bundle.loads():
        if block.scenario not in refs or any_sweep is None:
            raise InputError(f"scenario {block.scenario[:12]} has loads, but no sweep of the bundle asked for it")
        if not is_stream(block.arrival):
            raise InputError(f"stream {block.arrival.key[:12]} is not what an evaluation stores: its key is another")
        for load in block.loads:
            if load.key != load_key(load.settings_key, load.arrivals_per_s):
                raise InputError(f"load {load.key[:12]} is not what an evaluation stores: its key is another")
            refuse_unbelievable_load(load)
        ref = refs[block.scenario]
        writing.require_same_loads(store, ref.key, block.arrival.key, block.loads)
        added += writing.put_loads(store, ids.get(block.sweep, any_sweep), ref.id, block.arrival, block.loads)
    return added


def block_record(block: BundledBlock) -> BlockRecord:
    """Must match its digest."""
    sizes = np.asarray(block.rows["batch_size"]).astype(np.int64)
    columns = {column.name: _values(block.rows[column.name]) for column in MEASURES}
    if rows_digest(block.scenario, DigestedRows.of_columns(sizes, columns), block.composition) != block.digest:
        raise InputError(f"The rows of scenario {block.scenario[:12]} are not those that were exported.")
    return BlockRecord(batch_sizes=sizes, columns=columns, composition=block.composition)


def _values(values: np.ndarray) -> np.ndarray | None:
    """NaN where missing, None where missing everywhere."""
    mask = np.ma.getmaskarray(values)
    if mask.all():
        return None
    if not mask.any():
        return np.asarray(np.ma.getdata(values))
    return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))


def traced_again(
    store: Store, scenarios: Iterable[ScenarioRecord], operators: Iterable[OperatorSetRecord]
) -> list[OperatorSetRecord]:
    """Only those needed; raises where this program has others.

    Operators that the bundle does not need could price other scenarios, so they stay out."""
    requests = {request.key: request for record in scenarios for request in _requests(record)}
    wanted = [one for one in operators if one.key in requests]
    known = get_operators(store, [one.key for one in wanted])
    for one in wanted:
        if (known.get(one.key) or operators_text(requests[one.key])[0]) != one.payload:
            raise _others(one)
    return [one for one in wanted if one.key not in known]


def _requests(record: ScenarioRecord) -> Iterable[CaptureRequest]:
    try:
        return captures(planned_of(record)).values()
    except SweepdbError:  # a scenario that failed, or one that only another release evaluates
        return ()


def _others(record: OperatorSetRecord) -> InputError:
    return InputError(
        f"operators {record.key[:12]} are not what this program traces",
        hint="nothing of the bundle was taken in; evaluate its scenarios here instead",
    )
