"""Which reader understands a file or folder: told by its columns or keys, never by its name alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from evaluator.measurements.building import LARGEST_FILE_BYTES, Problem, ReadResult
from evaluator.measurements.documents import AIPERF, GUIDELLM, INFERENCEX, VLLM, read_documents
from evaluator.measurements.own import (
    AICONFIGURATOR,
    AICONFIGURATOR_COLUMNS,
    OWN,
    OWN_COLUMNS,
    read_aiconfigurator,
    read_own_csv,
)
from evaluator.measurements.tables import (
    PUBLISHED,
    PUBLISHED_COLUMNS,
    SERVING,
    SERVING_COLUMNS,
    read_published_table,
    read_serving_table,
)
from store.errors import InputError
from store.records import MeasurementRecord

_CSV: tuple[tuple[tuple[str, ...], Callable[[Path], ReadResult]], ...] = (
    (SERVING_COLUMNS, read_serving_table),
    (PUBLISHED_COLUMNS, read_published_table),
    (AICONFIGURATOR_COLUMNS, read_aiconfigurator),
    (OWN_COLUMNS, read_own_csv),
)
FORMATS = (SERVING, PUBLISHED, OWN, AICONFIGURATOR, VLLM, GUIDELLM, INFERENCEX, AIPERF)


def read_measurements(path: Path) -> ReadResult:
    """Every record of a file, or of the JSON files of a sweep's folder."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or directory")
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: more than {LARGEST_FILE_BYTES} bytes")
    return _read_csv(path) if path.suffix.lower() in {".csv", ".tsv"} else read_documents(path)


def _read_folder(folder: Path) -> ReadResult:
    """A sweep's folder holds a file a run; beside them, its summaries repeat the same runs."""
    files = sorted(path for path in folder.rglob("*.json") if path.is_file())
    runs = [path for path in files if not path.name.startswith("summary")] or files
    if not runs:
        raise InputError(f"{folder}: holds no JSON file")
    records: dict[str, MeasurementRecord] = {}
    problems: list[Problem] = []
    formats: set[str] = set()
    for path in runs:
        try:
            found = read_measurements(path)
        except InputError as error:
            problems.append(Problem(where=str(path.relative_to(folder)), what=str(error)))
            continue
        records |= {one.key: one for one in found.records}
        problems += found.problems
        formats.add(found.format)
    return ReadResult(
        records=tuple(records.values()), problems=tuple(problems), format=", ".join(sorted(formats - {""}))
    )


def _read_csv(path: Path) -> ReadResult:
    try:
        with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
            names = set(next(csv.reader(file), []))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    for columns, reader in _CSV:
        if names.issuperset(columns):
            return reader(path)
    raise InputError(
        f"{path}: columns of no format we know: {', '.join(sorted(names)[:8])}",
        hint=f"our own CSV has at least {', '.join(OWN_COLUMNS)} and one measured column such as ttft_ms_mean",
    )
