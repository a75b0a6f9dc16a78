"""Interpolation of log(measured / calibrated) over the grid of a kernel table. Never of the time itself; nothing
beyond the grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from evaluator.calibration.figures import Figures
from evaluator.calibration.fit import Mask
from evaluator.calibration.forms import FORMS, Array, Inputs
from evaluator.calibration.kernels import KernelSet, kernel_sets
from evaluator.calibration.record import Calibration
from evaluator.calibration.tables import KernelTable

# What a kernel's grid is laid out over: the first axes are lines of the sweep (thinned in the test), the others models.
AXES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "prefill_attention": ("length", "sequences", "heads", "kv_heads"),
    "decode_attention": ("length", "sequences", "heads", "kv_heads"),
}
THINNED: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "prefill_attention": ("length", "sequences"),
    "decode_attention": ("length", "sequences"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualGrid:
    """Log residuals on the product of `lines` (sorted logarithms a axis); NaN where nothing was measured."""

    axes: tuple[str, ...]
    lines: tuple[Array, ...]
    residuals: Array

    def at(self, coordinates: Mapping[str, Array]) -> Array:
        """Multilinear interpolation in log coordinates over the measured corners of each cell; 0 outside the grid.

        Corners that were not measured count as 0 when they outweigh the measured ones, and are left out otherwise."""
        shape = np.broadcast_shapes(*(np.shape(coordinates[axis]) for axis in self.axes))
        below, fraction = [], []
        inside = np.ones(shape, dtype=np.bool_)
        for axis, lines in zip(self.axes, self.lines, strict=True):
            place = np.broadcast_to(np.log(np.maximum(coordinates[axis], 1e-9)), shape)
            inside &= (place >= lines[0] - 1e-9) & (place <= lines[-1] + 1e-9)
            index = np.clip(np.searchsorted(lines, place + 1e-12, side="right") - 1, 0, max(lines.size - 2, 0))
            width = lines[min(1, lines.size - 1) + index * (lines.size > 1)] - lines[index]
            below.append(index)
            fraction.append(
                np.clip(np.divide(place - lines[index], width, out=np.zeros(shape), where=width > 0), 0.0, 1.0)
            )
        total, weight = np.zeros(shape), np.zeros(shape)
        for corner in itertools.product((0, 1), repeat=len(self.axes)):
            share = np.ones(shape)
            for side, part in zip(corner, fraction, strict=True):
                share = share * (part if side else 1.0 - part)
            at = tuple(
                np.minimum(index + side, lines.size - 1)
                for index, side, lines in zip(below, corner, self.lines, strict=True)
            )
            value = self.residuals[at]
            known = np.isfinite(value)
            total += np.where(known, share * np.nan_to_num(value), 0.0)
            weight += np.where(known, share, 0.0)
        return np.where(inside, total / np.maximum(weight, 0.5), 0.0)


def family_of(kernel: str) -> str:
    """The part of a kernel's name that decides its grid."""
    return kernel.partition(".")[0]


def coordinates_of(family: str, inputs: Inputs) -> dict[str, Array]:
    """A kernel's place on its grid."""
    if family == "gemm":
        return {axis: np.asarray(inputs[axis], dtype=np.float64) for axis in AXES[family]}
    sequences = np.asarray(inputs["sequences"], dtype=np.float64)
    total = np.asarray(inputs["tokens" if family == "prefill_attention" else "keys"], dtype=np.float64)
    heads, kv_heads = (np.asarray(inputs[name], dtype=np.float64) for name in ("heads", "kv_heads"))
    return {"length": total / sequences, "sequences": sequences, "heads": heads, "kv_heads": kv_heads}


def residual_grid(
    rows: KernelSet, calibration: Calibration, figures: Figures, keep: Mask | None = None
) -> ResidualGrid:
    """The grid of one kernel's residuals; several measurements of one shape are averaged. `keep` restricts the rows."""
    family = family_of(rows.name)
    predicted = FORMS[rows.form].seconds(calibration.values(rows.name), rows.inputs, figures)
    residual = np.log(rows.latency_s / predicted)
    coordinates = coordinates_of(family, rows.inputs)
    chosen = np.ones(residual.shape, dtype=np.bool_) if keep is None else keep
    lines = tuple(np.unique(np.log(coordinates[axis][chosen])) for axis in AXES[family])
    place = tuple(
        np.searchsorted(line, np.log(coordinates[axis][chosen]) - 1e-12)
        for axis, line in zip(AXES[family], lines, strict=True)
    )
    shape = tuple(line.size for line in lines)
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, place, residual[chosen])
    np.add.at(count, place, 1.0)
    grid = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
    return ResidualGrid(axes=AXES[family], lines=lines, residuals=grid)


def residual_grids(
    tables: Iterable[KernelTable], calibration: Calibration, figures: Figures
) -> dict[str, ResidualGrid]:
    """Grids of every kernel that has one and whose coefficients are at hand."""
    return {
        rows.name: residual_grid(rows, calibration, figures)
        for rows in kernel_sets(tables, figures)
        if family_of(rows.name) in AXES and rows.name in calibration.kernels
    }


def held_out_rows(rows: KernelSet, calibration: Calibration, figures: Figures) -> tuple[Array, Array]:
    """Predicted and measured times where every second line of each swept axis is held out: the held-out rows in the
    grid."""
    family = family_of(rows.name)
    coordinates = coordinates_of(family, rows.inputs)
    keep: Mask = np.ones(rows.latency_s.shape, dtype=np.bool_)
    inside: Mask = np.ones(rows.latency_s.shape, dtype=np.bool_)
    for axis in THINNED[family]:
        values, index = np.unique(coordinates[axis], return_inverse=True)
        keep = keep & (index % 2 == 0)
        inside = inside & (coordinates[axis] <= values[(values.size - 1) // 2 * 2])
    grid = residual_grid(rows, calibration, figures, keep)
    predicted = FORMS[rows.form].seconds(calibration.values(rows.name), rows.inputs, figures)
    test = inside & ~keep
    return (predicted * np.exp(grid.at(coordinates)))[test], rows.latency_s[test]
