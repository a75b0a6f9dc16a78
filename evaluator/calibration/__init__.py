"""Calibration: kernels of a device fitted from tables of measurements, or timed on this machine and then fitted.

fit.fit_device, tables.read_tables, measure.measure and measured_profile, shipped.shipped_calibration, report. Prices of
operators are evaluator.pricing.calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.calibration.carrying import completed as completed
    from evaluator.calibration.carrying import form_of as form_of
    from evaluator.calibration.device_fit import INCLUDED_IN_SERVING_KERNELS as INCLUDED_IN_SERVING_KERNELS
    from evaluator.calibration.device_fit import LEAST_ROWS as LEAST_ROWS
    from evaluator.calibration.device_fit import SEED as SEED
    from evaluator.calibration.device_fit import accuracy_of as accuracy_of
    from evaluator.calibration.device_fit import fit_device as fit_device
    from evaluator.calibration.device_fit import fit_kernel as fit_kernel
    from evaluator.calibration.device_fit import fit_sets as fit_sets
    from evaluator.calibration.device_fit import left_out as left_out
    from evaluator.calibration.device_fit import still_moving as still_moving
    from evaluator.calibration.device_fit import training_half as training_half
    from evaluator.calibration.figures import figures_of as figures_of
    from evaluator.calibration.forms import FORMS as FORMS
    from evaluator.calibration.forms.base import Array as Array
    from evaluator.calibration.kernels import KernelSet as KernelSet
    from evaluator.calibration.kernels import kernel_sets as kernel_sets
    from evaluator.calibration.measure import measure_kernels as measure_kernels
    from evaluator.calibration.measure import measured_profile as measured_profile
    from evaluator.calibration.mixer_kernels import MIXER_KERNELS as MIXER_KERNELS
    from evaluator.calibration.tables import KernelTable as KernelTable
    from evaluator.calibration.tables import read_tables as read_tables
    from evaluator.calibration.tables import write_tables as write_tables

__getattr__, __dir__ = lazy_face(__name__)
