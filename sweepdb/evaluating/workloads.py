"""Named workloads into the store and back."""

from __future__ import annotations

import json
import re
from pathlib import Path

from evaluator.identity import workload_record
from evaluator.inputs import Workload, load_distribution, mean_output_length, read_trace, workload_of
from evaluator.restore import restored
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.records import WorkloadRecord
from store.writing import get_workload, list_workloads, put_workload

Table = tuple[list[str], list[list[object]]]


def stored_workload(name: str, store_url: str | None) -> Workload:
    with open_store(store_url) as store:
        record = get_workload(store, name)
    workload: Workload = restored(record.spec)
    return workload_of(
        input_length=workload.input_length,
        output_length=workload.output_length,
        bins=workload.bins,
        prefix_cache_hit_rate=workload.prefix_cache_hit_rate,
        max_batched_tokens=workload.max_batched_tokens,
        mtp_tokens=workload.mtp_tokens,
        mtp_acceptance=workload.mtp_acceptance or None,
        name=name,
        tiers=workload.tiers,
    )


def add_workload(
    name: str,
    store_url: str | None,
    *,
    input_length: str | None,
    output_length: float | None,
    trace: Path | None,
    trace_bins: int,
    prefix_cache_hit_rate: float,
    max_batched_tokens: int,
    mtp_tokens: int = 0,
    mtp_acceptance: tuple[float, ...] | None = None,
) -> str:
    """Of a trace its bins and hash. Returns a sentence."""
    _check_name(name)
    summary = None
    if trace is not None:
        if output_length is not None:
            raise InputError("a trace brings its own output lengths: drop `output_length`")
        summary = read_trace(trace, input_bins=trace_bins)
        bins, fixed = summary.bins, None
    elif input_length is not None and input_length.isdecimal():
        bins, fixed = (), int(input_length)
    else:
        bins, fixed = load_distribution(Path(str(input_length)), output_length=output_length), None
    if fixed is not None and output_length is None:
        raise InputError("`output_length` is missing")
    workload = workload_of(
        input_length=fixed,
        output_length=mean_output_length(bins) if bins else float(output_length or 0),
        bins=bins,
        prefix_cache_hit_rate=prefix_cache_hit_rate,
        max_batched_tokens=max_batched_tokens,
        mtp_tokens=mtp_tokens,
        mtp_acceptance=mtp_acceptance,
        name=name,
    )
    create_if_missing(parse_url(store_url))
    record = workload_record(workload, trace=summary)
    with open_store(store_url) as store:
        put_workload(store, record)
    return _described(record)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise InputError(
            f"{name!r} is no name for a workload", hint="letters, digits, dots, dashes and underscores, at most 100"
        )


def _described(record: WorkloadRecord) -> str:
    text = f"workload {record.name}: {record.label}, mean prompt {record.input_length_mean:.0f} tokens"
    trace = json.loads(record.spec).get("trace")
    if trace is not None:
        text += f", from a trace of {trace['requests']:,} requests"
        text += f" ({trace['skipped']:,} more without prompt or output)" if trace["skipped"] else ""
        text += f", sha256 {trace['sha256']}"
    return text


def listed_workloads(store_url: str | None) -> Table:
    with open_store(store_url) as store:
        found = [item for item in list_workloads(store) if item.name is not None]
    columns = ["name", "label", "bins", "input_length_mean", "output_length"]
    return columns, [[item.name, item.label, item.bins, item.input_length_mean, item.output_length] for item in found]


def shown_workload(name: str, store_url: str | None) -> tuple[str, Table]:
    with open_store(store_url) as store:
        record = get_workload(store, name)
    return _described(record), _bins(record)


def _bins(record: WorkloadRecord) -> Table:
    columns = ["bin", "min_input_length", "max_input_length", "input_length", "output_length", "weight", "hit_rate"]
    if record.input_length is not None:
        length = record.input_length
        return columns, [[0, length, length, length, record.output_length, 1.0, record.prefix_cache_hit_rate]]
    return columns, [
        [i, b.min_input_length, b.max_input_length, b.input_length, b.output_length, b.weight, b.prefix_cache_hit_rate]
        for i, b in enumerate(record.bins)
    ]
