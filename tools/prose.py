"""Text that is hard to read at first sight: documents, help, errors, first sentences of docstrings.

    python -m tools.prose            lists each offence by file and line
    python -m tools.prose --count    counts words: of documents that people wrote, with offences, and of docstrings

Tables, code and generated parts of documents are not read. A test keeps the list empty."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer.main

from cli.main import build_app
from tools.reference_pages import REFERENCE_PAGES

ROOT = Path(__file__).parents[1]
PACKAGES = ("store", "migrations", "evaluator", "queries", "sweepdb", "cli", "tools")
MOST_WORDS = 20  # of a docstring's first sentence
MOST_WORDS_OF_A_SENTENCE = 25  # of documents, help and errors
SHORTEST_LINE = 60  # of a line that the next one's first word would have fitted on
LONGEST_LINE = 118
# Words of our own, and the field's beside each.
HOUSE_WORDS = {
    r"(?:un)?play(?:s|ed|ing)?": "simulate, simulation",
    r"seats?": "max-num-seqs",
    r"(?:lay|lays|laid) down": "write",
    r"lone requests?": "a single request",
    r"bent shares?": "interpolated share",
    r"moved limits?": "a new limit",
    r"no key moves|no key moved|keys (?:must not )?move": "stored results stay valid",
    r"this circle|wider circles?|a circle of": "group",
    r"drawn towards": "shrunk towards",
    r"held to": "checked against",
    r"whoever|nobody knows": "name the actor",
}
# A column is called `probe`, and `regress` compares two sides: these are our own in documents alone.
WORDS_OF_DOCUMENTS = {
    r"probes?": "row, operating point",
    r"sides? apart|two sides|either side|both sides": "disaggregated, both pools",
}
# Pronouns that stand for a noun of another sentence: "What sealing did" is "The outcome of sealing".
_NOUNLESS = re.compile(r"^(what|those|ones|that|such|it|they|this)\b|^one(?= (of|that|which|is)\b|$)", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\d)[.:?!](?=\s|$)|\n\n")
_HOUSE, _HOUSE_OF_DOCUMENTS = (
    {re.compile(rf"(?<![\w`/.-])(?:{word})(?![\w`/])", re.IGNORECASE): said for word, said in words.items()}
    for words in (HOUSE_WORDS, HOUSE_WORDS | WORDS_OF_DOCUMENTS)
)
_STOP = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!vs)[.:?!][)\"*]*(?=\s|$)")
_GENERATED = re.compile(r"<!-- (?!end)[^>]*-->.*?<!-- end[^>]*-->", re.DOTALL)
_FENCE = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]+`", re.DOTALL)
_WORD = re.compile(r"\S*\w\S*")
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")
_PART_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_BETWEEN_NAMES = {
    "a", "an", "the", "of", "to", "in", "on", "at", "by", "for", "from", "with", "as", "is", "are", "it", "its", "and",
    "or", "that", "which", "each",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offence:
    """A text to rewrite."""

    path: str
    line: int
    reason: str
    text: str


def offences() -> list[Offence]:
    """By file and line."""
    return [*(one for path in documents() for one in of_document(path)), *_of_reference(), *_of_help(), *_of_packages()]


def documents() -> list[Path]:
    """Only those that people write."""
    beside = (ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))
    return sorted([*(ROOT / "docs").rglob("*.md"), *beside])


def of_document(path: Path) -> Iterator[Offence]:
    """Long sentences, and house words that the glossary lacks."""
    where = str(path.relative_to(ROOT))
    if is_generated(path.read_text(encoding="utf-8")):
        return
    for line, sentence in sentences(path.read_text(encoding="utf-8")):
        for reason in faults(sentence, _HOUSE_OF_DOCUMENTS):
            yield Offence(where, line, reason, sentence)


def _of_reference() -> Iterator[Offence]:
    """Not the schema: its meanings are comments in stores, which upgrades change."""
    for name in ("commands.md", "queries.md", "sweep-files.md", "support.md", "expected-errors.md"):
        for line, sentence in sentences(REFERENCE_PAGES[name]()):
            yield from (Offence(f"make site: {name}", line, reason, sentence) for reason in faults(sentence))


def is_generated(text: str) -> bool:
    """Its third line says so."""
    return text.split("\n", 3)[2:3] != [] and text.split("\n", 3)[2].startswith("Made by `")


def faults(sentence: str, house: Mapping[re.Pattern[str], str] = _HOUSE) -> Iterator[str]:
    """Reasons to rewrite a sentence."""
    words = len(_WORD.findall(sentence))
    if words > MOST_WORDS_OF_A_SENTENCE:
        yield f"sentence of {words} words"
    for pattern, said in house.items():
        if found := pattern.search(sentence):
            yield f"{found[0]!r} is a word of our own: {said}"


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """With the line on which its paragraph begins."""
    for line, paragraph in _paragraphs(_prose(text)):
        yield from ((line, part) for part in _STOP.split(paragraph) if part.strip())


def words_by_hand(text: str) -> int:
    """Without code and generated parts."""
    return 0 if is_generated(text) else len(_WORD.findall(_blank(_blank(text, _GENERATED), _FENCE)))


def _prose(text: str) -> str:
    """Everything else blanked, on as many lines."""
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
    """And items of lists, on one line each."""
    begun, parts = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = line.strip()
        if parts and (not bare or _ITEM.match(bare)):
            yield begun, " ".join(parts)
            parts = []
        if bare:
            begun = begun if parts else number
            parts.append(_ITEM.sub("", bare, count=1) if _ITEM.match(bare) else bare)


def _of_help() -> Iterator[Offence]:
    """Each text once."""
    seen = set[str]()
    for where, text in _help_texts(typer.main.get_command(build_app()), "sweepdb"):
        if text not in seen:
            seen.add(text)
            yield from of_text(f"{where} --help", 0, text)


def _help_texts(command: Any, name: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401  of one Typer or another
    yield name, command.help or ""
    yield from ((name, option.help) for option in command.params if getattr(option, "help", None))
    for called, one in getattr(command, "commands", {}).items():
        yield from _help_texts(one, f"{name} {called}")


def of_text(where: str, line: int, text: str) -> Iterator[Offence]:
    for sentence in _STOP.split(" ".join(_CODE.sub("code", text).split())):
        yield from (Offence(where, line, reason, sentence.strip()) for reason in faults(sentence))


def _of_packages() -> Iterator[Offence]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "versions" not in path.parts:
                where, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))
                yield from _of_docstrings(where, tree)
                yield from of_errors(where, tree)


def of_errors(where: str, tree: ast.AST) -> Iterator[Offence]:
    """A value in a text counts as a word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
            for told in (*node.args[:1], *(one.value for one in node.keywords if one.arg == "hint")):
                yield from of_text(where, node.lineno, _as_text(told))


def _as_text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_as_text(part) for part in node.values)
    return "X" if isinstance(node, ast.FormattedValue) else ""


def _of_docstrings(where: str, tree: ast.AST) -> Iterator[Offence]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is None:
            continue
        line = node.body[0].lineno
        sentence = first_sentence(text)
        for reason in (*reasons(text), *(["says no more than its names"] if says_names_again(node, text) else [])):
            yield Offence(where, line, reason, sentence)


def says_names_again(node: ast.AST, text: str) -> bool:
    """Whether a docstring has no word but those of the function, its arguments and their types."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    parts = (node.args, node.returns or node.args)
    named = {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)}
    named |= {node.name, *(one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg))}
    known = {_stem(word) for name in named for word in _PART_OF_NAME.findall(name)}
    return {_stem(word) for word in re.findall("[a-z]+", text.lower()) if word not in _BETWEEN_NAMES} <= known


def _stem(word: str) -> str:
    return re.sub(r"(?<=..)(?:ies|es|ed|ing|s|e|y)$", "", word.lower())


def first_sentence(text: str) -> str:
    """On one line."""
    return " ".join(_SENTENCE.split(text.strip(), maxsplit=1)[0].split())


def reasons(text: str) -> Iterator[str]:
    """Reasons to rewrite a docstring."""
    sentence = first_sentence(text)
    words = len(sentence.split())
    if words > MOST_WORDS:
        yield f"first sentence of {words} words"
    if _NOUNLESS.match(sentence):
        yield f"begins with {sentence.split()[0]!r}"
    if _has_stump(text):
        yield "a line ends long before its margin"


def _has_stump(text: str) -> bool:
    """A line stops early within a paragraph."""
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
    total = wrong = 0
    for path in documents():
        words, found = words_by_hand(path.read_text(encoding="utf-8")), len(list(of_document(path)))
        total, wrong = total + words, wrong + found
        sys.stdout.write(f"{words:6,} {found:4} {path.relative_to(ROOT)}\n")
    sys.stdout.write(f"{total:6,} {wrong:4} in all\n")
    for package in PACKAGES:
        told = sum(_words_of_docstrings(path) for path in (ROOT / package).rglob("*.py"))
        sys.stdout.write(f"{told:6,}      docstrings of {package}\n")


def _words_of_docstrings(path: Path) -> int:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds))
    return sum(len(_WORD.findall(ast.get_docstring(node) or "")) for node in nodes)


if __name__ == "__main__":
    if "--count" in sys.argv:
        _count()
        sys.exit()
    found = offences()
    for one in found:
        sys.stdout.write(f"{one.path}:{one.line}: {one.reason}: {one.text[:150]}\n")
    sys.exit(1 if found else 0)
