"""Text that is hard to read at first sight, by file and line: documents, help, and first sentences of docstrings.

    python -m tools.prose            lists each offence
    python -m tools.prose --count    counts the words of each document by hand, and its long sentences

Tables, code and generated parts of documents are not read. A test keeps the list empty."""

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
MOST_WORDS = 20  # of a docstring's first sentence
MOST_WORDS_OF_A_SENTENCE = 25  # of documents and help
SHORTEST_LINE = 60  # of a line that the next one's first word would have fitted on
LONGEST_LINE = 118
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
# Words of our own, and the field's beside each.
HOUSE_WORDS = {
    r"play(?:s|ed|ing)?": "simulate, simulation",
    r"seats?": "max-num-seqs",
    r"probes?": "operating point",
    r"(?:lay|lays|laid) down": "write",
    r"lone requests?": "a single request",
    r"bent shares?": "interpolated share",
    r"moved limits?": "a new limit",
    r"no key moves|no key moved|keys (?:must not )?move": "stored results stay valid",
    r"sides apart|two sides|either side|both sides": "disaggregated, both pools",
    r"this circle|wider circles?|a circle of": "group",
    r"drawn towards": "shrunk towards",
    r"held to": "checked against",
    r"asked anew|whoever|nobody knows": "name the actor",
}
_HOUSE = {re.compile(rf"(?<![\w`/.-])(?:{word})(?![\w`/])", re.IGNORECASE): said for word, said in HOUSE_WORDS.items()}
# Pronouns that stand for a noun of another sentence: "What sealing did" is "The outcome of sealing".
_NOUNLESS = re.compile(r"^(what|those|ones|that|such|it|they|this)\b|^one(?= (of|that|which|is)\b|$)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\d)[.:?!](?=\s|$)|\n\n")
_STOP = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)[.:?!][)\"*]*(?=\s|$)")
_GENERATED = re.compile(r"<!-- (?!end)[^>]*-->.*?<!-- end[^>]*-->", re.DOTALL)
_FENCE = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]+`", re.DOTALL)
_WORD = re.compile(r"\S*\w\S*")
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")


@dataclass(frozen=True, slots=True)
class Offence:
    """One text to rewrite."""

    path: str
    line: int
    reason: str
    text: str


def offences() -> list[Offence]:
    """Every offence of documents and packages, in the order of files and lines."""
    return [*(one for path in documents() for one in of_document(path)), *_of_docstrings()]


def documents() -> list[Path]:
    """The documents that people write."""
    return sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))])


def of_document(path: Path) -> Iterator[Offence]:
    """Long sentences of a document, and house words that the glossary does not explain."""
    where = str(path.relative_to(ROOT))
    if is_generated(path.read_text(encoding="utf-8")):
        return
    for line, sentence in sentences(path.read_text(encoding="utf-8")):
        for reason in faults(sentence):
            yield Offence(where, line, reason, sentence)


def is_generated(text: str) -> bool:
    """Whether a program writes the whole document, as its third line says."""
    return text.split("\n", 3)[2:3] != [] and text.split("\n", 3)[2].startswith("Made by `")


def faults(sentence: str, *, house: bool = True) -> Iterator[str]:
    """Why a sentence is hard to read; nothing where it is not."""
    words = len(_WORD.findall(sentence))
    if words > MOST_WORDS_OF_A_SENTENCE:
        yield f"sentence of {words} words"
    for pattern, said in _HOUSE.items() if house else ():
        if found := pattern.search(sentence):
            yield f"{found[0]!r} is a word of our own: {said}"


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence of a document's prose, with the line on which its paragraph begins."""
    for line, paragraph in _paragraphs(_prose(text)):
        yield from ((line, part) for part in _STOP.split(paragraph) if part.strip())


def words_by_hand(text: str) -> int:
    """Words of a document outside code and generated parts; bars of tables are none."""
    return 0 if is_generated(text) else len(_WORD.findall(_blank(_blank(text, _GENERATED), _FENCE)))


def _prose(text: str) -> str:
    """The document with everything that is no prose blanked, on as many lines."""
    for pattern in (_GENERATED, _FENCE, _COMMENT):
        text = _blank(text, pattern)
    text = _CODE.sub(lambda found: "code" + "\n" * found[0].count("\n"), text)
    text = _LINK.sub(r"\1", text)
    return "\n".join("" if _is_no_prose(line) else line for line in text.split("\n"))


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def _is_no_prose(line: str) -> bool:
    return line.lstrip().startswith(("|", "#", ">")) or line.startswith("    ")


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items of lists, each on one line."""
    begun, parts = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = line.strip()
        if parts and (not bare or _ITEM.match(bare)):
            yield begun, " ".join(parts)
            parts = []
        if bare:
            begun = begun if parts else number
            parts.append(_ITEM.sub("", bare, count=1) if _ITEM.match(bare) else bare)


def _of_docstrings() -> Iterator[Offence]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "versions" not in path.parts:
                yield from _of_file(path)


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


def _count() -> None:
    """Print the words of each document, and how many of its sentences are too long or have a house word."""
    total = wrong = 0
    for path in documents():
        words, found = words_by_hand(path.read_text(encoding="utf-8")), len(list(of_document(path)))
        total, wrong = total + words, wrong + found
        sys.stdout.write(f"{words:6,} {found:4} {path.relative_to(ROOT)}\n")
    sys.stdout.write(f"{total:6,} {wrong:4} in all\n")


if __name__ == "__main__":
    if "--count" in sys.argv:
        _count()
        sys.exit()
    found = offences()
    for one in found:
        sys.stdout.write(f"{one.path}:{one.line}: {one.reason}: {one.text[:150]}\n")
    sys.exit(1 if found else 0)
