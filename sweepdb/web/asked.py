"""Questions from an address, with the command line's options. Never opens files."""

from __future__ import annotations

from collections.abc import Iterable

from queries.asking import (
    Declared,
    Question,
    option_table,
    other_words,
    plain_types,
    question_of,
    question_report,
    shown,
)
from store.errors import InputError

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def question_of_parameters(name: str, parameters: Iterable[tuple[str, str]]) -> Question:
    asked = question_report(name)
    given: dict[str, object] = {}
    several: dict[str, list[str]] = {}
    others = other_words(option_table().values())
    for key, text in parameters:
        several.setdefault(key.replace("-", "_"), []).append(text)
    for keyword, texts in several.items():
        item = option_table().get(others.get(keyword, keyword))
        if keyword == "mix":
            given[keyword] = tuple(map(_weighted, texts))
        elif asked.names is not None and keyword in asked.names.options:
            given[keyword] = tuple(part for text in texts for part in text.split(",") if part)
        elif item is not None and item.takes_several:
            given[keyword] = ",".join(texts)
        elif len(texts) > 1:
            raise InputError(f"`{keyword}` is given {len(texts)} times, and takes one value")
        else:
            given[keyword] = texts[0] if item is None else _typed(item, texts[0])
    return question_of(name, given)


def _typed(item: Declared, text: str) -> object:
    kinds = [kind for kind in plain_types(item.type) if kind is not type(None)]
    if bool in kinds:
        if text.lower() not in _WORDS:
            raise InputError(f"`{item.keyword}` is true or false, not {shown(text)}")
        return _WORDS[text.lower()]
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:  # a whole number of 5,000 digits is none, either
                continue
    if str in kinds:
        return text
    raise InputError(f"`{item.keyword}` is a {'whole ' if kinds == [int] else ''}number, not {shown(text)}")


def _weighted(text: str) -> tuple[str, float]:
    name, separator, weight = text.rpartition("=")
    try:
        if separator and name:
            return name, float(weight)
    except ValueError:
        pass
    raise InputError(f"`mix={text[:100]}`: a workload and its weight are expected", hint="such as `mix=chat=0.6`")
