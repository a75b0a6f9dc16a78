"""The rows behind the tables as CSV, in the seeds' columns (`--dump-original-results`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from cli.inference.layout import GIB, Row, parallel_label, throughput
from sweepdb.catalogue import effective_input_length
from sweepdb.optimizing import DeviceRun, OptimizerOptions, Table

_HEAD = (
    "device_name", "num_devices", "model_id", "quantize_linear_action", "quantize_attention_action", "input_length",
    "output_length", "effective_input_length", "max_batched_tokens", "prefill_num_chunks", "concurrency",
    "ttft", "tpot", "token/s", "token/s/device", "parallel", "batch_size",
)  # fmt: skip
_MEMORY = ("weight_GB", "kv_cache_GB", "activation_GB", "avail_GB")
_PAIRS = {
    "prefill_plan": "parallel_p", "prefill_batch_size": "batch_size_p", "prefill_concurrency": "concurrency_p",
    "prefill_num_devices": "num_devices_p", "ttft_ms": "ttft_p", "prefill_requests_per_s": "p_qps",
    "decode_plan": "parallel_d", "decode_batch_size": "batch_size_d", "decode_concurrency": "concurrency_d",
    "decode_num_devices": "num_devices_d", "tpot_ms": "tpot_d", "decode_requests_per_s": "d_qps",
    "pd_ratio": "pd_ratio", "balanced_requests_per_s": "balanced_qps",
}  # fmt: skip


def dumped_lines(options: OptimizerOptions, run: DeviceRun) -> Iterator[str]:
    for table in run.tables:
        if table.kind == "pd-ratio":
            rows = table.answer.dicts()
            yield from _as_csv(list(_PAIRS.values()), [[row[name] for name in _PAIRS] for row in rows])
        else:
            columns = _columns(table.kind)
            found = [_cells(options, table.kind, row) for row in _in_order(table)]
            yield from _as_csv(columns, [[cells[name] for name in columns] for cells in found])


def _columns(kind: str) -> list[str]:
    split = ["percentage_breakdowns"]
    if kind == "aggregated":
        split = ["percentage_breakdowns(p)", "percentage_breakdowns(d)"]
    return [*_HEAD, *split, *_MEMORY]


def _in_order(table: Table) -> Sequence[Row]:
    """As searched, by rising rate."""
    plans = list(dict.fromkeys(str(row["scenario"]) for row in table.every))
    return sorted(table.every, key=lambda row: (plans.index(str(row["scenario"])), throughput(row)))


def _cells(options: OptimizerOptions, kind: str, row: Row) -> Mapping[str, object]:
    workload = options.workloads(int(str(row["max_num_batched_tokens"])))[0]
    return {
        "device_name": row["device"],
        "num_devices": row["num_devices"],
        "model_id": options.model,
        "quantize_linear_action": options.experts or options.linear,
        "quantize_attention_action": options.attention,
        "input_length": row["input_length"],
        "output_length": options.output_length,
        "effective_input_length": int(effective_input_length(workload)),
        "max_batched_tokens": row["max_num_batched_tokens"],
        "prefill_num_chunks": 0 if kind == "decode" else int(float(str(row["prefill_chunks"]))),
        "concurrency": row["concurrency"],
        "ttft": _rounded(row["ttft_ms"]),
        "tpot": None if kind == "prefill" else _rounded(row["tpot_ms"]),
        "token/s": _rounded(throughput(row)),
        "token/s/device": _rounded(throughput(row) / int(str(row["num_devices"]))),
        "parallel": parallel_label(row),
        "batch_size": row["batch_size"],
        "percentage_breakdowns": breakdown(row, "decode" if kind == "decode" else "prefill"),
        "percentage_breakdowns(p)": breakdown(row, "prefill"),
        "percentage_breakdowns(d)": breakdown(row, "decode"),
        "weight_GB": _gib(row["weight_bytes"]),
        "kv_cache_GB": _gib(row["kv_cache_mean_bytes"]),
        "activation_GB": _gib(row["activation_bytes"]),
        "avail_GB": _gib(row["memory_free_bytes"]),
    }


def breakdown(row: Row, step: str) -> str:
    """Shares by resource, without fixed costs of launches."""
    kinds = {"Mem": "memory", "Comm": "communication", "Cube": "matrix", "Vec": "vector"}
    values = {name: row[f"{step}_step_{kind}_ms"] for name, kind in kinds.items()}
    known = {name: float(str(value)) for name, value in values.items() if value is not None}
    total = sum(known.values())
    if not total:
        return ""
    return " | ".join(f"{name} {100 * value / total:.2f}" for name, value in known.items())


def _rounded(value: object) -> object:
    return None if value is None else round(float(str(value)), 3)


def _gib(value: object) -> object:
    return round(int(str(value)) / GIB, 3)


def _as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    yield from file.getvalue().splitlines()
