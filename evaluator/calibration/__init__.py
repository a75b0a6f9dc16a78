"""Calibration: kernels of a device fitted from tables of measurements, or timed on this machine and then fitted.

fit.fit_device, tables.read_tables, measure.measure and measured_profile, shipped.shipped_calibration, report. Prices of
operators are evaluator.pricing.calibrated."""
