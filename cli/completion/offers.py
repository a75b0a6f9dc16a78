"""Candidates for a line's last word."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from cli.completion.sources import Line, Offer, values_of
from cli.joined_arguments import list_options
from cli.visible import visible

_LONGEST_ABOUT = 60
_ABOUT = {"zsh", "fish"}  # shells that show what a candidate means


def complete(shell: str, words: Sequence[str], program: Callable[[], Any]) -> int:
    """Writes nothing where something is wrong."""
    try:
        found = offers(program(), list(words) or [""])
        written = "".join(f"{_written(one, shell)}\n" for one in found)
        sys.stdout.write(visible(written))
        sys.stdout.flush()
    except Exception:  # noqa: BLE001, S110  whoever is typing cannot read an error
        pass
    return 0


def offers(program: Any, words: Sequence[str]) -> list[Offer]:  # noqa: ANN401  of one Typer or another
    *before, current = words
    command, name = program, ""
    options = list(program.params)
    awaiting: Any = None
    endless = False  # whether the awaited option takes words until the next option
    given: list[str] = []
    store: str | None = None
    for word in before:
        if word.startswith("-") and word != "-":
            option, equals, value = word.partition("=")
            found = _named(options, option)
            awaiting = None if found is None or equals or getattr(found, "is_flag", False) else found
            endless = list_options().get(option) is not None
            store = value if equals and option == "--store" else store
        elif awaiting is not None:
            store = word if awaiting.name == "store" else store
            awaiting = awaiting if endless else None
        elif hasattr(command, "commands"):
            if word not in command.commands:
                return []
            command, name = command.commands[word], word
            options = [*program.params, *command.params]
        else:
            given.append(word)
    line = Line(command=name, first=given[0] if given else "", store=store)
    if current.startswith("-"):
        return _of_option(options, line, current)
    if awaiting is not None:
        return _of_value(awaiting, line, current)
    if hasattr(command, "commands"):
        listed = ((known, one) for known, one in command.commands.items() if known.startswith(current))
        return [Offer(known, one.get_short_help_str(_LONGEST_ABOUT)) for known, one in listed if not one.hidden]
    argument = _argument(command, len(given))
    return [] if argument is None else _of_value(argument, line, current)


def _named(options: Sequence[Any], name: str) -> Any:  # noqa: ANN401  a parameter
    return next((one for one in options if name in (*one.opts, *one.secondary_opts)), None)


def _of_option(options: Sequence[Any], line: Line, current: str) -> list[Offer]:
    name, equals, value = current.partition("=")
    if equals:
        found = _named(options, name)
        offered = [] if found is None else _of_value(found, line, value)
        return [Offer(f"{name}={one.word}", one.about) for one in offered]
    said = [
        Offer(spelling, one.help or "")
        for one in options
        if one.param_type_name == "option" and not one.hidden
        for spelling in (*one.opts, *one.secondary_opts)
    ]
    return [one for one in (*said, Offer("--help", "every option")) if one.word.startswith(current)]


def _of_value(parameter: Any, line: Line, current: str) -> list[Offer]:  # noqa: ANN401  of one Typer or another
    head, comma, last = current.rpartition(",")
    return [Offer(f"{head}{comma}{one.word}", one.about) for one in values_of(parameter, line, last)]


def _argument(command: Any, position: int) -> Any:  # noqa: ANN401  of one Typer or another
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if position < len(arguments):
        return arguments[position]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _written(offer: Offer, shell: str) -> str:
    about = " ".join(offer.about.split())
    if shell not in _ABOUT or not about:
        return offer.word
    return f"{offer.word}\t{about if len(about) <= _LONGEST_ABOUT else about[: _LONGEST_ABOUT - 3] + '...'}"
