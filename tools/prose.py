"""Docstrings that are hard to read at first sight, by file and line.

    python -m tools.prose

lists first sentences of more than 20 words, first words that stand for a noun which never comes, and stumps of text
that was wrapped twice; a test keeps the list empty."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("store", "migrations", "evaluator", "queries", "sweepdb", "cli", "tools")
MOST_WORDS = 20
SHORTEST_LINE = 60  # of a line that the next one's first word would have fitted on
LONGEST_LINE = 118
# Pronouns that stand for a noun of another sentence: "What sealing did" is "The outcome of sealing".
_NOUNLESS = re.compile(r"^(what|those|ones|that|such|it|they|this)\b|^one(?= (of|that|which|is)\b|$)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\d)[.:?!](?=\s|$)|\n\n")


@dataclass(frozen=True, slots=True)
class Offence:
    """One docstring to rewrite."""

    path: str
    line: int
    reason: str
    text: str


def offences() -> list[Offence]:
    """Every offence of the packages, in the order of files and lines."""
    return [
        offence
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "versions" not in path.parts
        for offence in _of_file(path)
    ]


def _of_file(path: Path) -> Iterator[Offence]:
    where = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None:
            continue
        line = node.body[0].lineno
        sentence = first_sentence(text)
        for reason in reasons(text):
            yield Offence(where, line, reason, sentence)


def first_sentence(text: str) -> str:
    """The text up to its first stop, on one line."""
    return " ".join(_SENTENCE.split(text.strip(), maxsplit=1)[0].split())


def reasons(text: str) -> Iterator[str]:
    """Why a docstring is hard to read; nothing where it is not."""
    sentence = first_sentence(text)
    words = len(sentence.split())
    if words > MOST_WORDS:
        yield f"first sentence of {words} words"
    if _NOUNLESS.match(sentence):
        yield f"begins with {sentence.split()[0]!r}"
    if _has_stump(text):
        yield "a line ends long before its margin"


def _has_stump(text: str) -> bool:
    """Whether a line stops early in the middle of a paragraph of prose."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        if any(line.startswith((" ", "*", "|", "-")) for line in lines):
            continue  # lists, tables and code
        for line, following in pairwise(lines):
            first = following.split()[0]
            if len(line) < SHORTEST_LINE and len(line) + 1 + len(first) < LONGEST_LINE - 8 and not line.endswith("."):
                return True
    return False


if __name__ == "__main__":
    found = offences()
    for one in found:
        sys.stdout.write(f"{one.path}:{one.line}: {one.reason}: {one.text[:150]}\n")
    sys.exit(1 if found else 0)
