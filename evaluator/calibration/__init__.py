"""Fits a device's kernels to measured tables, or times this machine and fits that.

Entries: device_fit.fit_device, tables.read_tables, measure.measure_kernels. Prices: evaluator.pricing.calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.calibration.carrying import completed, form_of
    from evaluator.calibration.device_fit import (
        INCLUDED_IN_SERVING_KERNELS,
        SEED,
        accuracy_of,
        fit_device,
        fit_kernel,
        fit_sets,
        left_out,
        still_moving,
        training_half,
    )
    from evaluator.calibration.forms.base import Array, figures_of
    from evaluator.calibration.kernels import LEAST_ROWS, KernelSet, kernel_sets
    from evaluator.calibration.lookup import IN_BLOCKS
    from evaluator.calibration.measure import measure_kernels, measured_profile
    from evaluator.calibration.mixer_kernels import MIXER_KERNELS
    from evaluator.calibration.tables import KernelTable, read_tables, write_tables

__getattr__, __dir__ = lazy_face(__name__)
