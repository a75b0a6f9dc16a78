"""Files of a bundle, and the tables in them.

Rows go by column names, references by content keys. `bundle.json` names the format, and each file's bytes and sha256.
Fields declare the types of values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from store import records
from store.schema import FLAG, TABLES, PlanRecord
from store.texts import checked_text

BundleFormat = Literal["parquet", "csv"]
FORMAT = 5
LOADS = "load_blocks.jsonl"
# Statements of `--show-sql` read the Parquet of loads; imports do not.
LOAD_FILES = ("load", "arrival", "load_cell", "load_token", "load_margin", "load_span", "load_uneven", "load_request")
OF_SUBJECT: dict[str, type[Any]] = {
    "model": records.ModelRecord,
    "precision": records.PrecisionRecord,
    "plan": PlanRecord,
    "workload": records.WorkloadRecord,
}
DIMENSIONS: dict[str, type[Any]] = {**OF_SUBJECT, "device": records.DeviceRecord}
WHOLE_TABLES: dict[str, type[Any]] = {  # rows that stand for themselves, as their records
    "operator_set": records.OperatorSetRecord,
    "calibration": records.CalibrationRecord,
    "price": records.PriceRecord,
}
FLAGS = {f"subject_{column.name}" for column in TABLES["subject"].columns if column.type is FLAG}
Row = dict[str, Any]  # a line of a bundle, by the names of records


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSummary:
    """Counts of a bundle's contents."""

    sweeps: int
    scenarios: int
    probes: int
    loads: int = 0


def stored_fields(record: type[Any], table: str) -> tuple[str, ...]:
    return tuple(item.name for item in fields(record) if item.name in TABLES[table].names)


def file_names(format_: str) -> tuple[str, ...]:
    lines = ("sweeps", "scenarios", "blocks", *WHOLE_TABLES, "measurement", "validation", "name")
    rows = (f"probes.{format_}", f"compositions.{format_}", LOADS, *(f"{name}.jsonl" for name in lines))
    return (*rows, *(f"{name}.parquet" for name in LOAD_FILES if format_ == "parquet"))


_Record = TypeVar("_Record")
_LARGEST = 2**63 - 1
_DECLARED: dict[object, tuple[dict[str, Any], frozenset[str]]] = {}


def record_of(type_: type[_Record], item: Mapping[str, Any]) -> _Record:
    """ValueError where a field is absent, unknown or of another type.

    Records, mappings and bytes must have been made before."""
    hints, required = _declared(type_)
    unknown = set(item) - set(hints)
    if unknown:
        raise ValueError(f"{type_.__name__} has no field {min(map(str, unknown))!r}")
    lacking = required - set(item)
    if lacking:
        raise ValueError(f"{type_.__name__} lacks {min(lacking)}")
    for name, value in item.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} of {type_.__name__} is {value!r:.40}, which it cannot be")
        if isinstance(value, str):
            checked_text(value, f"{name} of {type_.__name__}", longest=len(value))
    return type_(**item)


def _declared(type_: Any) -> tuple[dict[str, Any], frozenset[str]]:  # noqa: ANN401  any dataclass
    if type_ not in _DECLARED:
        required = {item.name for item in fields(type_) if item.default is MISSING and item.default_factory is MISSING}
        _DECLARED[type_] = (get_type_hints(type_), frozenset(required))
    return _DECLARED[type_]


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401  as typing gives it
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return any(_fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    return isinstance(value, origin or hint)
