"""Drivers' rows as NamedTuples, converted by column.

SQLite has no booleans and times, PostgreSQL sums integers to decimals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from store.errors import StoreError, UnreadableRowsError

RowT = TypeVar("RowT", bound=tuple[Any, ...])
OtherT = TypeVar("OtherT", bound=tuple[Any, ...])
ValueT = TypeVar("ValueT", int, str)
Cells = Sequence[Any]  # as a driver gives them
_Convert = Callable[[Any], object]


def typed_rows(row_type: type[RowT], chunks: Iterable[Sequence[Cells]]) -> Iterator[RowT]:
    """Only columns of a wrong type are converted."""
    for chunk in chunks:
        yield from _made(row_type, list(zip(*chunk, strict=True)))


def typed_pairs(
    left: type[RowT], right: type[OtherT], chunks: Iterable[Sequence[Cells]]
) -> Iterator[tuple[RowT, OtherT]]:
    width = len(flat_names(left))
    for chunk in chunks:
        columns = list(zip(*chunk, strict=True))
        yield from zip(_made(left, columns[:width]), _made(right, columns[width:]), strict=True)


def _made(row_type: type[RowT], columns: Sequence[Cells]) -> Iterator[RowT]:
    nested = _nested(row_type)
    if nested is not None:  # its last columns make one record
        own = len(row_type._fields) - 1  # type: ignore[attr-defined]  # of NamedTuples
        made = map(nested, *_typed(nested, columns[own:]))
        return map(row_type._make, zip(*_typed(row_type, columns[:own]), made, strict=True))  # type: ignore[attr-defined]
    return map(row_type._make, zip(*_typed(row_type, columns), strict=True))  # type: ignore[attr-defined]


def _typed(record: type, columns: Sequence[Cells]) -> Iterator[Cells]:
    return (_column(cells, *kind) for cells, kind in zip(columns, _kinds(record), strict=True))


def flat_names(row_type: type[tuple[Any, ...]]) -> tuple[str, ...]:
    """A record in the last field stands for its columns."""
    names: tuple[str, ...] = row_type._fields  # type: ignore[attr-defined]  # of NamedTuples
    nested = _nested(row_type)
    return names if nested is None else (*names[:-1], *(one.name for one in fields(nested)))


@cache
def _nested(row_type: type[tuple[Any, ...]]) -> type | None:
    last = list(get_type_hints(row_type).values())[-1]
    return last if isinstance(last, type) and is_dataclass(last) else None


def typed_values(type_: type[ValueT], chunks: Iterable[Sequence[Cells]]) -> Iterator[ValueT]:
    for chunk in chunks:
        (cells,) = zip(*chunk, strict=True)
        yield from _column(cells, type_, type_, may_miss=False)


def _column(cells: Cells, type_: type, convert: _Convert, may_miss: bool) -> Cells:
    found = set(map(type, cells))
    if NoneType in found and not may_miss and type_ is not object:
        raise _damaged(type_, "nothing in some row")
    if type_ is object:  # as the driver gives it
        return cells
    if type_ is not datetime and found <= {type_, NoneType}:
        return cells
    try:
        return [None if cell is None else convert(cell) for cell in cells]
    except (ValueError, TypeError) as error:
        raise _damaged(type_, str(error)) from error


def _damaged(type_: type, what: str) -> StoreError:
    return UnreadableRowsError(
        f"The store is damaged: a column of {type_.__name__} holds something else ({what[:80]}).",
        hint="Run: sweepdb db check   and restore a copy; backups made by upgrades lie beside the file.",
    )


@cache
def _kinds(record: type) -> tuple[tuple[type, _Convert, bool], ...]:
    """Type, converter, and whether it may be missing, by column."""
    return tuple(_kind(hint) for hint in get_type_hints(record).values() if not is_dataclass(hint))


def _kind(hint: Any) -> tuple[type, _Convert, bool]:  # noqa: ANN401 - an annotation
    options = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    (wanted,) = (option for option in options if option is not NoneType)
    type_ = type(get_args(wanted)[0]) if get_origin(wanted) is Literal else wanted
    return type_, _moment if type_ is datetime else type_, NoneType in options


def _moment(value: object) -> datetime:
    """SQLite gives text without a zone, PostgreSQL the session's zone."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
