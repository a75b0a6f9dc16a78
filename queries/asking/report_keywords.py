"""Keywords of each report with type and meaning: for signatures, docstrings and the stub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Literal, get_args, get_origin

from queries.asking.declaring import Bounds, Declared
from queries.asking.headers import VARIANTS, Report
from queries.asking.library import report, reports, takes
from queries.asking.options import PRESETS, option_table
from store.light_dataclass import dataclass

_TWO_NAMES = tuple[str, str] | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    name: str
    hint: Any  # a type
    default: object  # None: not given
    help: str
    required: bool = False
    bounds: Bounds | None = None  # of a number


def asked_reports() -> Mapping[str, Report]:
    return {name.replace("-", "_"): item for name, item in reports().items() if item.part_of is None}


def keywords_of(asked: Report) -> tuple[Keyword, ...]:
    """Compared names first, then options in order of declaration."""
    return tuple(_keywords(asked))


def takers_of(keyword: str) -> list[str]:
    return [item.name for item in asked_reports().values() if keyword in {one.name for one in keywords_of(item)}]


def _keywords(asked: Report) -> Iterator[Keyword]:
    if asked.names is not None:
        (name,) = asked.names.options
        told = f"the two {name} that are compared"
        yield Keyword(name=name, hint=_TWO_NAMES, default=None, help=told, required=True)
    required = {option for told in asked.requires for option in told.options}
    forms = _forms_of(asked)
    for keyword, item in option_table().items():
        if any(takes(form, item) for form in forms):
            yield Keyword(
                name=keyword,
                hint=_hint(forms, item),
                default=None if item.default in {None, (), False} else item.default,
                help=item.option.help,
                required=keyword in required,
                bounds=item.option.check if isinstance(item.option.check, Bounds) else None,
            )
    presets = Literal[tuple(PRESETS)]  # type: ignore[valid-type]
    yield Keyword(name="preset", hint=presets, default=None, help="a set of definitions by its name")


def _forms_of(asked: Report) -> list[Report]:
    """With those that options have answer instead."""
    return [asked, *(report(other.report) for other in asked.others if not VARIANTS & other.when)]


def _hint(forms: Sequence[Report], item: Declared) -> Any:  # noqa: ANN401  a type hint is of no one type
    if item.keyword == "mix":
        return Sequence[tuple[str, float]]
    if item.keyword == "mode":
        return Literal[tuple(dict.fromkeys(mode for form in forms for mode in form.modes))]
    if item.keyword == "input_length":
        return int | str  # a file of length bins, which `sweepdb.open` reads
    if item.takes_several:
        return str | Sequence[str]
    if get_origin(item.type) is Literal:
        return item.type
    kinds = [kind for kind in get_args(item.type) or (item.type,) if kind is not type(None)]
    return reduce(or_, kinds)
