"""Names created by queries/views/*.sql, and what each builds on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

from store.schema import RAW_NAMES, filled

VIEWS = Path(__file__).parent / "views"
_CREATED = re.compile(r"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+)?(?:VIEW|MACRO|FUNCTION)\s+(\w+)", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_RAW = re.compile(r"\braw\.(\w+)", re.IGNORECASE)
_WORD = re.compile(r"\b[a-z]\w*")
_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?!\s*\.)\b|\b(\w+)\s*\(", re.IGNORECASE)


class VocabularyFile:
    """Names created, names built on, and text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = path.read_text(encoding="utf-8")
        self.creates = tuple(name.lower() for name in _CREATED.findall(_bare(self._text)))

    @cached_property  # a question needs two files of forty
    def sql(self) -> str:
        return filled(self._text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(_bare(self.sql)))

    @cached_property
    def public(self) -> frozenset[str]:
        return (_sources(self.sql) & vocabulary().keys()) - set(self.creates)

    @cached_property
    def raw(self) -> frozenset[str]:
        return frozenset(name.lower() for name in _RAW.findall(_bare(self.sql))) & RAW_NAMES


@cache
def vocabulary() -> dict[str, VocabularyFile]:
    return {name: file for file in map(VocabularyFile, sorted(VIEWS.glob("*.sql"))) for name in file.creates}


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
