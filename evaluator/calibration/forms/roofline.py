"""FLOPs and bytes alone, for kernels without a form, and memory-bound ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.calibration.forms.base import (
    CACHED,
    DeviceFigures,
    Form,
    Inputs,
    Parameter,
    Parts,
    Values,
    memory_seconds,
    p_norm,
)


def _roofline(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    """`chain`: steps that one sequence takes in turn, however many units are idle."""
    rate = np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"]
    compute = np.asarray(x["matrix_flops"], float) / rate + 1e-6 * values["chain_us"] * np.asarray(x["chain"], float)
    memory = memory_seconds(np.asarray(x["moved_bytes"], float), values, x, figures)
    compute, memory = p_norm(compute, memory, values["overlap"])
    return Parts(overhead=np.full_like(compute, 1e-6 * values["fixed_us"]), compute=compute, memory=memory)


ROOFLINE = Form(
    name="roofline",
    inputs=("matrix_flops", "moved_bytes", "chain", "peak_flops_per_s"),
    parameters=(
        Parameter(name="fixed_us", unit="us", starts=(6.0, 15.0), low=0.3, high=60.0),
        Parameter(name="compute_efficiency", unit="1", starts=(0.6, 0.3), low=0.01, high=1.0),
        # Beyond 1 where queries of one kernel share the keys that its bytes count for each of them.
        Parameter(name="memory_efficiency", unit="1", starts=(0.8, 0.4), low=0.02, high=1.5),
        CACHED,
        Parameter(name="overlap", unit="1", choices=(4.0, 1.0, 2.0)),
        Parameter(name="chain_us", unit="us a step", starts=(0.1, 1.0), low=1e-4, high=20.0),
    ),
    parts=_roofline,
)
# Of kernels whose work is two operators of a step: their times add up to the kernel's.
SUMMED_ROOFLINE = replace(
    ROOFLINE,
    name="summed_roofline",
    parameters=tuple(replace(one, choices=(1.0,)) if one.name == "overlap" else one for one in ROOFLINE.parameters),
)


def _parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    moved = np.asarray(x["moved_bytes"], float)
    memory = moved / (figures.memory_bytes_per_s * values["memory_efficiency"])
    # data that no longer fits a cache moves slower: the rest has a rate of its own
    beyond = np.maximum(moved - values["cache_mb"] * 1e6, 0.0)
    memory = memory + beyond / (figures.memory_bytes_per_s * values["beyond_efficiency"])
    launches = np.asarray(x["launches"], float) + 0 * moved
    return Parts(overhead=values["fixed_us"] * 1e-6 * launches, compute=np.zeros(np.shape(moved)), memory=memory)


ELEMENTWISE = Form(
    name="elementwise",
    inputs=("moved_bytes", "launches"),
    # Without rows that tell a cache there is none: all data moves at the first rate.
    parameters=(
        Parameter(name="fixed_us", unit="us", starts=(2.0, 5.0), low=0.1, high=100.0),
        Parameter(name="memory_efficiency", unit="1", starts=(0.8, 0.4), low=0.01, high=1.0),
        Parameter(name="cache_mb", unit="MB", starts=(1.0, 30.0), low=0.05, high=1e4, unidentified=1e4),
        Parameter(name="beyond_efficiency", unit="1", starts=(0.5, 5.0), low=0.01, high=100.0, unidentified=100.0),
    ),
    parts=_parts,
)
