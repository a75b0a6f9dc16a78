"""Measured layers of attention beside the sum of their kernels as calibrated.

    python -m tools.layer_report FOLDER [PAGE]

prints a table, or writes it into PAGE: median absolute and signed error of layers of latent, sparse, compressed and
block attention, which tables of FOLDER hold whole. No layer is fitted; parts are fitted to other tables, but for
attention to blocks. Left out: prompts of fewer than 1,024 new tokens, which engines batch, and splits beyond eight."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from evaluator.calibration import Array
from evaluator.evaluate import cost_model
from evaluator.graph import CaptureRequest, capture_operators
from evaluator.graph.operators import Operator
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs import Plan, load_device, load_model
from evaluator.inputs.formats import linear_format
from evaluator.pricing.step import operator_seconds

_OTHERS = ("mlp", "experts", "post_attention_norm", "residual", "all_reduce", "streams")
_LEAST_NEW, _MOST_TP = 1024, 8
_FORMATS = {"bfloat16": "BF16", "fp8_block": "FP8_BLOCK"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """A table of whole layers: of which models, by which engine, and which layer of theirs."""

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


def layer_errors(folder: Path, device: str, layers: Layers, phase: str) -> Array:
    """Signed errors in percent of every measured layer of one phase; none where no table is."""
    files = [str(file) for file in sorted((folder / device).glob(f"{layers.table.format(phase)}_perf--{layers.engine}--*"))]
    if not files:
        return np.zeros(0)
    least = f"isl >= {_LEAST_NEW}" if phase == "context" else "isl = 1"
    rows = duckdb.execute(f"SELECT * FROM read_parquet({files!r}) WHERE latency > 0 AND {least} AND {layers.where}").df()  # noqa: S608  our own words
    found = [np.zeros(0)]
    for (model, gemm, kv, heads), part in rows.groupby(["model", "gemm_type", "kv_cache_dtype", "num_heads"]):
        operators = _layer(str(model), layers.ratio, int(heads), str(gemm), 8 if "fp8" in str(kv) else 16, phase)
        if operators:
            columns = (part[name].to_numpy(dtype=np.float64) for name in ("isl", "step", "batch_size"))
            predicted = _seconds(operators, str(model), device, *columns)
            found.append(1e5 * predicted / part["latency"].to_numpy(dtype=np.float64) - 100)
    return np.concatenate(found)


def _seconds(operators: tuple[Operator, ...], model: str, device: str, new: Array, cached: Array, batch: Array) -> Array:  # noqa: PLR0917  three columns
    sums = repeated(request_sums(new, cached, windows=load_model(model)[1].spans), batch)
    cost = _cost(device)
    return np.asarray(sum(np.asarray(operator_seconds(one, cost, sums).total()) + 0 * batch for one in operators))


@functools.cache
def _cost(device: str):  # noqa: ANN202  a cost model
    return cost_model(load_device(device, family="calibrated"), "physical")


@functools.cache
def _layer(name: str, ratio: int | None, heads: int, gemm: str, kv_bits: int, phase: str) -> tuple[Operator, ...]:  # noqa: PLR0917  all of its rows' key
    model = load_model(name)[1]
    index = next(
        index
        for index, group in enumerate(model.layers)
        if getattr(group.attention, "ratio", None) == ratio
        and (ratio is not None or getattr(group.attention, "indexer", None) is not None or name.endswith("V3"))
    )
    tp = model.layers[index].attention.query_heads // heads  # type: ignore[union-attr]
    if tp < 1 or tp > _MOST_TP or gemm not in _FORMATS:
        return ()
    form = linear_format(_FORMATS[gemm])
    trace = "prefill" if phase == "context" else "decode"
    plan = Plan(tp=tp, ep=tp)
    request = CaptureRequest(
        model=model, plan=plan, linear=form, experts=form, kv_bits=kv_bits, trace=trace, compile=True
    )
    own = [one for one in capture_operators(request).operators if one.label.startswith(f"layers{index}.")]
    return tuple(one for one in own if not any(part in one.label for part in _OTHERS))


def table(folder: Path) -> Iterator[str]:
    """Lines of the table: a row each of tables, phases, and devices side by side."""
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
    """Print the table, or write it between its marks in a page."""
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
