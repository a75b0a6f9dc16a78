"""Coefficients of the devices that come calibrated, written by tools.calibrations."""
