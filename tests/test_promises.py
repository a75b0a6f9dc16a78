"""Every sentence of the page of promises has a test: promises.txt says which, and this holds it to the page and the tests."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "trust-in-a-store.md"
LIST = HERE / "promises.txt"
HISTORY = "history"  # what was counted on a day, what it cost, or where a promise ends: nothing that a test can break


def sentences():
    """The sentences and the rows of tables of the page, without its headings and its figures."""
    text = PAGE.read_text(encoding="utf-8")
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().splitlines()
        if lines[0].startswith("|"):
            yield from (" ".join(line.strip("| ").split()) for line in lines[2:])
        elif not lines[0].startswith("#"):
            items = re.split(r"\n(?=\* )", block.strip())
            for item in items:
                yield from re.split(r"(?<=[.:!?])\s+(?=[A-Z`*(])", " ".join(item.removeprefix("* ").split()))


def listed():
    """What the list says of each sentence: how it begins, and the tests that would fail without it."""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            begins, _, tests = line.rpartition(" <- ")
            yield begins, tests.split()


def test_each_sentence_is_listed_once_in_its_order():
    found, begins = list(sentences()), [begins for begins, _ in listed()]
    unlisted = [text for text, begin in zip(found, begins, strict=False) if not text.startswith(begin)]
    assert unlisted[:1] == [], "say in tests/promises.txt which tests would fail without it"
    assert len(found) == len(begins)


def test_what_is_listed_is_a_test():
    known = set()
    for file in HERE.rglob("test_*.py"):
        known.update(re.findall(r"^(?:    )?(?:async )?def test_(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert {name for _, tests in listed() for name in tests} - known == {HISTORY}
