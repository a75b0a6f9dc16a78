"""The files of a bundle, and the tables whose rows travel in them.

Rows are written by the names of columns, references by content keys.

`bundle.json` names the format and, of every other file, its bytes and their sha256. Not here: writing and reading."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from store.records import (
    CalibrationRecord,
    DeviceRecord,
    ModelRecord,
    OperatorSetRecord,
    PrecisionRecord,
    PriceRecord,
    WorkloadRecord,
)
from store.schema import FLAG, TABLES
from store.schema.plan_columns import PlanRecord

BundleFormat = Literal["parquet", "csv"]
FORMAT = 5
LOADS = "load_blocks.jsonl"
# Format 1 holds no kinds of sweeps, no client, launch and routing, no prompt service time. Formats 1 and 2 hold neither
# hashes nor what stands beside rows, and the ten splits of steps in single precision. Formats before 4 hold no loads,
# those before 5 no requests of loads, and no Parquet of loads: statements of `--show-sql` read that, imports do not.
READABLE = (1, 2, 3, 4, 5)
LOAD_FILES = ("load", "arrival", "load_cell", "load_token", "load_margin", "load_span", "load_uneven", "load_request")
OF_SUBJECT: dict[str, type[Any]] = {
    "model": ModelRecord,
    "precision": PrecisionRecord,
    "plan": PlanRecord,
    "workload": WorkloadRecord,
}
DIMENSIONS: dict[str, type[Any]] = {**OF_SUBJECT, "device": DeviceRecord}
WHOLE_TABLES: dict[str, type[Any]] = {  # rows that stand for themselves, as their records
    "operator_set": OperatorSetRecord,
    "calibration": CalibrationRecord,
    "price": PriceRecord,
}
FLAGS = {f"subject_{column.name}" for column in TABLES["subject"].columns if column.type is FLAG}
Row = dict[str, Any]  # a line of a bundle, by the names of records


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSummary:
    """The contents of a bundle, in numbers."""

    sweeps: int
    scenarios: int
    probes: int
    loads: int = 0
    untraced_operators: int = 0  # taken in as they are, since torch is not installed


def stored_fields(record: type[Any], table: str) -> tuple[str, ...]:
    """The fields of a record that are columns of a table."""
    return tuple(item.name for item in fields(record) if item.name in TABLES[table].names)


def file_names(format_: str) -> tuple[str, ...]:
    """The files of a bundle of today's format, but `bundle.json`."""
    lines = ("sweeps", "scenarios", "blocks", *WHOLE_TABLES, "measurement", "validation", "name")
    rows = (f"probes.{format_}", f"compositions.{format_}", LOADS, *(f"{name}.jsonl" for name in lines))
    return (*rows, *load_files(format_))


def load_files(format_: str) -> tuple[str, ...]:
    """Loads as relations, for SQL: what `LOADS` has packed."""
    return tuple(f"{name}.parquet" for name in LOAD_FILES) if format_ == "parquet" else ()


def sha256_of(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
