"""Measured attention layers beside the sum of their calibrated kernels.

    python -m tools.layer_report FOLDER [PAGE]

Prints, or writes into PAGE, median absolute and signed errors of latent, sparse, compressed and block attention. No
layer is fitted; parts are, to other tables, except for attention to blocks. Left out: prompts under 1,024 new tokens,
which engines batch, and splits beyond eight."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np

from evaluator.calibration import Array
from evaluator.evaluate import cost_model
from evaluator.graph import CaptureRequest, capture_operators
from evaluator.graph.operators import Operator
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs import Plan, load_device, load_model
from evaluator.inputs.formats import linear_format
from evaluator.inputs.model import CompressedAttention, GroupedQueryAttention, LatentAttention
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.occurrence import operator_seconds

Trace = Literal["prefill", "decode"]
_OTHERS = ("mlp", "experts", "post_attention_norm", "residual", "all_reduce", "streams")
_LEAST_NEW, _MOST_TP = 1024, 8
_FORMATS = {"bfloat16": "BF16", "fp8_block": "FP8_BLOCK"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Models, engine, and which layer."""

    said: str
    table: str
    engine: str
    ratio: int | None = None  # of compressed attention, which has two kinds of layers
    where: str = "true"


_WITH_INDEXER = "kernel_source NOT LIKE '%skip_indexer%'"
TABLES = (
    Layers(said="latent", table="mla_{}_module", engine="vllm"),
    Layers(said="to chosen keys", table="dsa_{}_module", engine="sglang", where=_WITH_INDEXER),
    Layers(said="to chosen keys", table="dsa_{}_module", engine="vllm"),
    Layers(said="compressed, every 4", table="dsv4_csa_{}_module", engine="vllm", ratio=4),
    Layers(said="compressed, every 4", table="dsv4_csa_{}_module", engine="sglang", ratio=4),
    Layers(said="compressed, every 128", table="dsv4_hca_{}_module", engine="vllm", ratio=128),
    Layers(said="compressed, every 128", table="dsv4_hca_{}_module", engine="sglang", ratio=128),
    Layers(said="to blocks", table="msa_{}_module", engine="vllm"),
    Layers(said="to blocks", table="msa_{}_module", engine="sglang"),
)
DEVICES = ("h100_sxm", "h200_sxm", "b200_sxm")
PHASES = {"context": "prompts", "generation": "decodes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Facts that decide a measured layer's operators."""

    model: str
    ratio: int | None
    heads: int
    weights: str
    kv_bits: int
    trace: Trace


def layer_errors(folder: Path, device: str, layers: Layers, phase: str) -> Array:
    """Percent, of one phase; none without a table."""
    named = f"{layers.table.format(phase)}_perf--{layers.engine}--*.parquet"
    files = [str(file) for file in sorted((folder / device).glob(named))]
    if not files:
        return np.zeros(0)
    least = f"isl >= {_LEAST_NEW}" if phase == "context" else "isl = 1"
    wanted = f"latency > 0 AND {least} AND {layers.where}"
    columns = "model, num_heads, gemm_type, kv_cache_dtype, isl, step, batch_size, latency"
    read = duckdb.execute(f"SELECT {columns} FROM read_parquet({files!r}) WHERE {wanted}").fetchall()  # noqa: S608  our own words
    rows: dict[Layer, list[tuple[float, ...]]] = {}
    for model, heads, weights, kv, *numbers in read:
        layer = Layer(
            model=model,
            ratio=layers.ratio,
            heads=heads,
            weights=weights,
            kv_bits=8 if "fp8" in kv else 16,
            trace="prefill" if phase == "context" else "decode",
        )
        rows.setdefault(layer, []).append(tuple(numbers))
    return np.concatenate(
        [np.zeros(0), *(_errors(layer, np.asarray(own, float).T, device) for layer, own in rows.items())]
    )


def _errors(layer: Layer, columns: Array, device: str) -> Array:
    """Of rows of new and cached tokens, requests and milliseconds."""
    operators, (new, cached, batch, measured) = _operators(layer), columns
    if not operators:
        return np.zeros(0)
    sums = repeated(request_sums(new, cached, windows=load_model(layer.model)[1].spans), batch)
    cost = _cost(device)
    seconds = sum(np.asarray(operator_seconds(one, cost, sums).total()) + 0 * batch for one in operators)
    return np.asarray(1e5 * seconds / measured - 100)


@functools.cache
def _cost(device: str) -> CostModel:
    return cost_model(load_device(device, family="calibrated"), "physical")


@functools.cache
def _operators(layer: Layer) -> tuple[Operator, ...]:
    """None where too many devices share it, or weights have another format."""
    model = load_model(layer.model)[1]
    index, attention = next(
        (index, group.attention)
        for index, group in enumerate(model.layers)
        if isinstance(group.attention, LatentAttention | CompressedAttention | GroupedQueryAttention)
        and _is_meant(group.attention, layer.ratio)
    )
    tp = attention.query_heads // layer.heads
    if not 1 <= tp <= _MOST_TP or layer.weights not in _FORMATS:
        return ()
    form = linear_format(_FORMATS[layer.weights])
    request = CaptureRequest(
        model=model,
        plan=Plan(tp=tp, ep=tp),
        linear=form,
        experts=form,
        kv_bits=layer.kv_bits,
        trace=layer.trace,
        compile=True,
    )
    own = [one for one in capture_operators(request).operators if one.label.startswith(f"layers{index}.")]
    return tuple(one for one in own if not any(part in one.label for part in _OTHERS))


def _is_meant(attention: LatentAttention | CompressedAttention | GroupedQueryAttention, ratio: int | None) -> bool:
    """With entries of so many tokens, else with an index."""
    if isinstance(attention, CompressedAttention):
        return attention.ratio == ratio
    return attention.indexer is not None or (isinstance(attention, LatentAttention) and attention.chosen_keys is None)


BLOCKS_MODEL = "MiniMaxAI/MiniMax-M3"


def pairs_of_blocks(x: Mapping[str, Array]) -> Array:
    """A query has no more keys than are chosen."""
    (chosen,) = load_model(BLOCKS_MODEL)[1].windows
    seen = request_sums(x["isl"], x["step"], windows=(chosen,)).within(chosen)
    return np.asarray(x["batch_size"] * seen.pairs)


def rest_of_layer(x: Mapping[str, Array], device: str, *, trace: Trace = "prefill") -> Array:
    """Seconds of block attention without its core.

    Tables hold whole layers; the core is what calibrated kernels leave. A decode's index is part of the core."""
    cost = _cost(device)
    sums = repeated(request_sums(x["isl"], x["step"], windows=load_model(BLOCKS_MODEL)[1].spans), x["batch_size"])
    total = np.zeros(sums.tokens.shape)
    for heads in np.unique(x["num_heads"]):
        layer = Layer(model=BLOCKS_MODEL, ratio=None, heads=int(heads), weights="bfloat16", kv_bits=16, trace=trace)
        rest = [one for one in _operators(layer) if not one.kind.startswith("block_")]
        seconds = sum(np.asarray(operator_seconds(one, cost, sums).total()) + 0 * sums.tokens for one in rest)
        total = np.where(x["num_heads"] == heads, seconds, total)
    return total


def table(folder: Path) -> Iterator[str]:
    """A row a table and phase, devices side by side."""
    yield "| layers | phase | engine | " + " | ".join(name.removesuffix("_sxm").upper() for name in DEVICES) + " |"
    yield "|---|---|---|" + "---|" * len(DEVICES)
    for layers in TABLES:
        for phase, said in PHASES.items():
            cells = [_cell(layer_errors(folder, device, layers, phase)) for device in DEVICES]
            if any(cells):
                yield f"| {layers.said} | {said} | {layers.engine} | {' | '.join(cells)} |"


def _cell(errors: Array) -> str:
    if not errors.size:
        return ""
    return f"{np.median(np.abs(errors)):.1f}, {np.median(errors):+.0f} ({errors.size:,})"


def main(arguments: list[str]) -> None:
    lines = "\n".join(table(Path(arguments[0])))
    if len(arguments) == 1:
        sys.stdout.write(lines + "\n")
        return
    page = Path(arguments[1])
    start, end = "<!-- whole layers -->\n", "<!-- end of whole layers -->"
    written = re.sub(f"(?s){start}.*?{end}", lambda _: start + lines + "\n" + end, page.read_text(encoding="utf-8"))
    page.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
