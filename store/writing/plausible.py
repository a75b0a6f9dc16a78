"""Refuses rows that no evaluation makes: negative numbers, parts beyond their whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from store.errors import InputError
from store.loads import PARTS_OF_A_BIN, LoadRecord
from store.records import BlockRecord
from store.schema.declaring import STEP_KINDS
from store.schema.tables import MEASURES

_ROUNDING = 1e-6  # relative: parts are summed in another order than their whole
_CELL_COLUMNS = 7  # two bins, five batches
_PART_COLUMNS = 3  # metric, part, requests
_ORDERED = (
    ("ttft_ms", "e2e_ms"),
    ("decode_step_p50_ms", "decode_step_p90_ms"),
    ("decode_step_p90_ms", "decode_step_p99_ms"),
)


def refuse_impossible(scenario_key: str, record: BlockRecord, replicas: int) -> None:
    """`replicas` batches are in flight in an instance."""
    sizes = np.asarray(record.batch_sizes)
    for wrong, what in _impossible(record, sizes, replicas):
        if wrong.any():
            places = np.flatnonzero(np.ma.filled(wrong, False))
            raise InputError(
                f"No evaluation gives scenario {scenario_key[:12]} at batch size {int(sizes[places[0]])}: {what}.",
                hint="Rows come from sweepdb alone; export them again from the store that evaluated them.",
            )


def refuse_impossible_load(record: LoadRecord) -> None:
    if (what := next(_impossible_load(record), None)) is not None:
        raise InputError(
            f"No simulation gives load {record.key[:12]}: {what}.",
            hint="Loads come from sweepdb alone; export them again from the store that evaluated them.",
        )


def _impossible_load(record: LoadRecord) -> Iterator[str]:
    cells, gaps = np.asarray(record.cells), np.asarray(record.gaps)
    for name in ("arrivals_per_s", "saturation_per_s", "play_seats", "counted_requests"):
        if not getattr(record, name) > 0:
            yield f"{name} is not above zero"
    for name in ("kv_tokens", "rejected", "preempted", "in_flight", "busy_share", "generated_per_s", "ttft_mean_ms",
                 "load_tpot_mean_ms", "outside_ms"):  # fmt: skip
        if not getattr(record, name) >= 0:
            yield f"{name} is below zero"
    if cells.ndim != 2 or cells.shape[1] != _CELL_COLUMNS or gaps.ndim != 2 or gaps.shape[1] != 2:
        yield "its distributions are none"
    elif (cells < 0).any() or (gaps < 0).any():
        yield "a count or a bin is below zero"
    elif int(cells[:, 2:].sum()) + record.rejected != record.counted_requests:
        yield "its cells and rejected requests are not as many as counted_requests"
    elif record.parts is not None and not _parts_add_up(cells, np.asarray(record.parts)):
        yield "the parts of a bin do not add up to it"


def _parts_add_up(cells: np.ndarray, parts: np.ndarray) -> bool:
    if parts.ndim != 2 or parts.shape[1] != _PART_COLUMNS or (parts < 0).any() or (parts[:, 0] > 1).any():
        return False
    bins = parts[:, 1] // PARTS_OF_A_BIN
    for metric in (0, 1):
        mine = parts[:, 0] == metric
        size = int(max(cells[:, metric].max(initial=0), bins.max(initial=0))) + 1
        of_parts = np.bincount(bins[mine], parts[mine, 2], minlength=size)
        of_cells = np.bincount(cells[:, metric], cells[:, 2:].sum(axis=1), minlength=size)
        if (of_parts != of_cells)[of_parts > 0].any():
            return False
    return True


def _impossible(record: BlockRecord, sizes: np.ndarray, replicas: int) -> Iterator[tuple[np.ndarray, str]]:
    columns = record.columns
    for column in MEASURES:
        if (values := columns.get(column.name)) is not None:
            yield values < 0, f"{column.name} is below zero"
    concurrency = columns.get("concurrency")
    if concurrency is not None:
        yield concurrency != sizes * replicas, "concurrency is not batch_size x dp x pp"
    for part, whole in _ORDERED:
        low, high = columns.get(part), columns.get(whole)
        if low is not None and high is not None:
            yield low > high * (1 + _ROUNDING), f"{part} exceeds {whole}"
    for phase in ("prefill", "decode"):
        step = columns.get(f"{phase}_step_ms")
        kinds = [columns.get(f"{phase}_step_{kind}_ms") for kind in STEP_KINDS]
        present = [kind for kind in kinds if kind is not None]
        if step is not None and present:
            summed = np.sum(present, axis=0)
            yield np.abs(summed - step) > _ROUNDING * np.abs(step), f"the parts of {phase}_step_ms do not add up to it"
