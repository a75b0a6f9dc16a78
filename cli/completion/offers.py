"""Candidates for a line's last word."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cli.help.report_help import OTHERS
from cli.joined_arguments import list_options
from cli.visible import visible
from sweepdb import catalogue
from sweepdb.asking import asked_reports, option_table
from sweepdb.evaluating import options_by_keyword
from sweepdb.stores import NameKind, parse_url, stored_names

_MOST_S = 1.0
_SAID = re.compile(r"\b(?!or\b)[a-z][\w-]*")
_IN_HELP = {"format_", "target", "measure"}  # options whose help is the list of their words
_ACTIONS = {
    "prices": ("list", "set", "import"),
    "workloads": ("list", "show", "add"),
    "measurements": ("import", "export", "list", "runs", "show", "set", "delete", "suggest"),
}


class Offer(NamedTuple):
    word: str
    about: str = ""


class Line(NamedTuple):
    command: str
    first: str
    store: str | None


Source = Callable[[Line, str], Iterable[Offer]]


def values_of(parameter: Any, line: Line, start: str) -> list[Offer]:  # noqa: ANN401  of one Typer or another
    """None where it is a file or a number."""
    name = str(parameter.name)
    source = _BY_COMMAND.get((line.command, name)) or _BY_NAME.get(name)
    if source is not None:
        found = source(line, start)
    elif name in _IN_HELP:
        found = map(Offer, _SAID.findall(parameter.help or ""))
    else:
        found = map(Offer, _declared_words(name))
    return [one for one in dict.fromkeys(found) if one.word.lower().startswith(start.lower())]


def _declared_words(keyword: str) -> tuple[str, ...]:
    tables = (option_table(), options_by_keyword())
    return next((words for table in tables if keyword in table and (words := table[keyword].words)), ())


def _stored(kind: NameKind) -> Source:
    def names(line: Line, start: str) -> Iterable[Offer]:
        try:
            with _hurried():
                found = stored_names(parse_url(line.store), kind, start)
            return [Offer(one.name, one.about or "") for one in found]
        except Exception:  # noqa: BLE001  no store, another's file, no server: nothing of it is offered
            return []

    return names


@contextmanager
def _hurried() -> Iterator[None]:
    """Stops what takes long: the shell waits."""

    def stop(*_: object) -> None:
        raise TimeoutError

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _devices(line: Line, start: str) -> Iterable[Offer]:
    return [*map(Offer, catalogue.list_devices()), *_stored("device")(line, start)]


def _models(line: Line, start: str) -> Iterable[Offer]:
    return [*_stored("model")(line, start), *map(Offer, catalogue.catalogue_ids())]


def _serving_models(_line: Line, _start: str) -> Iterable[Offer]:
    return map(Offer, (*catalogue.list_engines(), *catalogue.FORMULA_MODELS))


def _launchers(_line: Line, _start: str) -> Iterable[Offer]:
    return map(Offer, catalogue.LAUNCHERS)


def _reports(_line: Line, _start: str) -> Iterable[Offer]:
    known = [Offer(item.name, item.summary) for item in asked_reports().values()]
    told = [Offer(name, about) for name, about in OTHERS.items()]
    return [*sorted([*known, *told]), Offer("reports", "list them")]


def _compared(line: Line, start: str) -> Iterable[Offer]:
    names = next((item.names for item in asked_reports().values() if item.name == line.first), None)
    if names is None:
        return []
    return _stored("sweep" if "sweeps" in names.options else "probe")(line, start)


def _shown(line: Line, start: str) -> Iterable[Offer]:
    sweeps = [] if ":" in start else _stored("sweep")(line, start)
    return [*sweeps, *_stored("probe")(line, start)]


def _by_name(line: Line, start: str) -> Iterable[Offer]:
    return _stored("workload")(line, start) if line.command == "workloads" and line.first == "show" else []


def _actions(line: Line, _start: str) -> Iterable[Offer]:
    return map(Offer, _ACTIONS[line.command])


def _formats(_line: Line, _start: str) -> Iterable[Offer]:
    return map(Offer, ("NATIVE", *catalogue.LINEAR_NAMES))


def _cache_formats(_line: Line, _start: str) -> Iterable[Offer]:
    return map(Offer, ("NATIVE", *catalogue.ATTENTION_NAMES))


def _words(*words: str) -> Source:
    return lambda _line, _start: map(Offer, words)


_BY_NAME: Mapping[str, Source] = {
    "device": _devices,
    "prefill_device": _devices,
    "decode_device": _devices,
    "model": _models,
    "workload": _stored("workload"),
    "sweep": _stored("sweep"),
    "report": _reports,
    "names": _compared,
    "probe": _stored("probe"),
    "rows": _stored("probe"),
    "reference": _shown,
    "action": _actions,
    "name": _by_name,
    "serving_model": _serving_models,
    "mode": _words("aggregated", "prefill", "decode", "pd"),
    "vary": _words("ttft", "tpot", "e2e", "memory"),
    "preset": _words("sweepdb", "upstream", "seed000", "seed001"),
    "quantization": _formats,
    "experts_quantization": _formats,
    "mixers_quantization": _formats,
    "head_quantization": _formats,
    "drafts_quantization": _formats,
    "kv_cache_quantization": _cache_formats,
}
_BY_COMMAND: Mapping[tuple[str, str], Source] = {
    ("evaluate", "sweep"): _words(),
    ("evaluate", "mode"): _words("prefill", "decode", "aggregated"),
    ("launch", "engine"): _launchers,
    ("prices", "names"): lambda line, start: _devices(line, start) if line.first == "set" else [],
    ("validate", "engine"): _serving_models,
    ("validate", "against"): _words("aic"),
    ("models", "name"): _models,
    ("devices", "name"): lambda line, start: [*_devices(line, start), Offer("add", "keep a profile of your own")],
    ("void", "reference"): _stored("sweep"),
    ("unvoid", "reference"): _stored("sweep"),
}


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
