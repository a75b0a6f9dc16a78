"""Kernels that tables lack, from a shipped calibration scaled by those that both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import exp, log
from evaluator.calibration.forms import FORMS, HOST_COLLECTIVE, Form
from evaluator.calibration.forms.base import CACHED, figures_of
from evaluator.calibration.kernels import LEAST_ROWS, kernel_sets
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import Calibration
from evaluator.inputs.devices.device import DeviceProfile

FACTOR_DIGITS = 4
OF_A_PEAK = ("memory_efficiency", "compute_efficiency")
# The form of a kernel by the first word of its name, where that is not the name of the form.
_FORMS = {
    "gemm": "matmul",
    "mla_bmm": "matmul",
    "mla_prefill": "prefill_attention",
    "mla_decode": "decode_attention",
    "moe": "experts",
}
# Kernels that a device without a donor may lack, and its own of the same form that take their place, the nearest first.
_NEAREST_OWN = {
    "mla_prefill.kv_bf16": ("prefill_attention.bf16.kv_bf16.d128", "prefill_attention.bf16.kv_bf16.d64"),
    "mla_decode.kv_bf16": tuple(f"decode_attention.{shared}.kv_bf16.d128" for shared in ("gqa32", "gqa", "mha")),
    "collective.all_to_all": ("collective.reduce_scatter", "collective.all_gather"),
    "collective.reduce_scatter": ("collective.all_gather",),
    "collective.all_gather": ("collective.reduce_scatter",),
}


def completed(
    calibration: Calibration, tables: Iterable[KernelTable], device: DeviceProfile, donor: Calibration | None
) -> Calibration:
    """Missing kernels are the donor's, scaled.

    A family's factor is the median of measured over donor's time, over kernels that both have and, if possible,
    uncached rows. Unmeasured families keep the donor's. Without a donor, the device's own kernels of the same form
    stand in."""
    if donor is None:
        return _stood_in(calibration)
    missing = sorted(set(donor.kernels) - set(calibration.kernels))
    if not missing:
        return calibration
    factors = _factors(calibration, tables, device, donor)
    carried = {name: factors.get(family_of(name), 1.0) for name in missing}
    lent = {
        name: scaled(form_of(name, donor.kernels[name]), donor.kernels[name], factor)
        for name, factor in carried.items()
    }
    return replace(
        calibration,
        kernels={**calibration.kernels, **lent},
        carried=carried,
        donor=donor.carried_from or donor.device,
    )


def _stood_in(calibration: Calibration) -> Calibration:
    own = calibration.kernels
    chosen = {
        missing: next((own[name] for name in nearest if name in own), None)
        for missing, nearest in _NEAREST_OWN.items()
        if missing not in own
    }
    found = {missing: values for missing, values in chosen.items() if values is not None}
    if not found:
        return calibration
    return replace(calibration, kernels={**own, **found}, carried=dict.fromkeys(found, 1.0))


def carried_families(carried: Mapping[str, float]) -> str:
    """How many, and the factor of their time."""
    counted = Counter((family_of(name), factor) for name, factor in carried.items())
    return ", ".join(f"{rows} {family} x {factor:.4g}" for (family, factor), rows in sorted(counted.items()))


def family_of(kernel: str) -> str:
    return kernel.partition(".")[0]


def form_of(kernel: str, values: Mapping[str, float]) -> Form:
    """Collectives' own coefficients say whether they go through the host."""
    if HOST_COLLECTIVE.holds(values):
        return HOST_COLLECTIVE
    return FORMS[_FORMS.get(family_of(kernel), family_of(kernel))]


def scaled(form: Form, values: Mapping[str, float], factor: float) -> dict[str, float]:
    """Takes `factor` times as long at every shape: times up, rates down.

    Bandwidth never exceeds the peak: a kernel twice as fast does not read twice as fast."""
    # Factor 2: 3 us and 80 % of the bandwidth become 6 us and 40 %.
    found = dict(values)
    for parameter in form.parameters:
        if parameter.name not in found:  # of a profile that was fitted before there was such a parameter
            continue
        if parameter.unit.startswith(("us", "ns")):
            found[parameter.name] *= factor
        elif parameter.name.endswith(("_efficiency", "_bandwidth")):
            found[parameter.name] /= factor
    return found | {name: min(found[name], 1.0) for name in OF_A_PEAK if name in found}


def _factors(
    calibration: Calibration, tables: Iterable[KernelTable], device: DeviceProfile, donor: Calibration
) -> dict[str, float]:
    figures = figures_of(device)
    ratios: dict[str, list[tuple[float, bool]]] = {}
    for rows in kernel_sets(tables, figures, quantising="quantise" in calibration.includes):
        if rows.name in calibration.accuracy and rows.name in donor.kernels:
            lent = donor.kernels[rows.name]
            form = form_of(rows.name, lent)
            theirs = form.seconds(lent, rows.inputs, figures)
            near, far = (
                form.seconds({**lent, CACHED.name: rate}, rows.inputs, figures) for rate in (CACHED.high, CACHED.low)
            )
            found = zip(log(rows.latency_s / theirs).tolist(), (near == far).tolist(), strict=True)
            ratios.setdefault(family_of(rows.name), []).extend(found)
    medians = {family: _median(found) for family, found in ratios.items()}
    return {family: float(f"{median:.{FACTOR_DIGITS}g}") for family, median in medians.items()}


def _median(ratios: list[tuple[float, bool]]) -> float:
    from_memory = [ratio for ratio, beyond in ratios if beyond]
    chosen = from_memory if len(from_memory) >= LEAST_ROWS else [ratio for ratio, _ in ratios]
    return float(exp(np.asarray(np.median(chosen))))
