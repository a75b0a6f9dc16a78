"""Products in tiles and waves over compute units: split-K for few tiles, quantisation of activations if included.

Experts: two grouped products padded by expert, permutation, and a cost per local expert."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import log2
from evaluator.calibration.forms.base import Array, DeviceFigures, Inputs, Parts, Values, memory_seconds, p_norm

TILES = ((64, 16), (64, 32), (64, 64), (64, 128), (128, 128), (128, 256))  # rows x columns of the output
SMALL_TILES = ((1, 64), (4, 64), (16, 64))  # of devices whose matrix unit works on single rows (CPUs)
SPLITS = (1, 2, 4, 8, 16, 32)  # of the inner dimension


def element_seconds(tile: tuple[int, int], *, values: Values, unit_rate: Array) -> Array:
    """A unit's time for one inner element of a tile.

    FLOPs at its rate, raised by the tile's edges (1/rows + 1/columns, relative to the largest tile), and no faster
    than the pipeline's latency. 128 x 256 at 1e13 FLOP/s a unit: 2 x 128 x 256 / 1e13 = 6.6 ns."""
    tile_rows, tile_columns = tile
    traffic = values["tile_traffic"]
    edge = (1 + traffic * (128 / tile_rows + 128 / tile_columns)) / (1 + 1.5 * traffic)
    return np.maximum(2.0 * tile_rows * tile_columns * edge / unit_rate, values["element_ns"] * 1e-9)


def tile_seconds(
    shape: tuple[Array, Array, Array],
    *,
    count: Array | float,
    tile: tuple[int, int],
    values: Values,
    unit_rate: Array,
    units: int,
) -> Array:
    """`count` products of (rows, columns, inner), in whole waves.

    A tile starts with a prologue worth `prologue` inner elements."""
    rows, columns, inner = shape
    waves = np.ceil(count * np.ceil(rows / tile[0]) * np.ceil(columns / tile[1]) / units)
    an_element = element_seconds(tile, values=values, unit_rate=unit_rate)
    return np.asarray(waves * (inner + values["prologue"]) * an_element, dtype=np.float64)


def _compute(values: Values, x: Inputs, figures: DeviceFigures, peak: Array) -> Array:
    """The fastest tile and split of `tile_seconds`, with common parts computed once: tiles are integers, so bits
    agree."""
    m, n, k = np.asarray(x["m"], float), np.asarray(x["n"], float), np.asarray(x["k"], float)
    count = x.get("count", 1.0)
    unit_rate = peak * values["compute_efficiency"] / figures.compute_units
    tiles = TILES if values["least_rows"] > 1 else SMALL_TILES + TILES
    shape = np.broadcast_shapes(*map(np.shape, (m, n, k, count, unit_rate)))
    blocks, an_element = np.empty((2, len(tiles), *shape))  # a row a tile
    for row, tile in enumerate(tiles):
        blocks[row] = count * np.ceil(m / tile[0]) * np.ceil(n / tile[1])
        an_element[row] = element_seconds(tile, values=values, unit_rate=unit_rate)
    each = np.empty_like(blocks)
    fastest: Array | None = None
    for split in SPLITS:
        inner = np.ceil(k / split) + values["prologue"]
        # Into one array: most of the time here goes to making new ones.
        np.ceil(np.divide(np.multiply(split, blocks, out=each), figures.compute_units, out=each), out=each)
        seconds = np.minimum.reduce(np.multiply(np.multiply(each, inner, out=each), an_element, out=each), axis=0)
        if split > 1:  # partial sums in float32, written and read again
            sums = split * m * n * count * 4 / (figures.memory_bytes_per_s * values["split_bandwidth"])
            seconds = values["split_us"] * 1e-6 + sums + seconds
        fastest = seconds if fastest is None else np.minimum(fastest, seconds)
    return np.asarray(fastest, dtype=np.float64)


def matmul_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    m, n, k = np.asarray(x["m"], float), np.asarray(x["n"], float), np.asarray(x["k"], float)
    count = x.get("count", 1.0)
    weight_bytes, activation_bytes = x["weight_bytes"], x["activation_bytes"]
    peak = np.asarray(x["peak_flops_per_s"], float)
    moved = count * (m * k * activation_bytes + n * k * weight_bytes + m * n * 2.0)
    memory = memory_seconds(moved, values, x, figures)
    compute, memory = p_norm(_compute(values, x, figures, peak), memory, values["overlap"])
    # 16-bit activations read, narrow ones written, before the product
    narrow = np.where(np.asarray(x["quantises"]) > 0, count * m * k * (2.0 + activation_bytes), 0.0)
    quantise = narrow / (figures.memory_bytes_per_s * values["quantise_efficiency"])
    return Parts(
        overhead=np.full(np.shape(memory), values["fixed_us"] * 1e-6), compute=compute, memory=memory + quantise
    )


EXPERT_TILES = ((16, 64), (16, 128), (32, 128), (64, 128), (128, 128), (128, 256))


def _grouped(
    load: tuple[Array, Array],
    shape: tuple[Array, Array],
    values: Values,
    x: Inputs,
    figures: DeviceFigures,
    *,
    all_weights: Array,
) -> tuple[Array, Array]:
    """Compute and memory seconds. load: rows, experts touched; shape: columns, inner."""
    (rows, touched), (columns, inner) = load, shape
    unit_rate = np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"] / figures.compute_units
    seconds = [
        tile_seconds(
            (rows / touched, columns, inner),
            count=touched,
            tile=tile,
            values=values,
            unit_rate=unit_rate,
            units=figures.compute_units,
        )
        for tile in EXPERT_TILES
    ]
    weights = touched * columns * inner * np.asarray(x["weight_bytes"], float)
    memory = memory_seconds(weights, values, x, figures, again=all_weights)
    return p_norm(np.minimum.reduce(seconds), memory, values["overlap"])


def expert_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    ranks = np.maximum(np.asarray(x["expert_ranks"], float), 1.0)
    imbalance = np.where(np.asarray(x["skewed"]) > 0, 1 + values["imbalance"] * log2(ranks), 1.0)
    limit = np.maximum(np.asarray(x["most_rows"], float), 1.0)
    routed = np.asarray(x["rows"], float)
    rows = np.clip(routed * imbalance, 1.0, limit)
    # kernels that do not skip tokens routed to other ranks work on a share of them, too
    rows = rows + values["foreign_share"] * routed * (ranks - 1)
    touched = np.clip(np.asarray(x["touched"], float), 1.0, rows)
    hidden, inner = np.asarray(x["hidden"], float), np.asarray(x["inner"], float)
    up = inner * np.asarray(x["up_matrices"], float)
    both = touched * hidden * (up + inner) * np.asarray(x["weight_bytes"], float)
    compute_up, memory_up = _grouped((rows, touched), (up, hidden), values, x, figures, all_weights=both)
    compute_down, memory_down = _grouped((rows, touched), (hidden, inner), values, x, figures, all_weights=both)
    # permute in, write and read the inner activations, un-permute: 16-bit numbers
    activations = 2.0 * rows * (4 * hidden + up + 3 * inner) + 4.0 * np.asarray(x["tokens"], float) * hidden
    shuffle = activations / (figures.memory_bytes_per_s * values["shuffle_efficiency"])
    overhead = values["fixed_us"] + values["expert_us"] * np.asarray(x["local_experts"], float) + 0 * rows
    return Parts(overhead=overhead * 1e-6, compute=compute_up + compute_down, memory=memory_up + memory_down + shuffle)
