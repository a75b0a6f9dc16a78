"""Names created by queries/views/*.sql, and what each builds on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

from store.schema import RAW_NAMES, filled

VIEWS = Path(__file__).parent / "views"
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_RAW = re.compile(r"\braw\.(\w+)", re.IGNORECASE)
_WORD = re.compile(r"\b[a-z]\w*")
_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?!\s*\.)\b|\b(\w+)\s*\(", re.IGNORECASE)


class VocabularyFile:
    """The view that a file is named after, what it is built on, and text."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.stem

    @cached_property  # a question needs two files of thirty
    def sql(self) -> str:
        return filled(self.path.read_text(encoding="utf-8"))

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(_bare(self.sql)))

    @cached_property
    def public(self) -> frozenset[str]:
        return (_sources(self.sql) & vocabulary().keys()) - {self.name}

    @cached_property
    def raw(self) -> frozenset[str]:
        return frozenset(name.lower() for name in _RAW.findall(_bare(self.sql))) & RAW_NAMES


@cache
def vocabulary() -> dict[str, VocabularyFile]:
    return {path.stem: VocabularyFile(path) for path in sorted(VIEWS.glob("*.sql"))}


def files_for(names: Iterable[str]) -> list[VocabularyFile]:
    known = vocabulary()
    ordered: list[VocabularyFile] = []

    def add(file: VocabularyFile) -> None:
        if file not in ordered:
            for name in sorted(file.public):
                add(known[name])
            ordered.append(file)

    for name in sorted(names):
        if name in known:
            add(known[name])
    return ordered


def _bare(text: str) -> str:
    return _COMMENT.sub(" ", text)


def _sources(text: str) -> frozenset[str]:
    return frozenset((table or function).lower() for table, function in _SOURCE.findall(_bare(text)))
