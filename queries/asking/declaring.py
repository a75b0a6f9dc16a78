"""Fields of a dataclass as options that a user can name: their declaration, their checks and their types.

Not here: which options there are (queries.asking.options)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import date
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from store.errors import InputError

_LONGEST_SAID = 500  # of what is wrong with a value, which names the value

Check = Callable[[Any], str | None]  # what is wrong with a value, as in "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of a field beside its name, type and default."""

    help: str
    keyword: str | None = None  # None: the field's name
    also: tuple[str, ...] = ()  # other spellings on the command line
    flag: str | None = None  # how the command line spells a choice of two
    variable: str | None = None  # in SQL; None: it narrows what is looked at
    variable_type: str | None = None  # of DuckDB; None: that of the field
    unit: str = "none"
    without: str = "never NULL"  # what NULL means
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An option with the field that holds it."""

    field: str
    keyword: str
    type: Any
    default: Any
    option: Option

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it takes, where they are few."""
        if isinstance(self.option.check, OneOf):
            return self.option.check.known
        return tuple(word for kind in (self.type, *get_args(self.type)) for word in _words(kind))

    @property
    def takes_several(self) -> bool:
        """Whether it holds any number of texts."""
        return bool(self.type == tuple[str, ...])


def option(default: object, help: str, **more: Any) -> Any:  # noqa: A002, ANN401  the type of a dataclass field
    """A field of a question that a user can name."""
    return field(default=default, metadata={"option": Option(help=help, **more)})


def above_zero(value: float) -> str | None:
    """Refuse what no time and no rate can be."""
    return None if math.isfinite(value) and value > 0 else f"must be a number above 0, not {value:g}"


def not_negative(value: float) -> str | None:
    """Refuse what no amount can be."""
    return None if math.isfinite(value) and value >= 0 else f"must be a number of at least 0, not {value:g}"


def positive_whole(value: int) -> str | None:
    """Refuse what counts nothing."""
    return None if value >= 1 else f"must be a positive whole number, not {value}"


def share(value: float) -> str | None:
    """Refuse what is no share of something."""
    return None if 0 < value <= 1 else f"must lie in (0, 1], not {value:g}"


class OneOf:
    """The check of a value that is one of a few words."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known

    def __call__(self, value: object) -> str | None:
        """The fault of another word; None where there is none."""
        return None if value in self.known else f"{value} is not one of {', '.join(self.known)}"


def one_of(*known: str) -> OneOf:
    """Refuse what is not among a few words."""
    return OneOf(known)


def iso_date(value: str) -> str | None:
    """Refuse what names no day."""
    try:
        date.fromisoformat(value)
    except ValueError:
        return f"must be a date such as 2026-01-31, not {value!r}"
    return None


def image_size(value: str) -> str | None:
    """Refuse what names no two sides."""
    sides = value.lower().split("x")
    if len(sides) == 2 and all(side.isdecimal() and len(side) <= 9 and int(side) > 0 for side in sides):
        return None
    return f"is WIDTHxHEIGHT in pixels, such as 1024x768, not {value!r}"


def sides_of(size: str) -> tuple[int, int]:
    """Width and height of a checked size."""
    width, height = size.lower().split("x")
    return int(width), int(height)


def within(low: float, high: float) -> Check:
    """Refuse what lies outside a range."""
    return lambda value: None if low <= value <= high else f"must lie in {low:g}..{high:g}, not {value:g}"


_DECLARED: dict[type, tuple[Declared, ...]] = {}


def declared(kind: type) -> tuple[Declared, ...]:
    """The options that a dataclass declares, in the order of its fields."""
    if kind not in _DECLARED:
        types = get_type_hints(kind)
        _DECLARED[kind] = tuple(
            Declared(
                field=item.name,
                keyword=item.metadata["option"].keyword or item.name,
                type=types[item.name],
                default=item.default,
                option=item.metadata["option"],
            )
            for item in fields(kind)
            if "option" in item.metadata
        )
    return _DECLARED[kind]


def check_declared(part: object) -> None:
    """Refuse values of a wrong type, or that the option's own check refuses; the error names the keyword."""
    for item in declared(type(part)):
        value = getattr(part, item.field)
        if value is None and type(None) in get_args(item.type):
            continue
        _check_type(item, value)
        wrong = item.option.check(value) if item.option.check is not None else None
        if wrong is not None:
            said = wrong if len(wrong) < _LONGEST_SAID else f"{wrong[:150]} ... {wrong[-150:]}"
            raise InputError(f"`{item.keyword}` {said}")


def _check_type(item: Declared, value: object) -> None:
    kinds = [kind for kind in plain_types(item.type) if kind is not type(None)]
    known = {float: Real, int: Integral, str: str, bool: bool, tuple: tuple}
    fits = any(isinstance(value, known[kind]) and (kind is bool or not isinstance(value, bool)) for kind in kinds)
    if not fits or (item.takes_several and not all(isinstance(one, str) for one in value)):  # type: ignore[attr-defined]
        raise InputError(f"`{item.keyword}` is {_NAMES[kinds[0]]}, not {value!r}")


def _words(hint: Any) -> tuple[str, ...]:  # noqa: ANN401  a type hint is of no one type
    return get_args(hint) if get_origin(hint) is Literal else ()


_NAMES = {float: "a number", int: "a whole number", str: "a text", bool: "True or False", tuple: "a list of texts"}


def plain_types(hint: Any) -> list[type]:  # noqa: ANN401  a type hint is of no one type
    """The plain types of a hint: `float | None` is two, a literal that of its words."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [kind for part in get_args(hint) for kind in plain_types(part)]
    if origin is Literal:
        return [str]
    return [origin or hint]
