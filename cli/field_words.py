"""Other programs' words for options, suggested for unknown ones."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Options by the words of other programs for them, without dashes; the first that a command has is meant.
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    WORDS: Mapping[str, tuple[str, ...]] = {
        word: tuple(line["options"].split(", ")) for line in csv.DictReader(_file) for word in line["words"].split()
    }
_ALIKE = 0.75  # of two spellings, from which on one may be the other mistyped
_ASKING = ("plan", "evaluate", "query")


def unknown_option(typed: str, context: Any, commands: Mapping[str, Any]) -> tuple[str, str]:  # noqa: ANN401  Typer's own
    """With what to type instead."""
    command = context.command_path
    wrong = f"{command} has no option {typed}."
    word = typed.lstrip("-").replace("_", "-")
    if word == "model" and any(
        each.param_type_name == "argument" and each.name == "model" for each in context.command.params
    ):
        return wrong, f"The model is the first word behind the command: {command} MODEL."
    known = _options(context.command)
    for meant in (word, *WORDS.get(word, ())):
        if meant in known and meant != word:
            return wrong, f"Type --{meant} in its place ({re.split('[:;]', known[meant])[0]})."
    elsewhere = [
        f"sweepdb {name} has {_newest(commands[name], meant)}"
        for name in _ASKING
        if name != context.command.name and name in commands
        for meant in _first((word, *WORDS.get(word, ())), _options(commands[name]))
    ]
    if elsewhere and command == "sweepdb":
        return wrong, f"Type it behind a command: {elsewhere[-1].replace(' has ', ' ... ')}"
    if elsewhere:
        return wrong, f"{'; '.join(elsewhere)}. {command} --help lists what this command takes."
    alike = difflib.get_close_matches(word, known, n=3, cutoff=_ALIKE)
    offered = f"Do you mean {' or '.join(f'--{one}' for one in alike)}? " if alike else ""
    return wrong, f"{offered}{command} --help lists the options."


def _first(wanted: tuple[str, ...], known: Mapping[str, str]) -> Iterator[str]:
    yield from [one for one in wanted if one in known][:1]


def _newest(command: Any, name: str) -> str:  # noqa: ANN401  Typer's own
    """By this or an old name."""
    return str(next(each.opts[0] for each in command.params if f"--{name}" in each.opts))


def _options(command: Any) -> Mapping[str, str]:  # noqa: ANN401  Typer's own
    return {
        name.lstrip("-"): (getattr(each, "help", None) or "").partition(" [")[0]
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
        if each.param_type_name == "option" and name.startswith("--") and not getattr(each, "hidden", False)
    }
