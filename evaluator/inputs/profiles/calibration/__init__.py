"""Coefficients of the devices that come calibrated, written by evaluator.calibration.shipped."""
