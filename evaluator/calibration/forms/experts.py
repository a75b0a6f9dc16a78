"""Two grouped products padded by expert, permutation, and a cost per local expert."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import log2
from evaluator.calibration.forms.base import Array, DeviceFigures, Inputs, Parts, Values, memory_seconds, p_norm
from evaluator.calibration.forms.matmul import tile_seconds

TILES = ((16, 64), (16, 128), (32, 128), (64, 128), (128, 128), (128, 256))


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
        for tile in TILES
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
