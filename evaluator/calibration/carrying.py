"""Kernels that somebody's tables lack, carried from a shipped calibration and scaled by kernels that both have.

Not here: the fit of what was measured (device_fit), and which shipped calibration a device has
(evaluator.inputs.devices.shipped_calibrations)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import exp, log
from evaluator.calibration.figures import figures_of
from evaluator.calibration.forms import FORMS, Form
from evaluator.calibration.kernels import kernel_sets
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import Calibration
from evaluator.inputs.devices.device import DeviceProfile

FACTOR_DIGITS = 4
# The form of a kernel by the first word of its name, where that is not the name of the form.
_FORMS = {
    "gemm": "matmul",
    "mla_bmm": "matmul",
    "mla_prefill": "prefill_attention",
    "mla_decode": "decode_attention",
    "moe": "experts",
}


def completed(
    calibration: Calibration, tables: Iterable[KernelTable], device: DeviceProfile, donor: Calibration | None
) -> Calibration:
    """The calibration with every kernel of the donor: those it lacks are the donor's, scaled.

    The factor of a family (products, experts, each kind of attention ...) is the median, over the measured rows of
    kernels that both have, of the measured time over the donor's; a family that was not measured keeps the donor's."""
    if donor is None:
        return calibration
    missing = sorted(set(donor.kernels) - set(calibration.kernels))
    if not missing:
        return calibration
    factors = _factors(calibration, tables, device, donor)
    carried = {name: factors.get(family_of(name), 1.0) for name in missing}
    lent = {name: scaled(form_of(name), donor.kernels[name], factor) for name, factor in carried.items()}
    return replace(
        calibration,
        kernels={**calibration.kernels, **lent},
        carried=carried,
        donor=donor.carried_from or donor.device,
    )


def carried_families(carried: Mapping[str, float]) -> str:
    """Carried kernels by family: how many, and what their time is multiplied by."""
    counted = Counter((family_of(name), factor) for name, factor in carried.items())
    return ", ".join(f"{rows} {family} x {factor:.4g}" for (family, factor), rows in sorted(counted.items()))


def family_of(kernel: str) -> str:
    """The first word of a kernel's name."""
    return kernel.partition(".")[0]


def form_of(kernel: str) -> Form:
    """The form that a kernel's coefficients are of."""
    return FORMS[_FORMS.get(family_of(kernel), family_of(kernel))]


def scaled(form: Form, values: Mapping[str, float], factor: float) -> dict[str, float]:
    """Coefficients whose kernel takes `factor` times as long at every shape: times up, rates down."""
    # Factor 2: 3 us and 80 % of the bandwidth become 6 us and 40 %.
    found = dict(values)
    for parameter in form.parameters:
        if parameter.unit.startswith(("us", "ns")):
            found[parameter.name] *= factor
        elif parameter.name.endswith(("_efficiency", "_bandwidth")):
            found[parameter.name] /= factor
    return found


def _factors(
    calibration: Calibration, tables: Iterable[KernelTable], device: DeviceProfile, donor: Calibration
) -> dict[str, float]:
    figures = figures_of(device)
    ratios: dict[str, list[float]] = {}
    for rows in kernel_sets(tables, figures, quantising="quantise" in calibration.includes):
        if rows.name in calibration.accuracy and rows.name in donor.kernels:
            theirs = FORMS[rows.form].seconds(donor.kernels[rows.name], rows.inputs, figures)
            ratios.setdefault(family_of(rows.name), []).extend(log(rows.latency_s / theirs).tolist())
    medians = {family: float(exp(np.asarray(np.median(found)))) for family, found in ratios.items()}
    return {family: float(f"{median:.{FACTOR_DIGITS}g}") for family, median in medians.items()}
