"""Which reader understands a file: told by its columns or keys, never by its name alone."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from evaluator.measurements.building import LARGEST_FILE_BYTES, ReadResult
from evaluator.measurements.tables import (
    PUBLISHED,
    PUBLISHED_COLUMNS,
    SERVING,
    SERVING_COLUMNS,
    read_published_table,
    read_serving_table,
)
from store.errors import InputError

_CSV: tuple[tuple[str, tuple[str, ...], Callable[[Path], ReadResult]], ...] = (
    (SERVING, SERVING_COLUMNS, read_serving_table),
    (PUBLISHED, PUBLISHED_COLUMNS, read_published_table),
)
FORMATS: Mapping[str, Callable[[Path], ReadResult]] = {name: reader for name, _, reader in _CSV}


def read_measurements(path: Path) -> ReadResult:
    """Every record of a file."""
    if not path.exists():
        raise InputError(f"{path}: no such file or directory")
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: more than {LARGEST_FILE_BYTES} bytes")
    return _read_csv(path)


def _read_csv(path: Path) -> ReadResult:
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        names = set(next(csv.reader(file), []))
    for _, columns, reader in _CSV:
        if names.issuperset(columns):
            return reader(path)
    raise InputError(f"{path}: columns of no format we know: {', '.join(sorted(names)[:8])}")
