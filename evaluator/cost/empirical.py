"""The empirical family: calibrated times corrected by interpolated residuals of the measured kernels; calibrated
outside their grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluator.calibration.forms import Inputs, Parts
from evaluator.calibration.residuals import ResidualGrid, coordinates_of, family_of, residual_grids
from evaluator.calibration.tables import KernelTable
from evaluator.cost.calibrated import CalibratedCost, calibrated_cost
from evaluator.device import DeviceProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalCost(CalibratedCost):
    """Calibrated coefficients with residual grids by kernel name."""

    residuals: Mapping[str, ResidualGrid]

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the calibrated family, and which kernels are interpolated."""
        said = super(EmpiricalCost, self).assumptions
        return (
            *said,
            f"residuals interpolated over measurements of {len(self.residuals)} kernels; calibrated beyond their grids",
        )

    def _price(self, name: str, form: str, inputs: Inputs) -> Parts:
        parts = super(EmpiricalCost, self)._price(name, form, inputs)
        grid = self.residuals.get(name)
        if grid is None:
            return parts
        factor = np.exp(grid.at(coordinates_of(family_of(name), inputs)))
        return replace(
            parts, overhead=parts.overhead * factor, compute=parts.compute * factor, memory=parts.memory * factor
        )


def empirical_cost(
    profile: DeviceProfile, tables: Iterable[KernelTable], *, routing: str = "balanced"
) -> EmpiricalCost:
    """The empirical cost model of a calibrated profile and the kernel tables it was measured with."""
    base = calibrated_cost(profile, routing=routing)
    grids = residual_grids(tables, base.calibration, base.figures)
    return EmpiricalCost(
        profile=base.profile, calibration=base.calibration, figures=base.figures, routing=base.routing, residuals=grids
    )
