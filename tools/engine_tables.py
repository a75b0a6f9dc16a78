"""Kernel tables measured inside engines, in our columns.

Fits: tools.engine_kernels, tools.partial_calibrations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import duckdb
import numpy as np

from evaluator.calibration import KernelTable

_LIBRARY = (
    "'nccl_' || op_name AS op, num_gpus AS ngpus,"
    " message_size * CASE nccl_dtype WHEN 'half' THEN 2 ELSE 1 END AS message_bytes"
)
# Our table and its columns, by the name of theirs. Latencies are milliseconds there.
TABLES: Mapping[str, tuple[str, str]] = {
    "gemm_perf": ("gemm", "m, n, k, gemm_dtype AS dtype"),
    "moe_perf": (
        "moe",
        (
            "num_tokens AS tokens, hidden_size AS hidden, inter_size AS inter, topk, num_experts AS experts,"
            " moe_tp_size AS tp, moe_ep_size AS ep, moe_dtype AS dtype, kernel_source AS kernel, distribution"
        ),
    ),
    "context_attention_perf": (
        "attn_prefill",
        (
            "batch_size AS batch, isl, step AS prefix, num_heads AS heads, num_key_value_heads AS kv_heads, head_dim,"
            " window_size, attn_dtype AS dtype, kv_cache_dtype AS kv_dtype"
        ),
    ),
    "generation_attention_perf": (
        "attn_decode",
        (
            "batch_size AS batch, isl + step AS kv_len, num_heads AS heads, num_key_value_heads AS kv_heads, head_dim,"
            " window_size, kv_cache_dtype AS kv_dtype"
        ),
    ),
    "context_mla_perf": (
        "mla",
        "'prefill' AS phase, batch_size AS batch, isl AS len, num_heads AS heads, kv_cache_dtype AS kv_dtype",
    ),
    "generation_mla_perf": (
        "mla",
        "'decode' AS phase, batch_size AS batch, isl + step AS len, num_heads AS heads, kv_cache_dtype AS kv_dtype",
    ),
    "mla_bmm_perf": ("mla_bmm", "op_name, num_tokens AS tokens, num_heads AS heads, bmm_dtype AS dtype"),
    # Messages are counted in numbers there, of 16 bits or 8.
    "custom_allreduce_perf": (
        "comm",
        "'custom_allreduce' AS op, num_gpus AS ngpus, 2 * message_size AS message_bytes",
    ),
    "nccl_perf": ("comm", _LIBRARY),
    "oneccl_perf": ("comm", _LIBRARY),
}
# Implementations that SGLang has of one operator, the one first that it runs where it can. Rows of later ones are left
# out of a format that an earlier one was measured in; those that are not here are kernels of their own.
CHOSEN_FIRST = (
    "trtllm_mha", "fa3", "sglang_flashinfer_trtllm_moe", "sglang_mxfp4_flashinfer_trtllm_moe",
    "sglang_fused_moe_triton", "flashinfer", "triton", "sglang_flashinfer_cutlass_moe",
)  # fmt: skip
TRITONS = "%triton"  # those that it runs instead for some models: `evaluator.inputs.triton_kernels`
_FORMATS = {
    "moe_perf": "moe_dtype",
    "context_attention_perf": "attn_dtype, kv_cache_dtype",
    "generation_attention_perf": "kv_cache_dtype",
}
# Those that hold kernels which engines run differently; others are of libraries, or of latent attention.
ENGINE_TABLES = ("gemm_perf", "moe_perf", "context_attention_perf", "generation_attention_perf")


def engine_tables(folder: Path, engine: str, kernels: str | None = None) -> tuple[str, tuple[KernelTable, ...]]:
    """Newest version only; of `kernels` alone, where given."""
    found = list(_files(folder, engine, ENGINE_TABLES))
    version = max((one for _, one, _ in found), key=_parts)
    named = [file for name, one, file in found if one == version and (kernels is None or name in _FORMATS)]
    return version, tuple(read_table(file, kernels) for file in named)


def newest_tables(folder: Path, engines: Iterable[str], left_out: Iterable[str] = ()) -> tuple[KernelTable, ...]:
    """Newest version of each table."""
    newest: dict[str, tuple[str, Path]] = {}
    wanted = [name for name in TABLES if name not in set(left_out)]
    for engine in engines:
        for name, version, file in _files(folder, engine, wanted):
            if name not in newest or _parts(version) > _parts(newest[name][0]):
                newest[name] = (version, file)
    return tuple(read_table(newest[name][1]) for name in TABLES if name in newest)


def _files(folder: Path, engine: str, names: Iterable[str]) -> Iterator[tuple[str, str, Path]]:
    for name in names:
        for file in sorted(folder.glob(f"{name}--{engine}--*.parquet")):
            yield name, file.stem.split("--")[2], file


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def read_table(file: Path, kernels: str | None = None) -> KernelTable:
    """In the columns of its kind."""
    name, engine, _ = file.stem.split("--")
    kind, columns = TABLES[name]
    query = f"SELECT {columns}, latency * 1e-3 AS seconds FROM '{file}' WHERE latency > 0"  # noqa: S608
    if kernels is not None:
        query += f" AND kernel_source LIKE '{kernels}'"
    elif engine == "sglang" and name in _FORMATS:
        place = f"nullif(list_position({list(CHOSEN_FIRST)}, kernel_source), 0)"
        query += f" QUALIFY coalesce({place} = min({place}) OVER (PARTITION BY {_FORMATS[name]}), true)"
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchnumpy()
    seconds = np.asarray(rows.pop("seconds"), dtype=np.float64)
    words = {name: np.asarray(column).astype(str) for name, column in rows.items() if column.dtype.kind not in "iuf"}
    numbers = {name: np.asarray(column, dtype=np.float64) for name, column in rows.items() if name not in words}
    return KernelTable(kind=kind, numbers=numbers, words=words, latency_s=seconds, source=file.stem)
