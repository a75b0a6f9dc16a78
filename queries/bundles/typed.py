"""Makes records of the objects that a file holds, each value of the type that its field declares.

Not here: whether values fit together (sweepdb.sharing.identities)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from store.texts import checked_text

_Record = TypeVar("_Record")
_LARGEST = 2**63 - 1
_DECLARED: dict[object, tuple[dict[str, Any], frozenset[str]]] = {}


def record_of(type_: type[_Record], item: Mapping[str, Any]) -> _Record:
    """A record from an object; raises ValueError where a field is absent, unknown or of another type.

    Fields that are records, mappings or bytes must have been made before."""
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
    """The types of a record's fields, and which must be given."""
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
