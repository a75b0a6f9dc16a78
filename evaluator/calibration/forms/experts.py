"""Two grouped products padded by expert, permutation, and a cost per local expert."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import log2
from evaluator.calibration.forms.base import (
    CACHED,
    Array,
    DeviceFigures,
    Form,
    Inputs,
    Parameter,
    Parts,
    Values,
    memory_seconds,
    p_norm,
)
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


def _parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
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


EXPERTS = Form(
    name="experts",
    inputs=(
        "tokens",
        "rows",
        "most_rows",
        "touched",
        "local_experts",
        "expert_ranks",
        "hidden",
        "inner",
        "up_matrices",
        "weight_bytes",
        "peak_flops_per_s",
        "skewed",
    ),
    parameters=(
        Parameter(name="fixed_us", unit="us", starts=(20.0, 15.0, 22.0), low=1.0, high=120.0),
        Parameter(name="compute_efficiency", unit="1", starts=(0.7, 0.5, 0.95), low=0.05, high=1.0),
        Parameter(name="memory_efficiency", unit="1", starts=(0.8, 0.9, 0.95), low=0.05, high=1.0),
        CACHED,
        Parameter(name="overlap", unit="1", starts=(3.0, 2.0, 1.4), low=0.7, high=12.0),
        Parameter(name="tile_traffic", unit="1", starts=(0.3, 0.1, 3.0), low=1e-3, high=5.0),
        Parameter(name="prologue", unit="inner elements", starts=(100.0, 500.0, 300.0), low=1.0, high=1e4),
        Parameter(name="element_ns", unit="ns an inner element", starts=(0.01, 0.5, 0.01), low=1e-4, high=10.0),
        Parameter(name="shuffle_efficiency", unit="1", starts=(0.4, 0.2, 0.75), low=0.02, high=1.2),
        Parameter(name="expert_us", unit="us a local expert", starts=(0.05, 0.01, 0.02), low=1e-3, high=3.0),
        Parameter(name="foreign_share", unit="1", starts=(1e-3, 0.1, 0.005), low=1e-5, high=1.0),
        Parameter(name="imbalance", unit="a doubling of expert ranks", starts=(0.3, 0.05, 0.1), low=1e-3, high=10.0),
    ),
    parts=_parts,
)
