"""Fits kernels of sparse attention, linear states and residual streams.

    python -m tools.mixer_kernels FOLDER

Writes evaluator/calibration/mixer_kernels.yaml, half of the rows held out, seed fixed. One engine a kind: SGLang for
sparse attention, TensorRT-LLM for Mamba2, vLLM for the rest (image encoders from 256 patches). Run it twice: block
attention's rest of a layer is priced by the previous file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import yaml

from evaluator.calibration import LEAST_ROWS, MIXER_KERNELS, KernelSet, figures_of, fit_kernel
from evaluator.inputs import load_device
from evaluator.pricing.mixer_work import SCAN_CHUNK, channel_chain, choice_chain, query_chain, scan_chain
from tools.layer_report import pairs_of_blocks, rest_of_layer

Columns = Mapping[str, npt.NDArray[np.float64]]
Work = Mapping[str, npt.NDArray[np.float64]]
DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm", "l40s", "rtx_pro_6000_server")
_INDEX_HEADS, _CHOSEN, _LATENT, _ROPE = 32, 2048, 512, 64  # of GLM-5, which the tables of parts are of
_RATIO, _ENTRY_RATIO, _WINDOW, _ENTRY = 4, 128, 128, 512  # of DeepSeek-V4: an index' entries, attention's, its keys
_ENTRY_BYTES = 448 + 2 * 64  # a key in eight bits, its rotated part in sixteen
_CHUNK, _BLOCK_DIM, _KEPT = SCAN_CHUNK, 128, 3
_BLOCK = 128  # keys of a block
_LEFT = 0.3  # of a row, at least, where the rest is taken out of it
ENCODER_DIM = 16.0  # head dimensions that kernels take at once
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of a kind, and their work; `dtype` is the products'."""

    name: str
    work: Callable[[Columns, int], Work]
    engine: str
    where: str = "latency > 0"
    dtype: str = "bf16"
    rest: Callable[[Columns, str], Array] | None = None  # seconds of what else a row is of, taken out of it
    form: str = "roofline"
    once: bool = True  # whether a kernel reads each of its bytes once, so that a loop over it may find them in a cache


def _pairs(x: Columns) -> npt.NDArray[np.float64]:
    """`isl` new tokens after `step` cached ones."""
    return np.asarray(x["batch_size"] * x["isl"] * (x["step"] + 0.5 * (x["isl"] + 1.0)))


def _scores(x: Columns, _: int, *, heads: float = _INDEX_HEADS, ratio: float = 1.0, entry: float = 132.0) -> Work:
    pairs, tokens = _pairs(x) / ratio, x["batch_size"] * x["isl"]
    keys = x["batch_size"] * (x["isl"] + x["step"]) / ratio
    width = heads * 128.0
    return {"matrix_flops": 2 * width * pairs, "moved_bytes": tokens * width + entry * keys + 4 * pairs}


def _choice(x: Columns, units: int, *, ratio: float = 1.0) -> Work:
    pairs, queries = _pairs(x) / ratio, x["batch_size"] * x["isl"]
    chain = choice_chain(pairs / queries, queries, units)
    return {"matrix_flops": 0 * pairs, "moved_bytes": 4 * pairs, "chain": chain}


def _entries(x: Columns, units: int) -> Work:
    """A window beside all entries, 64 heads."""
    queries = x["batch_size"] * x["isl"]
    growing = np.clip(_WINDOW - x["step"], 0, x["isl"])
    window = growing * (x["step"] + 0.5 * (growing + 1)) + (x["isl"] - growing) * _WINDOW
    seen = x["batch_size"] * window + _pairs(x) / _ENTRY_RATIO
    return {
        "matrix_flops": 4 * x["num_heads"] * _ENTRY * seen,
        "moved_bytes": 4 * queries * x["num_heads"] * _ENTRY + _ENTRY_BYTES * seen,
        "chain": query_chain(queries, units),
    }


def _gathered(x: Columns, _: int) -> Work:
    # As many as are chosen, whatever the context holds: places without a key are computed and masked.
    seen = x["batch_size"] * x["isl"] * float(_CHOSEN)
    rows = x["batch_size"] * x["isl"] * x["num_heads"]
    width = 2.0 * _LATENT + _ROPE
    return {
        "matrix_flops": 2 * x["num_heads"] * width * seen,
        "moved_bytes": 2 * (rows * width + (_LATENT + _ROPE) * seen),
    }


def _blocks(x: Columns, _: int) -> Work:
    seen, tokens, kv_heads = pairs_of_blocks(x), x["batch_size"] * x["isl"], np.maximum(x["num_heads"] / 16, 1.0)
    read = x["batch_size"] * (x["isl"] + np.minimum(x["step"], _CHOSEN)) * kv_heads  # keys once a step
    return {
        "matrix_flops": 4 * np.maximum(x["num_heads"], 16.0) * _BLOCK_DIM * seen,
        "moved_bytes": 4 * tokens * x["num_heads"] * _BLOCK_DIM + 4 * read * _BLOCK_DIM,
    }


def _blocks_decoded(x: Columns, _: int) -> Work:
    """Scores of every key, the choice, and attention to the chosen blocks."""
    kv_heads, keys = np.maximum(x["num_heads"] / 16, 1.0), x["batch_size"] * (x["isl"] + x["step"])
    seen = pairs_of_blocks(x)
    scores = 2 * keys * _BLOCK_DIM + 8 * kv_heads * keys / _BLOCK
    own = 4 * x["batch_size"] * x["num_heads"] * _BLOCK_DIM + 2 * x["batch_size"] * kv_heads * _BLOCK_DIM
    return {
        "matrix_flops": 4 * np.maximum(x["num_heads"], 16.0) * _BLOCK_DIM * seen + 2 * kv_heads * _BLOCK_DIM * keys,
        "moved_bytes": scores + own + 4 * kv_heads * seen * _BLOCK_DIM,
    }


def _encoder(x: Columns, _: int) -> Work:
    pairs, rows = x["batch_size"] * x["isl"] ** 2, x["batch_size"] * x["isl"]
    width = np.ceil(x["head_dim"] / ENCODER_DIM) * ENCODER_DIM
    return {
        "matrix_flops": 4 * x["num_heads"] * width * pairs,
        "moved_bytes": 8 * rows * x["num_heads"] * x["head_dim"],
    }


def _scan(x: Columns, units: int) -> Work:
    keys, values, heads = x["head_k_dim"], x["head_v_dim"], x["num_v_heads"]
    chunks = np.ceil(x["seq_len"] / _CHUNK)
    chain = scan_chain(x["seq_len"], x["batch_size"] * heads, units)
    tokens = x["batch_size"] * x["seq_len"]
    each = 6 * _CHUNK * keys + 4 * _CHUNK * values + 6 * keys * values
    moved = 2 * tokens * (2 * x["num_k_heads"] * keys + 2 * heads * values)
    states = 8 * x["batch_size"] * heads * keys * values
    return {
        "matrix_flops": x["batch_size"] * chunks * _CHUNK * heads * each,
        "moved_bytes": moved + states,
        "chain": chain,
    }


def _channel_scan(x: Columns, units: int) -> Work:
    found = _scan(x, units)
    decays = 2 * x["batch_size"] * x["seq_len"] * x["num_v_heads"] * x["head_k_dim"]
    return {**found, "moved_bytes": found["moved_bytes"] + decays}


def _update(x: Columns, _: int) -> Work:
    states = x["num_v_heads"] * x["head_k_dim"] * x["head_v_dim"]
    return {"matrix_flops": 0 * states, "moved_bytes": 8 * x["batch_size"] * states}


def _convolved(x: Columns, channels: npt.NDArray[np.float64]) -> Work:
    kept = 2 * _KEPT * channels * x["batch_size"]
    moved = 4 * x["batch_size"] * x["seq_len"] * channels + 2 * kept + 2 * (_KEPT + 1) * channels
    return {"matrix_flops": 0 * moved, "moved_bytes": moved}


def _convolution(x: Columns, _: int) -> Work:
    return _convolved(x, 2 * x["num_k_heads"] * x["head_k_dim"] + x["num_v_heads"] * x["head_v_dim"])


def _space_convolution(x: Columns, units: int) -> Work:
    channels = x["nheads"] * x["head_dim"] + 2 * x["n_groups"] * x["d_state"]
    return {**_convolved(x, channels), "chain": channel_chain(x["batch_size"] * channels, units)}


def _space_convolution_update(x: Columns, units: int) -> Work:
    return {**_space_convolution(x, units), "chain": 0 * x["nheads"]}


def _collapse(x: Columns, _: int) -> Work:
    wide, outputs = x["hc_mult"] * x["hidden_size"], x["hc_mult"] * (x["hc_mult"] + 2)
    moved = x["num_tokens"] * (4 * wide + 2 * x["hidden_size"] + 4 * outputs) + 2 * outputs * wide
    return {"matrix_flops": 2 * x["num_tokens"] * wide * outputs, "moved_bytes": moved}


def _expand(x: Columns, _: int) -> Work:
    moved = 2 * x["num_tokens"] * x["hidden_size"] * (2 * x["hc_mult"] + 1)
    return {"matrix_flops": 0 * moved, "moved_bytes": moved}


TABLES = {
    "index_scores": Table(name="glm5_mqa_logits_module", engine="sglang", work=_scores, dtype="fp8"),
    "index_choice": Table(
        name="glm5_topk_module", engine="sglang", work=_choice, where="latency > 0 and score_mode = 'flat'"
    ),
    "sparse_attention": Table(name="glm5_dsa_attn_module", engine="sglang", work=_gathered, once=False),
    "paged_scores": Table(
        name="dsv4_paged_mqa_logits_module",
        engine="sglang",
        work=partial(_scores, heads=64.0, ratio=_RATIO),
        dtype="fp8",
    ),
    "entry_choice": Table(
        name="dsv4_csa_topk_calib",
        engine="sglang",
        work=partial(_choice, ratio=_RATIO),
        where="latency > 0 and score_mode = 'v1_flat'",
    ),
    # A window and entries are two operators of one kernel, so that their times add up.
    "entry_attention": Table(
        name="dsv4_hca_attn_module",
        engine="vllm",
        work=_entries,
        form="summed_roofline",
        once=False,
        where="latency > 0 and isl >= 128",
    ),
    "entry_decode": Table(
        name="dsv4_hca_attn_module",
        engine="vllm",
        work=_entries,
        form="summed_roofline",
        once=False,
        where="latency > 0 and isl = 1",
    ),
    "block_attention": Table(
        name="msa_context_module",
        engine="vllm",
        work=_blocks,
        where="latency > 0 and isl >= 1024 and num_heads BETWEEN 8 AND 64 and gemm_type = 'bfloat16'"
        " and kv_cache_dtype = 'bfloat16'",
        rest=rest_of_layer,
    ),
    "block_decode": Table(
        name="msa_generation_module",
        engine="vllm",
        work=_blocks_decoded,
        form="summed_roofline",
        where="latency > 0 and num_heads BETWEEN 8 AND 64 and gemm_type = 'bfloat16' and kv_cache_dtype = 'bfloat16'",
        rest=partial(rest_of_layer, trace="decode"),
    ),
    "encoder_attention": Table(
        name="encoder_attention", engine="vllm", work=_encoder, where="latency > 0 and isl >= 256"
    ),
    "state_scan": Table(
        name="gdn",
        engine="vllm",
        work=_scan,
        where="latency > 0 and kernel_source like 'chunk_gated_delta_rule%'",
    ),
    "state_update": Table(
        name="gdn", engine="vllm", work=_update, where="latency > 0 and kernel_source like 'fused_recurrent%'"
    ),
    "channel_scan": Table(
        name="kda",
        engine="vllm",
        work=_channel_scan,
        where="latency > 0 and phase = 'context' and kernel_source not like 'causal_conv%'",
    ),
    "channel_update": Table(
        name="kda", engine="vllm", work=_update, where="latency > 0 and kernel_source = 'fused_kda_decode'"
    ),
    "state_convolution": Table(
        name="gdn", engine="vllm", work=_convolution, where="latency > 0 and kernel_source = 'causal_conv1d_fn'"
    ),
    "state_convolution_update": Table(
        name="gdn", engine="vllm", work=_convolution, where="latency > 0 and kernel_source = 'causal_conv1d_update'"
    ),
    "channel_convolution": Table(  # vLLM's were timed with their launches by the host
        name="kda", engine="sglang", work=_convolution, where="latency > 0 and kernel_source = 'causal_conv1d_fn_qkv3'"
    ),
    "channel_convolution_update": Table(
        name="kda",
        engine="sglang",
        work=_convolution,
        where="latency > 0 and phase = 'generation' and kernel_source = 'causal_conv1d_update'",
    ),
    "space_convolution": Table(
        name="mamba2",
        engine="trtllm",
        work=_space_convolution,
        where="latency > 0 and kernel_source = 'causal_conv1d_fn' and seq_len >= 8",
    ),
    "space_convolution_update": Table(
        name="mamba2",
        engine="trtllm",
        work=_space_convolution_update,
        where="latency > 0 and kernel_source = 'causal_conv1d_update'",
    ),
    "stream_collapse": Table(name="mhc_module", work=_collapse, engine="vllm", where="latency > 0 and op_name = 'pre'"),
    "stream_expand": Table(name="mhc_module", work=_expand, engine="vllm", where="latency > 0 and op_name = 'post'"),
}


def kinds_of(folder: Path, device: str) -> list[str]:
    """Some devices lack some."""
    return [kind for kind, table in TABLES.items() if _files(folder, device, table)]


def _files(folder: Path, device: str, table: Table) -> list[Path]:
    return sorted((folder / device).glob(f"{table.name}_perf--{table.engine}--*.parquet"))


def rows_of(folder: Path, device: str, kind: str) -> KernelSet:
    table = TABLES[kind]
    named = [str(file) for file in _files(folder, device, table)]
    rows = duckdb.connect().execute(f"SELECT * FROM read_parquet({named!r}) WHERE {table.where}")  # noqa: S608  our own words
    frame = rows.df()
    numbers = frame.select_dtypes("number")
    columns = {str(name): numbers[name].to_numpy(dtype=np.float64) for name in numbers}
    figures = figures_of(load_device(device, family="theoretical"))
    work = table.work(columns, figures.compute_units)
    latency = columns["latency"] / columns.get("num_sites", 1.0)  # a row of some tables is of both blocks of a layer
    size = latency.size
    inputs = {
        "chain": np.zeros(size),
        **work,
        "repeated": np.full(size, float(table.once)),
        "peak_flops_per_s": np.full(size, figures.peak(table.dtype)),
    }
    seconds = 1e-3 * latency
    if table.rest is not None:
        left = seconds - table.rest(columns, device)
        told = left > _LEFT * seconds
        seconds, inputs = left[told], {name: values[told] for name, values in inputs.items()}
    return KernelSet(name=kind, form=table.form, inputs=inputs, latency_s=seconds)


def main(folder: Path) -> None:
    found: dict[str, dict[str, object]] = {}
    for device in DEVICES:
        figures = figures_of(load_device(device, family="theoretical"))
        for kind in kinds_of(folder, device):
            rows = rows_of(folder, device, kind)
            if rows.latency_s.size < LEAST_ROWS:  # another kernel runs there
                continue
            fit = fit_kernel(rows, figures)
            found.setdefault(device, {})[kind] = {"values": dict(fit.values), "accuracy": asdict(fit.accuracy)}
            moving = "" if fit.converged else ", not converged"
            off = f"{fit.accuracy.rows} rows held out, median error {fit.accuracy.median_ape} %"
            sys.stderr.write(f"{device} {kind}: {off}{moving}\n")
    target = Path(str(resources.files("evaluator").joinpath(MIXER_KERNELS)))
    head = "# Written by python -m tools.mixer_kernels; do not edit.\n"
    target.write_text(
        head + yaml.safe_dump(found, sort_keys=True, default_flow_style=None, width=150), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
