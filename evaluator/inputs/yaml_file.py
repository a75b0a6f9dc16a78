"""Reads a user's YAML or JSON in bounded time and memory; a fault is one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from store.errors import InputError
from store.light_dataclass import dataclass

DEEPEST = 32
_SHOWN = 80


def read_text(path: Path, *, largest_bytes: int, what: str, hint: str | None = None) -> str:
    """Never reads more than `largest_bytes`: a device has no end."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            content = file.read(largest_bytes + 1) if size <= largest_bytes else b""
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if size > largest_bytes or len(content) > largest_bytes:
        found = f"{size} bytes is" if size > largest_bytes else "its content is"
        raise InputError(f"{path}: {found} too large for {what} (at most {largest_bytes})", hint=hint)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8") from error


def shortened(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of five thousand digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def parse_yaml(text: str, where: str) -> object:
    import yaml

    # libyaml is ten times faster, but nesting without end would overflow its stack: events are looked at first.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_odd(yaml.parse(text, Loader=loader), where)
        return yaml.load(text, Loader=loader)  # noqa: S506  both are safe loaders
    except yaml.YAMLError as error:
        raise InputError(f"{where}: not a YAML file: {_problem(error)}") from error
    except ValueError as error:  # a date in month 13, a number of five thousand digits
        raise InputError(f"{where}: not a YAML file: {error}") from error


def parse_mapping(text: str, where: str) -> dict[str, Any]:
    """The content of a file that comes with the program; tests hold each to the declaration of such files."""
    content = parse_yaml(text, where)
    if not isinstance(content, dict):
        raise TypeError(f"{where} is no mapping")
    return content


@dataclass(slots=True)
class _Open:
    """An open list or mapping, with its keys and whether one comes next."""

    keys: set[str] | None
    at_key: bool = True


def _refuse_odd(events: Iterable[Any], where: str) -> None:
    """Endless nesting, and repeated keys, of which the last would win in silence."""
    import yaml

    outer: list[_Open] = []
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            outer.pop()
        elif isinstance(event, yaml.NodeEvent):
            if outer and (keys := outer[-1].keys) is not None:
                if outer[-1].at_key and isinstance(event, yaml.ScalarEvent):
                    if event.value in keys:
                        line = getattr(event.start_mark, "line", 0) + 1
                        raise InputError(f"{where}: line {line}: the key {shortened(event.value)} is said twice")
                    keys.add(event.value)
                outer[-1].at_key = not outer[-1].at_key
            if isinstance(event, yaml.CollectionStartEvent):
                outer.append(_Open(set() if isinstance(event, yaml.MappingStartEvent) else None))
                if len(outer) > DEEPEST:
                    raise InputError(f"{where}: not a YAML file of ours: more than {DEEPEST} levels deep")


def parse_json(text: str | bytes, where: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"{where}: not JSON of ours: nested too deeply") from None
    except ValueError as error:  # a number of five thousand digits, too
        raise InputError(f"{where}: not JSON: {error}") from error


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    line = "" if mark is None else f"line {mark.line + 1}: "
    return line + str(getattr(error, "problem", None) or str(error).splitlines()[0])


def catalogue_ids() -> tuple[str, ...]:
    """Reads the lines that begin entries, for completion in a shell: parsing takes a hundred times as long."""
    folder = resources.files("evaluator") / "inputs" / "catalogue"
    texts = (item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".yaml"))
    return tuple(
        line.partition(":")[0] for text in texts for line in text.splitlines() if line[:1] not in {"", " ", "#", "-"}
    )
