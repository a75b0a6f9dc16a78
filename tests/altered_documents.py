"""Every way to alter a JSON document in one place: what a test of proofs and answers tries in turn."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

Place = tuple[object, ...]


def places(value: object, *, every: bool = True, path: Place = ()) -> Iterator[Place]:
    """The way to every value of a document; of long lists the first and last items alone, unless `every` is meant."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, every=every, path=(*path, name))
    elif isinstance(value, list):
        last = len(value) - 1
        for index, item in enumerate(value):
            if every or index in {0, last}:
                yield from places(item, every=every, path=(*path, index))


def alterations(document: object, path: Place) -> Iterator[tuple[str, object]]:
    """What was done at a place, and a document with that."""
    value = _at(document, path)
    if isinstance(value, dict):
        yield "a key added", _with(document, path, {**value, "extra": 1})
    elif isinstance(value, list):
        yield "an item added", _with(document, path, [*value, value[0] if value else "extra"])
        if value != value[::-1]:
            yield "turned round", _with(document, path, value[::-1])
        if len(value) > 2 and value[0] != value[1]:
            yield "two items changed over", _with(document, path, [value[1], value[0], *value[2:]])
    else:
        for other in _others(value):
            yield f"{other!r:.20} for {value!r:.20}", _with(document, path, other)
    if path:
        changed = copy.deepcopy(document)
        del _at(changed, path[:-1])[path[-1]]
        yield "removed", changed
        if isinstance(path[-1], int):
            doubled = copy.deepcopy(document)
            _at(doubled, path[:-1]).insert(path[-1], value)
            yield "doubled", doubled


def with_a_key_twice(text: str) -> Iterator[tuple[str, str]]:
    """Texts of an indented JSON document in which one key stands twice, its false value first."""
    for found in re.finditer(r'^ *("(?:[^"\\]|\\.)*": )', text, re.MULTILINE):
        yield found[1], f"{text[: found.start(1)]}{found[1]}1.0,\n{text[found.start(1) :]}"


def _others(value: object) -> list[object]:
    if value is None:
        return [True, "x"]
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [value + 1, float(value), str(value)]
    if isinstance(value, float):
        return [value * (1 + 1e-9) + 1e-9, str(value)]
    return [f"{value[:-1]}{'0' if value[-1:] != '0' else '1'}", f"{value}\u200b"] if isinstance(value, str) else []


def _at(document: object, path: Place) -> object:
    for step in path:
        document = document[step]
    return document


def _with(document: object, path: Place, value: object) -> object:
    if not path:
        return value
    changed = copy.deepcopy(document)
    _at(changed, path[:-1])[path[-1]] = value
    return changed
