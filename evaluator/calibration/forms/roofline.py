"""FLOPs and bytes alone, for kernels without a form, and memory-bound ones."""

from __future__ import annotations

import numpy as np

from evaluator.calibration.forms.base import DeviceFigures, Inputs, Parts, Values, memory_seconds, p_norm


def roofline_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    """`chain`: steps that one sequence takes in turn, however many units are idle."""
    rate = np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"]
    compute = np.asarray(x["matrix_flops"], float) / rate + 1e-6 * values["chain_us"] * np.asarray(x["chain"], float)
    memory = memory_seconds(np.asarray(x["moved_bytes"], float), values, x, figures)
    compute, memory = p_norm(compute, memory, values["overlap"])
    return Parts(overhead=np.full_like(compute, 1e-6 * values["fixed_us"]), compute=compute, memory=memory)


# Of kernels whose work is two operators of a step: their times add up to the kernel's.


def elementwise_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    moved = np.asarray(x["moved_bytes"], float)
    memory = moved / (figures.memory_bytes_per_s * values["memory_efficiency"])
    # data that no longer fits a cache moves slower: the rest has a rate of its own
    beyond = np.maximum(moved - values["cache_mb"] * 1e6, 0.0)
    memory = memory + beyond / (figures.memory_bytes_per_s * values["beyond_efficiency"])
    launches = np.asarray(x["launches"], float) + 0 * moved
    return Parts(overhead=values["fixed_us"] * 1e-6 * launches, compute=np.zeros(np.shape(moved)), memory=memory)
