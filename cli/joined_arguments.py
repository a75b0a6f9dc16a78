"""Joins values of list options by commas, since Typer has no such options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal

from cli.derived import spelled
from sweepdb import evaluating

Kind = Literal["number", "text"]
_NOTHING_SAID = "auto"  # in place of numbers


@cache
def list_options() -> Mapping[str, Kind]:
    """Lists of text end at the next option, so they are few."""
    return {
        **{
            spelled(keyword): "number"
            for keyword, item in evaluating.options_by_keyword().items()
            if evaluating.takes_numbers(item)
        },
        "--device": "text",
        "--workload": "text",
        "--measurements": "text",
    }


def joined(arguments: Sequence[str]) -> list[str]:
    """`--tp-sizes 1 2 --x` becomes `--tp-sizes=1,2 --x`; an empty list becomes `--tp-sizes=`.

    Repeated options are joined. Text ends a numeric list; the next option ends a list of texts."""
    if _one_value_each(arguments):
        return list(arguments)
    collected: dict[str, list[str]] = {}
    result: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        if argument == "--":
            result.extend(arguments[position - 1 :])
            break
        name, equals, value = argument.partition("=")
        kind = list_options().get(name)
        if kind is None:
            result.append(argument)
            continue
        values = [value] if equals and value else []
        while not equals and position < len(arguments) and _belongs(arguments[position], kind):
            values.append(arguments[position])
            position += 1
        if name not in collected:
            result.append(name)
        collected.setdefault(name, []).extend(values)
    return [f"{item}={','.join(collected[item])}" if item in collected else item for item in result]


def root_options_first(arguments: Sequence[str]) -> list[str]:
    """Root options may stand anywhere. `query regress` is `regress`."""
    first: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            rest.extend(arguments[position:])
            break
        alone = argument.startswith("--wait=") or argument in {"--quiet", "-q", "--exact-csv"}
        width = 1 if alone else 2 if argument == "--wait" else 0
        (first if width else rest).extend(arguments[position : position + (width or 1)])
        position += width or 1
    return [*first, *(rest[1:] if rest[:2] == ["query", "regress"] else rest)]


def _one_value_each(arguments: Sequence[str]) -> bool:
    """Nothing to join, as in most lines."""
    names = [argument for argument in arguments if argument.startswith("-")]
    follows = ["-" if one.startswith("-") else "" for one in (*arguments, "-", "-")]
    alone = all(
        not first or (not second and third)
        for (first, second), third in zip(pairwise(follows), follows[2:], strict=False)
    )
    return alone and len(set(names)) == len(names) and not any("=" in name for name in names)


def _belongs(argument: str, kind: Kind) -> bool:
    if argument.startswith("-"):
        return kind == "number" and _is_number(argument)
    return kind == "text" or argument == _NOTHING_SAID or all(_is_number(part) for part in argument.split(","))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
