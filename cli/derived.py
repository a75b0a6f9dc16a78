"""Typer parameters from declared options, and their names in errors as typed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from sweepdb.asking import Declared, plain_types

_NAMED = re.compile(r"`([a-z][a-z0-9_]*)(?:=([^`]*))?`")
OLD_FLAGS: dict[str, str] = {}  # of the commands that were built, with what each is called today
_Signed = Callable[[Mapping[str, "Declared"]], Callable[..., Any]]
_SIGNED: dict[Callable[..., Any], tuple[Mapping[str, Declared], _Signed]] = {}  # commands with declared options
_FLAGS = {
    "serving_model": "--engine",
    "compile=True": "--compile",
    "compile=False": "--eager",
    "during=None": "--for",
}  # as no keyword is spelled


def spelled(keyword: str) -> str:
    return "--" + keyword.replace("_", "-")


def as_typed(text: str) -> str:
    """`keyword` and `keyword=value` become options of the command line."""

    def option(match: re.Match[str]) -> str:
        keyword, value = match.groups()
        named = _FLAGS.get(f"{keyword}={value}")
        return named or _FLAGS.get(keyword, spelled(keyword)) + (f" {value}" if value else "")

    # Text without keywords stays the piece that it is: a terminal draws tables in its own way.
    return _NAMED.sub(option, text) if _NAMED.search(text) else text


def _flags(keyword: str, item: Declared) -> tuple[str, ...]:
    """Today's name and old ones."""
    names = (item.option.flag,) if item.option.flag else (spelled(keyword),)
    return (*names, *map(spelled, (*item.option.also, *item.option.was)))


def _derived(keyword: str, item: Declared, written: Mapping[str, Any]) -> inspect.Parameter:
    hint = written.get(keyword, str | None if tuple in plain_types(item.type) else _optional(item.type))
    told = typer.Option(*_flags(keyword, item), help=item.option.help + _default(item))
    return inspect.Parameter(keyword, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[hint, told])


def with_parameters(
    table: Mapping[str, Declared], written: Mapping[str, Any], *, after: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declared options replace **options, behind `after`.

    `written` are those that a command line writes otherwise."""
    OLD_FLAGS.update({spelled(old): spelled(key) for key, item in table.items() for old in item.option.was})

    def of_command(command: Callable[..., Any]) -> Callable[..., Any]:
        def called(**options: object) -> object:
            return command(**{**dict.fromkeys(table), **options})

        def signed(taken: Mapping[str, Declared]) -> Callable[..., Any]:
            own = [
                each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for each in inspect.signature(command, eval_str=True).parameters.values()
                if each.kind is not inspect.Parameter.VAR_KEYWORD
            ]
            place = 1 + next(index for index, each in enumerate(own) if each.name == after)
            derived = (_derived(keyword, item, written) for keyword, item in taken.items())
            parameters = [*own[:place], *derived, *own[place:]]
            called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
            called.__annotations__ = {each.name: each.annotation for each in parameters}
            return called

        called.__doc__, called.__name__ = command.__doc__, command.__name__
        _SIGNED[called] = table, signed
        return called

    return of_command


def as_typer_reads(command: Callable[..., Any], words: frozenset[str] | None) -> Callable[..., Any]:
    """All declared options, or only those among the line's `words`.

    Typer takes 0.3 ms an option, and commands have a hundred."""
    if command not in _SIGNED:
        return command
    table, signed = _SIGNED[command]
    if words is None:
        return signed(table)
    flags = {keyword: "/".join(_flags(keyword, item)).split("/") for keyword, item in table.items()}
    return signed({keyword: item for keyword, item in table.items() if not words.isdisjoint(flags[keyword])})


def _optional(hint: Any) -> Any:  # noqa: ANN401  a type hint is of no one type
    """None: not given, so that defaults are stated once."""
    kinds = [kind for kind in plain_types(hint) if kind is not type(None)]
    return kinds[0] | None


def _default(item: Declared) -> str:
    if item.default in (None, ()) or item.default is False or "[default" in item.option.help:
        return ""
    shown = ",".join(map(str, item.default)) if isinstance(item.default, tuple) else item.default
    return f" [default: {shown}]"
