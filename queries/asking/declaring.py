"""Dataclass fields as options that a user can name, with checks and types."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from datetime import date
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from store.errors import InputError
from store.light_dataclass import dataclass

MOST = 1e15  # of a number for which nothing less is declared: beyond it whole numbers are no longer exact
MOST_LETTERS = 10_000  # of a text
MOST_TEXTS = 1_000  # of a list
_LONGEST_SAID = 500  # of what is wrong with a value, which names the value
_SHOWN_DIGITS = 18
_SHOWN_WHOLE = 10**_SHOWN_DIGITS

Check = Callable[[Any], str | None]  # what is wrong with a value, as in "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    help: str
    keyword: str | None = None  # None: the field's name
    also: tuple[str, ...] = ()  # other keywords
    was: tuple[str, ...] = ()  # old keywords, which work until the next release
    flag: str | None = None  # how the command line spells a choice of two
    variable: str | None = None  # in SQL; None: it narrows what is looked at
    variable_type: str | None = None  # of DuckDB; None: that of the field
    unit: str = "none"
    without: str = "never NULL"  # what NULL means
    check: Check | None = None
    heading: str = ""  # of help; empty: that of its part of a question
    planned: bool = False  # whether an option of `evaluate` is one of a plan, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    field: str
    keyword: str
    type: Any
    default: Any
    option: Option

    @property
    def words(self) -> tuple[str, ...]:
        if isinstance(self.option.check, OneOf):
            return self.option.check.known
        return tuple(word for kind in (self.type, *get_args(self.type)) for word in _words(kind))

    @property
    def opposite(self) -> str:
        """`eager` of `--compile/--eager`; empty elsewhere."""
        return (self.option.flag or "").partition("/")[2].removeprefix("--")

    @property
    def others(self) -> tuple[str, ...]:
        """Keywords that say the same, or the opposite."""
        return tuple(filter(None, (*self.option.also, self.opposite)))

    @property
    def takes_several(self) -> bool:
        return bool(self.type == tuple[str, ...])


def option(default: object, help: str, **more: Any) -> Any:  # noqa: A002, ANN401  the type of a dataclass field
    return field(default=default, metadata={"option": Option(help=help, **more)})


def in_new_words(given: Mapping[str, object], items: Iterable[Declared]) -> dict[str, object]:
    """Other and old keywords become today's; `eager=True` becomes `compile=False`."""
    table = tuple(items)
    renamed = {old: item.keyword for item in table for old in item.option.was}
    opposites = {item.opposite for item in table}
    words = {**renamed, **other_words(table)}
    values: dict[str, object] = {}
    spelled: dict[str, str] = {}
    for keyword, value in given.items():
        new = words.get(keyword, keyword)
        if value is None:
            continue
        if (other := spelled.setdefault(new, keyword)) != keyword:
            raise InputError(f"`{other}` and `{keyword}` are one option: give one of them")
        if keyword in renamed:
            warnings.warn(old_word_note(keyword, new), DeprecationWarning, stacklevel=2)
        values[new] = not value if keyword in opposites and isinstance(value, bool) else value
    return values


def other_words(items: Iterable[Declared]) -> dict[str, str]:
    return {other: item.keyword for item in items for other in item.others}


def old_word_note(old: str, new: str) -> str:
    return f"`{old}` is an old name, gone with the next release: `{new}`"


def objective_today(asked: str) -> str:
    """An objective of `rank_by` that is spelled as a column, or by its old word."""
    return asked.replace("_", "-").replace("qps", "requests-per-s")


@dataclass(frozen=True, slots=True)
class Bounds:
    """`told` says what is expected of a number below the range."""

    low: float
    high: float
    told: str
    above: bool = False  # whether the least number itself is too small

    def __call__(self, value: float) -> str | None:
        if not value >= self.low or (self.above and value == self.low):  # NaN is not
            return f"must {self.told}, not {shown(value)}"
        if value <= self.high:
            return None
        percent = self.high < 1 <= value <= 100 and self.low <= value / 100 <= self.high
        meant = f": did you mean {value / 100:g}?" if percent else ""
        return f"must be at most {shown(self.high)}, not {shown(value)}{meant}"


def above_zero(most: float = MOST) -> Bounds:
    """Times and rates."""
    return Bounds(0, most, "be a number above 0", above=True)


def not_negative(most: float = MOST) -> Bounds:
    """Amounts."""
    return Bounds(0, most, "be a number of at least 0")


def positive_whole(most: int) -> Bounds:
    return Bounds(1, most, "be a positive whole number")


def within(low: float, high: float) -> Bounds:
    return Bounds(low, high, f"lie in {low:g}..{high:g}")


def shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}" if abs(value) < _SHOWN_WHOLE else f"a number of more than {_SHOWN_DIGITS} digits"
    if isinstance(value, float):
        return f"{value:g}" if value < _SHOWN_WHOLE or not value.is_integer() or math.isinf(value) else f"{value:.0e}"
    text = repr(value)
    return text if len(text) < _LONGEST_SAID else f"{text[:100]} ... {text[-100:]}"


class OneOf:
    """The check of a word. `meant` has what other words for it are."""

    def __init__(self, known: tuple[str, ...], meant: Mapping[str, str]) -> None:
        self.known, self.meant = known, meant

    def __call__(self, value: object) -> str | None:
        if value in self.known:
            return None
        typed = str(value).lower()
        near = typed if typed in self.known else self.meant.get(typed.replace("_", "-"))
        return f"{value} is not one of {', '.join(self.known)}" + (f": did you mean {near}?" if near else "")


def one_of(*known: str, meant: Mapping[str, str] | None = None) -> OneOf:
    return OneOf(known, meant or {})


def iso_date(value: str) -> str | None:
    try:
        date.fromisoformat(value)
    except ValueError:
        return f"must be a date such as 2026-01-31, not {value!r}"
    return None


def image_size(value: str) -> str | None:
    sides = value.lower().split("x")
    if len(sides) == 2 and all(side.isdecimal() and len(side) <= 9 and int(side) > 0 for side in sides):
        return None
    return f"is WIDTHxHEIGHT in pixels, such as 1024x768, not {value!r}"


def sides_of(size: str) -> tuple[int, int]:
    width, height = size.lower().split("x")
    return int(width), int(height)


_DECLARED: dict[type, tuple[Declared, ...]] = {}


def declared(kind: type) -> tuple[Declared, ...]:
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
    """Types, and each option's own check; the error names the keyword."""
    for item in declared(type(part)):
        value = getattr(part, item.field)
        if value is None and type(None) in get_args(item.type):
            continue
        _check_type(item, value)
        check = item.option.check
        wrong = None if isinstance(check, Bounds) else _beyond(value)
        wrong = wrong or (check(value) if check is not None else None)
        if wrong is not None:
            said = wrong if len(wrong) < _LONGEST_SAID else f"{wrong[:150]} ... {wrong[-150:]}"
            raise InputError(f"`{item.keyword}` {said}")


def _check_type(item: Declared, value: object) -> None:
    kinds = [kind for kind in plain_types(item.type) if kind is not type(None)]
    known = {float: Real, int: Integral, str: str, bool: bool, tuple: tuple}
    fits = any(isinstance(value, known[kind]) and (kind is bool or not isinstance(value, bool)) for kind in kinds)
    if not fits or (item.takes_several and not all(isinstance(one, str) for one in value)):  # type: ignore[attr-defined]
        raise InputError(f"`{item.keyword}` is {_NAMES[kinds[0]]}, not {shown(value)}")


def _beyond(value: object) -> str | None:
    """Infinite, too large or too long for any option."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if value != value:  # noqa: PLR0124  NaN alone differs from itself
            return "must be a number, not nan"
        return f"must lie in {-MOST:g}..{MOST:g}, not {shown(value)}" if not -MOST <= value <= MOST else None
    if isinstance(value, str):
        return f"has at most {MOST_LETTERS:,} letters, not {len(value):,}" if len(value) > MOST_LETTERS else None
    if isinstance(value, tuple) and len(value) <= MOST_TEXTS:
        return next((wrong for one in value if isinstance(one, str) and (wrong := _beyond(one))), None)
    return f"names at most {MOST_TEXTS:,}, not {len(value):,}" if isinstance(value, tuple) else None


def _words(hint: Any) -> tuple[str, ...]:  # noqa: ANN401  a type hint is of no one type
    return get_args(hint) if get_origin(hint) is Literal else ()


_NAMES = {float: "a number", int: "a whole number", str: "a text", bool: "True or False", tuple: "a list of texts"}


def plain_types(hint: Any) -> list[type]:  # noqa: ANN401  a type hint is of no one type
    """`float | None` is two; a literal's are those of its words."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [kind for part in get_args(hint) for kind in plain_types(part)]
    if origin is Literal:
        return [str]
    return [origin or hint]
