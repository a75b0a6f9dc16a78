"""Values of `evaluate`'s options from keywords and YAML, by the type of their field."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from evaluator import inputs
from queries.asking import Declared, declared, in_new_words
from store.errors import InputError
from store.light_dataclass import dataclass
from sweepdb.evaluating.sweep_options import BatchRange, Sizes, SweepOptions

JOBS = 8  # threads that play requests, by default
_LARGEST = 2**31 - 1  # of what a database's column of whole numbers holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    read: Callable[[object], object]
    expected: str
    hint: Any  # a type


@cache
def options_by_keyword() -> Mapping[str, Declared]:
    return {item.keyword: item for item in declared(SweepOptions)}


def options_of(given: Mapping[str, object]) -> SweepOptions:
    """None was not given; an unknown keyword names the nearest."""
    known = options_by_keyword()
    held: dict[str, Any] = {}
    for keyword, value in in_new_words(given, known.values()).items():
        if keyword not in known:
            raise InputError(f"unknown option {keyword!r} of evaluate", hint=nearest(keyword, known))
        if value is not None:
            item = known[keyword]
            several = isinstance(value, str) and kind_of(item).read is _names
            held[item.field] = _parts(str(value)) if several else read_value(item, value, f"`{keyword}`")
    return SweepOptions(**held)


def read_value(item: Declared, value: object, named: str) -> object:
    kind = kind_of(item)
    try:
        return kind.read(value)
    except (OverflowError, TypeError, ValueError) as error:
        expected = f"at most {_LARGEST:,}" if isinstance(error, OverflowError) else kind.expected
        raise InputError(f"{named} must be {expected}, not {inputs.shortened(value)}") from None


def nearest(name: str, known: Collection[str]) -> str:
    found = difflib.get_close_matches(name, sorted(known), n=3)
    return f"nearest: {', '.join(found)}" if found else f"known: {', '.join(sorted(known))}"


def kind_of(item: Declared) -> Kind:
    if item.field == "input_length":
        return _LENGTH
    if item.type in _KINDS:
        return _KINDS[item.type]
    words: Any = next(part for part in (item.type, *get_args(item.type)) if get_origin(part) is Literal)
    if get_origin(item.type) is tuple:
        return Kind(read=_names, expected=_NAMES.expected, hint=words | Sequence[words])
    return Kind(read=_text, expected=_TEXT.expected, hint=words)


def with_declared_keywords(function: Callable[..., object]) -> None:
    """Sets signature and help for **options of `evaluate`."""
    with_keywords(function, {keyword: item for keyword, item in options_by_keyword().items() if keyword != "model"})


def with_keywords(function: Callable[..., object], items: Mapping[str, Declared]) -> None:
    whole = inspect.signature(function)
    own = [one for one in whole.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind_of(item).hint | None)
        for keyword, item in items.items()
        for name in (keyword, *item.others)
    ]
    function.__signature__ = whole.replace(parameters=[*own, *taken])  # type: ignore[attr-defined]
    told = "\n".join(f"    {', '.join((keyword, *item.others))}: {item.option.help}" for keyword, item in items.items())
    function.__doc__ = f"{inspect.getdoc(function)}\n\nKeywords:\n{told}"


def takes_numbers(item: Declared) -> bool:
    return kind_of(item).read in {_sizes, _rates, _batch_range}


def _parts(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for part in text.split(",") if part))


def _text(value: object) -> str:
    if isinstance(value, os.PathLike):
        return str(value)
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _several(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]


def _names(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in _several(value))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError
    whole = int(value)
    if abs(whole) > _LARGEST:
        raise OverflowError
    return whole


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _sizes(value: object) -> tuple[int, ...]:
    return tuple(_whole(item) for item in _several(value))


def _rates(value: object) -> tuple[float, ...]:
    return tuple(_number(item) for item in _several(value))


def _batch_range(value: object) -> BatchRange:
    sizes = _several(value)
    if not 1 <= len(sizes) <= 2:
        raise ValueError
    first, last = (1, *sizes)[-2:]
    return _whole(first), None if last is None else _whole(last)


def _length(value: object) -> str:
    return _text(value) if isinstance(value, str | os.PathLike) else f"{_whole(value)}"


_LENGTH = Kind(read=_length, expected="a whole number or the file of a distribution", hint=int | str | os.PathLike[str])
_NAMES = Kind(read=_names, expected="a name or a list of names", hint=str | Sequence[str])
_TEXT = Kind(read=_text, expected="text", hint=str)
_WHOLE = Kind(read=_whole, expected="a whole number", hint=int)
_NUMBER = Kind(read=_number, expected="a number", hint=float)
_KINDS: Mapping[Any, Kind] = {
    str: _TEXT,
    str | None: _TEXT,
    int: _WHOLE,
    int | None: _WHOLE,
    float: _NUMBER,
    float | None: _NUMBER,
    bool: Kind(read=_flag, expected="true or false", hint=bool),
    tuple[str, ...]: _NAMES,
    tuple[int, ...]: Kind(read=_sizes, expected="a whole number or a list of them", hint=int | Sequence[int]),
    Sizes: Kind(read=_sizes, expected="a list of whole numbers", hint=int | Sequence[int]),
    tuple[float, ...] | None: Kind(read=_rates, expected="a list of numbers", hint=float | Sequence[float]),
    BatchRange: Kind(
        read=_batch_range,
        expected="the largest batch size, or [smallest, largest]",
        hint=int | tuple[int, int],
    ),
}


def check_jobs(jobs: object) -> None:
    if isinstance(jobs, bool) or not isinstance(jobs, int):
        raise InputError(f"`jobs` must be a whole number, not {jobs!r}")
    if jobs < 1:
        raise InputError(f"`jobs` must be at least 1, not {jobs}")
