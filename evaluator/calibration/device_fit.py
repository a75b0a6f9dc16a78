"""Fits kernels to half of the measured rows, by a fixed seed; errors are of the other half."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluator.calibration.forms import FORMS, Array, Form, Parameter
from evaluator.calibration.forms.base import DeviceFigures, figures_of
from evaluator.calibration.kernels import LEAST_ROWS, KernelSet, kernel_sets
from evaluator.calibration.least_squares import ROUGH, TIGHT, Box, Effort, Solution, fit_log
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import Accuracy, Calibration
from evaluator.inputs.devices.device import DeviceProfile

FITTED_ROWS = 3000  # at most, drawn from the training half: more do not change the coefficients, only the time
SEED = 20261121
DIGITS = 4  # of a stored coefficient
MARGIN = 1e-3  # of the cost, by which a later start must be better than an earlier one
UNUSUAL = 1.1  # times the cost of choices that are not the first of their parameter
# Kernels that tables rarely hold, stated rather than fitted: fused norms, activations and additions at 80 % of the
# memory
# bandwidth and 2 us a launch (graph-launched kernels of NVIDIA GPUs; docs/reference/calibration.md).
ASSUMED = {
    "elementwise": {"fixed_us": 2.0, "memory_efficiency": 0.8, "cache_mb": 1e4, "beyond_efficiency": 100.0},
}
# What kernels measured inside a serving engine do on the side: rotary embedding and the KV write in attention,
# activation
# quantisation in narrow products, gate softmax, top-k and the permutation of tokens in the experts' kernel.
INCLUDED_IN_SERVING_KERNELS = ("kv_write", "moe_routing", "quantise", "rope")

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFit:
    """Also whether the fit had converged."""

    values: Mapping[str, float]
    accuracy: Accuracy
    converged: bool


def fit_device(
    tables: Iterable[KernelTable],
    device: DeviceProfile,
    *,
    seed: int = SEED,
    source: str = "",
    includes: tuple[str, ...] = INCLUDED_IN_SERVING_KERNELS,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Every kernel with at least eight rows.

    `includes` names operator kinds that measured kernels do on the side."""
    figures = figures_of(device)
    sets = kernel_sets(tables, figures, quantising="quantise" in includes)
    fits = fit_sets(sets, figures, seed=seed, progress=progress)
    kernels = {name: dict(fit.values) for name, fit in fits.items()}
    assumed = tuple(sorted(set(ASSUMED) - set(kernels)))
    kernels.update({name: ASSUMED[name] for name in assumed})
    return Calibration(
        device=device.name,
        kernels=kernels,
        accuracy={name: fit.accuracy for name, fit in fits.items()},
        seed=seed,
        includes=includes,
        assumed=assumed,
        unconverged=still_moving(fits),
        source=source,
    )


def fit_sets(
    sets: Iterable[KernelSet],
    figures: DeviceFigures,
    *,
    seed: int = SEED,
    progress: Callable[[str], None] | None = None,
) -> dict[str, KernelFit]:
    fits: dict[str, KernelFit] = {}
    for rows in sets:
        if rows.latency_s.size < LEAST_ROWS:
            continue
        fits[rows.name] = fit_kernel(rows, figures, seed=seed)
        if progress is not None:
            progress(rows.name)
    return fits


def still_moving(fits: Mapping[str, KernelFit]) -> tuple[str, ...]:
    return tuple(name for name, fit in fits.items() if not fit.converged)


def left_out(tables: Iterable[KernelTable], figures: DeviceFigures) -> dict[str, int]:
    """By rule; all others are fitted or held out."""
    tables = tuple(tables)
    sets = kernel_sets(tables, figures)
    few = sum(rows.latency_s.size for rows in sets if rows.latency_s.size < LEAST_ROWS)
    layers = sum(table.latency_s.size for table in tables if table.kind == "mla_module")
    return {
        f"kernels with fewer than {LEAST_ROWS} rows": few,
        "whole attention layers (mla_module), whose parts are fitted": layers,
    }


def training_half(rows: int, seed: int) -> Mask:
    """Random, the same for a number of rows and a seed."""
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[np.random.default_rng(seed).permutation(rows)[: (rows + 1) // 2]] = True
    return chosen


def fit_kernel(rows: KernelSet, figures: DeviceFigures, *, seed: int = SEED) -> KernelFit:
    """Coefficients are rounded as stored."""
    half = training_half(rows.latency_s.size, seed)
    training = np.flatnonzero(half)
    if training.size > FITTED_ROWS:
        training = np.sort(np.random.default_rng(seed + 1).choice(training, FITTED_ROWS, replace=False))
    form = FORMS[rows.form]
    values, converged = _best_values(
        form, {name: column[training] for name, column in rows.inputs.items()}, rows.latency_s[training], figures
    )
    values = {name: _rounded(value) for name, value in values.items()}
    predicted = form.seconds(values, rows.inputs, figures)
    accuracy = accuracy_of(predicted[~half], rows.latency_s[~half], fitted=int(training.size))
    return KernelFit(values=values, accuracy=accuracy, converged=converged)


def accuracy_of(predicted: Array, measured: Array, *, fitted: int = 0) -> Accuracy:
    """Absolute errors and the median signed one, to 0.01 %."""
    signed = 100.0 * (predicted / measured - 1.0)
    error = np.abs(signed)
    return Accuracy(
        rows=int(error.size),
        fitted=fitted,
        median_ape=round(float(np.median(error)), 2),
        mean_ape=round(float(error.mean()), 2),
        p90_ape=round(float(np.percentile(error, 90)), 2),
        bias=round(float(np.median(signed)), 2),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _scalar_inputs(inputs: dict[str, Array]) -> dict[str, Array | float]:
    """Constant inputs as scalars, so that forms work on fewer arrays."""
    return {
        name: float(column[0]) if column.size and (column == column[0]).all() else column
        for name, column in inputs.items()
    }


def _best_values(
    form: Form, inputs: dict[str, Array], measured: Array, figures: DeviceFigures
) -> tuple[dict[str, float], bool]:
    compact = _scalar_inputs(inputs)
    fitted = [parameter for parameter in form.parameters if not parameter.choices]
    log_measured = np.log(measured)
    low = np.log([parameter.low for parameter in fitted])
    high = np.log([parameter.high for parameter in fitted])
    standard = np.log([parameter.standard for parameter in fitted])

    def solve(fixed: dict[str, float], start: Array, drawn_to: Array, effort: Effort) -> Solution:
        def residuals(point: Array) -> Array:
            return np.asarray(np.log(form.seconds(_named(fitted, point) | fixed, compact, figures)) - log_measured)

        return fit_log(residuals, start, Box(low=low, high=high, standard=drawn_to), effort)

    # While starts are tried, what a start says nothing about stays where it began: a limit that is not in force there
    # may come into force on the way.
    tried = [(fixed, solve(fixed, start, start, ROUGH)) for fixed, start in _starts(form, fitted)]
    fixed, rough = chosen(tried, form)
    tight = solve(fixed, rough.point, standard, TIGHT)
    best = _named(fitted, tight.point) | fixed
    return {parameter.name: best[parameter.name] for parameter in form.parameters}, tight.converged


def chosen(found: list[tuple[dict[str, float], Solution]], form: Form) -> tuple[dict[str, float], Solution]:
    """The lowest; an earlier start is left only for a cost lower by the margin."""
    usual = {parameter.name: parameter.choices[0] for parameter in form.parameters if parameter.choices}
    best, least = found[0], math.inf
    for one in found:
        cost = one[1].cost * (1.0 if one[0] == usual else UNUSUAL)
        if cost < least * (1 - MARGIN):
            best, least = one, cost
    return best


def _starts(form: Form, fitted: list[Parameter]) -> Iterator[tuple[dict[str, float], Array]]:
    chosen = [parameter for parameter in form.parameters if parameter.choices]
    combinations = itertools.product(*(parameter.choices for parameter in chosen))
    for choice, index in itertools.product(combinations, range(len(fitted[0].starts))):
        fixed = {parameter.name: value for parameter, value in zip(chosen, choice, strict=True)}
        yield fixed, np.log([parameter.starts[index] for parameter in fitted])


def _named(fitted: list[Parameter], point: Array) -> dict[str, float]:
    return {parameter.name: math.exp(value) for parameter, value in zip(fitted, point.tolist(), strict=True)}
