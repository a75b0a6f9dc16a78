"""Fits kernels of one device and prints their coefficients: tests run it under several processors' arithmetic.

Run as a program: `python tests/fitted_kernels.py DEVICE PATTERN [shuffled]` writes one JSON object, kernel -> coefficients."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace

import numpy as np
from shared_data import shared_data

from evaluator.calibration.device_fit import fit_kernel
from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.kernels import KernelSet, kernel_sets
from evaluator.calibration.tables import KernelTable, read_tables
from evaluator.inputs.devices.device_profiles import load_device


def rows_of(device: str, pattern: str = ".*", *, shuffled: bool = False) -> dict[str, KernelSet]:
    """Measured rows of the kernels whose names match, the tables' rows in their own or in a random order."""
    tables = read_tables(shared_data("kernels", device))
    if shuffled:
        tables = tuple(_shuffled(table) for table in reversed(tables))
    found = kernel_sets(tables, figures_of(load_device(device, family="theoretical")))
    return {rows.name: rows for rows in found if re.fullmatch(pattern, rows.name)}


def _shuffled(table: KernelTable) -> KernelTable:
    order = np.random.default_rng(7).permutation(table.latency_s.size)
    return replace(
        table,
        numbers={name: column[order] for name, column in table.numbers.items()},
        words={name: column[order] for name, column in table.words.items()},
        latency_s=table.latency_s[order],
    )


def main(device: str, pattern: str, *order: str) -> None:
    figures = figures_of(load_device(device, family="theoretical"))
    rows = rows_of(device, pattern, shuffled="shuffled" in order)
    sys.stdout.write(json.dumps({name: fit_kernel(one, figures).values for name, one in rows.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
