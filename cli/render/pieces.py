"""Pieces of an answer's text that a terminal may show otherwise: the plain text is what pipes and files get.

Not here: fitting them to a terminal (cli.render.screen)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Self

WIDEST_TEXT = 120


class Aside(str):
    """Rules and assumptions: a terminal shows them when asked to explain."""

    __slots__ = ()


class Paragraph(str):
    """Sentences that a terminal breaks at its own width."""

    __slots__ = ("indent", "sentences")
    sentences: str
    indent: str

    def __new__(cls, sentences: str, *, indent: str = "", unbroken: bool = False) -> Self:
        """The sentences, filled for whom no width is known, or as one line."""
        made = super().__new__(cls, f"{sentences}\n" if unbroken else filled(sentences, WIDEST_TEXT, indent))
        made.sentences, made.indent = sentences, indent
        return made


class Table(str):
    """An aligned table, with its cells as texts. Cells that only a terminal shows stand in `beside`."""

    __slots__ = ("beside", "columns", "may_miss", "numeric", "replaced", "rows")
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    may_miss: bool  # whether a narrow terminal may leave columns out
    beside: Mapping[str, Sequence[str]]  # columns that a terminal has besides, or in place of one of the same name
    replaced: frozenset[str]  # columns that a terminal has not, since one besides says the same

    def __new__(
        cls, text: str, *, columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
    ) -> Self:
        """The drawn text and what it was drawn from."""
        made = super().__new__(cls, text)
        made.columns, made.rows, made.numeric = columns, rows, numeric
        made.may_miss, made.beside, made.replaced = False, {}, frozenset()
        return made


def filled(sentences: str, width: int, indent: str = "") -> str:
    """Lines of at most a width, the last one ended too; names are not broken."""
    return textwrap.fill(sentences, width, subsequent_indent=indent, break_long_words=False) + "\n"
