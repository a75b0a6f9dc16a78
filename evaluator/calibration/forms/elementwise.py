"""Memory-bound kernels: norms, activations, additions, copies."""

from __future__ import annotations

import numpy as np

from evaluator.calibration.figures import DeviceFigures
from evaluator.calibration.forms.base import Form, Inputs, Parameter, Parts, Values


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
