"""Brings a bundle into a store: sweeps, scenarios and probes that are not there yet. Importing again adds nothing.

What was a request there is an import here, so that it never becomes what a question without filters is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from queries.bundle import Bundle, BundledSweep, BundleSummary
from store.errors import InputError
from store.schema import MEASURES

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from store.opening import Store
    from store.records import BlockRecord, ScenarioRef, SweepOutcome


def add_bundle(store: Store, folder: Path) -> BundleSummary:
    """Add what a bundle holds; the summary counts what was added."""
    from store.sealing import seal
    from store.writing import finish_sweep, put_scenarios

    bundle = Bundle(folder)
    records, sweeps = bundle.scenarios(), list(bundle.sweeps())
    unknown = {key for sweep in sweeps for key, _, _ in sweep.intervals} - set(records)
    if unknown:
        raise InputError(
            f"{folder}: sweeps.jsonl asks for {len(unknown)} scenarios that scenarios.jsonl lacks",
            hint="copy the whole bundle again, or export it again",
        )
    known, ended_before = _known_sweeps(store)
    ids = {sweep.record.key: known.get(sweep.record.key) or _begin(store, sweep) for sweep in sweeps}
    refs: dict[str, ScenarioRef] = {}
    for sweep in sweeps:
        keys = list(dict.fromkeys(key for key, _, _ in sweep.intervals))
        for ref in put_scenarios(store, ids[sweep.record.key], [records[key] for key in keys]):
            refs[ref.key] = ref
    added = _put_probes(store, bundle, sweeps, ids, refs)
    for sweep in sweeps:
        if sweep.record.key not in ended_before:
            ended: SweepOutcome = "finished" if sweep.status == "finished" else "interrupted"
            finish_sweep(store, ids[sweep.record.key], ended, finished_at=sweep.finished_at)
    seal(store)
    return BundleSummary(sweeps=len(set(ids) - set(known)), scenarios=len(refs), probes=added)


def _known_sweeps(store: Store) -> tuple[dict[str, int], set[str]]:
    """Sweeps that are there by key, and which of them ended; the others are what a killed import left."""
    from sqlalchemy import select

    from store.schema import SWEEP

    with store.reading() as connection:
        rows = connection.execute(select(SWEEP.c.key, SWEEP.c.id, SWEEP.c.status)).all()
    return {row[0]: row[1] for row in rows}, {row[0] for row in rows if row[2] in {"finished", "failed"}}


def _begin(store: Store, sweep: BundledSweep) -> int:
    from store.writing import begin_sweep

    record = sweep.record if sweep.record.kind == "validation" else replace(sweep.record, kind="import")
    return begin_sweep(store, record, held=False)  # thousands of locks would be too many


def _put_probes(
    store: Store,
    bundle: Bundle,
    sweeps: Sequence[BundledSweep],
    ids: dict[str, int],
    refs: dict[str, ScenarioRef],
) -> int:
    from store.writing import put_block, record_interval

    compositions = bundle.compositions()
    askers = {key: ids[sweep.record.key] for sweep in sweeps for key, _, _ in sweep.intervals}
    added = 0
    for scenario, first_sweep, cursor in bundle.blocks():
        # A sweep's own bundle may hold probes that an earlier sweep stored: they then come in with this one.
        sweep_id = ids.get(first_sweep, askers[scenario])
        for block in _blocks(_arrays(cursor), compositions.get(scenario, [])):
            added += put_block(store, sweep_id, refs[scenario].id, block)
    for sweep in sweeps:
        for key, first, last in sweep.intervals:
            if first > 0:
                try:
                    record_interval(store, ids[sweep.record.key], refs[key].id, first, last)
                except InputError:
                    continue  # voided rows are not in a bundle, so what was asked for may not be there whole
    return added


def _blocks(columns: Mapping[str, np.ndarray], composition: Sequence[tuple[int, int, int]]) -> Iterator[BlockRecord]:
    """Runs of consecutive batch sizes."""
    import numpy as np

    from store.records import BlockRecord

    sizes = np.asarray(columns["batch_size"]).astype(int)
    starts = [0, *(np.flatnonzero(np.diff(sizes) != 1) + 1), len(sizes)]
    for start, stop in pairwise(starts):
        first, last = int(sizes[start]), int(sizes[stop - 1])
        mine = [item for item in composition if first <= item[0] <= last]
        parts = tuple(np.array(values) for values in zip(*mine, strict=True)) if mine else None
        yield BlockRecord(
            batch_sizes=sizes[start:stop],
            columns={column.name: _values(columns[column.name][start:stop]) for column in MEASURES},
            composition=None if parts is None else (parts[0], parts[1], parts[2]),
        )


def _arrays(cursor: duckdb.DuckDBPyConnection) -> dict[str, np.ndarray]:
    """A cursor's rows as one array a column, NaN where missing."""
    import numpy as np

    names = [str(item[0]) for item in cursor.description or ()]
    columns = zip(*cursor.fetchall(), strict=True)
    return {
        name: np.array([np.nan if value is None else value for value in values])
        for name, values in zip(names, columns, strict=True)
    }


def _values(values: np.ndarray) -> np.ndarray | None:
    import numpy as np

    return None if values.dtype.kind == "f" and np.isnan(values).all() else values
