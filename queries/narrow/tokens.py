"""SQL as tokens, so that names are told from texts, comments and aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from store.light_dataclass import NamedTuple

_TOKEN = re.compile(
    r"""(\s*)(
        '(?:[^']|'')*' | "(?:[^"]|"")*"       # texts and quoted names
        | --[^\n]*                            # a comment
        | [^\W\d]\w* | \d[\w.]*               # words and numbers
        | :=                                  # names an argument
        | \S
    )""",
    re.VERBOSE,
)
_OPENS, _CLOSES = "([{", ")]}"


class Token(NamedTuple):
    space: str  # before it: one space, or none
    text: str


Tokens = Sequence[Token]


def tokens_of(sql: str) -> list[Token]:
    """Without comments; gaps become one space."""
    found: list[Token] = []
    apart = False
    for space, text in _TOKEN.findall(sql):
        apart = apart or bool(space)
        if text.startswith("--"):
            apart = True
        else:
            found.append(Token(" " if apart else "", text))
            apart = False
    return found


def statements_of(tokens: Tokens) -> Iterator[Tokens]:
    """The statements of a text, which semicolons end."""
    start = 0
    for place, token in enumerate(tokens):
        if token.text == ";":
            yield tokens[start:place]
            start = place + 1
    if start < len(tokens):
        yield tokens[start:]


def text_of(tokens: Tokens) -> str:
    return "".join(map("".join, tokens)).strip()


def text_at(tokens: Tokens, place: int) -> str:
    """Empty beyond either end."""
    return tokens[place].text if 0 <= place < len(tokens) else ""


def end_of_brackets(tokens: Tokens, start: int) -> int:
    depth = 0
    for place in range(start, len(tokens)):
        text = tokens[place].text
        if text in _OPENS:
            depth += 1
        elif text in _CLOSES:
            depth -= 1
            if not depth:
                return place
    raise ValueError(f"a bracket without an end: {text_of(tokens[start : start + 20])}")


def listed(tokens: Tokens) -> Iterator[Tokens]:
    """Commas in brackets do not count."""
    start = place = 0
    while place < len(tokens):
        text = tokens[place].text
        if text in _OPENS:
            place = end_of_brackets(tokens, place)
        elif text == ",":
            yield tokens[start:place]
            start = place + 1
        place += 1
    if start < len(tokens):
        yield tokens[start:]


def named(argument: Tokens) -> tuple[str, Tokens]:
    """Name and value; the name is empty for a positional one."""
    return (argument[0].text, argument[2:]) if text_at(argument, 1) == ":=" else ("", argument)


def is_whole(tokens: Tokens) -> bool:
    """Needs no brackets: a word, text, dotted name or call."""
    names = [token.text for token in tokens]
    start = 0
    while start + 2 < len(names) and names[start + 1] == ".":
        start += 2
    if start + 1 == len(names):
        return True
    if names[start] not in _OPENS:
        start += 1
    return names[start] in _OPENS and end_of_brackets(tokens, start) == len(tokens) - 1
