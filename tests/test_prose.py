"""Text reads at first sight: tools.prose finds none that does not, and finds each kind of fault."""

from __future__ import annotations

import ast

import pytest

from tools.prose import (
    MOST_WORDS,
    MOST_WORDS_OF_A_SENTENCE,
    documents,
    faults,
    first_sentence,
    of_document,
    of_errors,
    of_text,
    offences,
    reasons,
    says_names_again,
    sentences,
    words_by_hand,
)

GOOD = """The outcome of sealing: parts laid down, and what they hold.

Parts that did not match are laid down again, however often one seals, and few of them remain in
the end, because each is merged with parts of its own size.

    a drawing | of
    parts     | beside text
"""
STUMP = """The steps of a schedule.

A step has its prompts, and the first
of them belongs to the group that began the step, whatever comes after it in the queue."""


def test_no_text_is_hard_to_read():
    found = [f"{one.path}:{one.line}: {one.reason}: {one.text}" for one in offences()]
    assert not found, "\n".join(found)


def test_a_good_docstring_has_no_fault():
    assert not list(reasons(GOOD))


@pytest.mark.parametrize(
    "first", ["What sealing did.", "Those that fit.", "One.", "That it is fitted.", "It is sealed."]
)
def test_a_first_word_without_its_noun_is_found(first):
    assert list(reasons(first)) == [f"begins with {first.split()[0].rstrip('.')!r}"]


@pytest.mark.parametrize("first", ["One wave of prompts.", "Theory of waves.", "Whatever the file holds."])
def test_words_that_only_look_like_them_are_left(first):
    assert not list(reasons(first))


def test_a_long_first_sentence_is_found():
    words = ["Parts"] * MOST_WORDS
    assert not list(reasons(" ".join(words) + ". More."))
    assert list(reasons(" ".join([*words, "more"]) + ". More.")) == [f"first sentence of {MOST_WORDS + 1} words"]


def test_a_stump_of_text_that_was_wrapped_twice_is_found():
    assert list(reasons(STUMP)) == ["a line ends long before its margin"]


def test_a_first_sentence_ends_at_its_first_stop():
    assert first_sentence("The rate, e.g. 0.5 of\nall: the rest waits.") == "The rate, e.g. 0.5 of all"
    assert first_sentence("A title\n\nIts text.") == "A title"


@pytest.mark.parametrize(
    ("told", "again"),
    [
        ("The price of each device.", True),  # price, device: words of the name and its argument
        ("Prices a device.", True),
        ("The price of each device in USD an hour.", False),
        ("None where nobody entered one.", False),
    ],
)
def test_a_docstring_that_says_names_again_is_found(told, again):
    (node,) = ast.parse("def price(device: str) -> float: ...").body
    assert says_names_again(node, told) is again


LONG = " ".join(["word"] * (MOST_WORDS_OF_A_SENTENCE + 1))
PAGE = f"""# A heading {LONG}

First sentence of `code {LONG}`. A [link {LONG}]({LONG}) ends
on another line; its text counts: so does this.

| a table | {LONG} |
|---|---|

* an item
* another

```sh
sweepdb {LONG}
```

    indented {LONG}

<!-- a table by a program -->
{LONG}
<!-- end -->
"""


def test_only_prose_is_read_each_sentence_with_the_line_of_its_paragraph():
    found = [(line, " ".join(text.split())) for line, text in sentences(PAGE)]
    assert found[0] == (3, "First sentence of code")
    assert [(line, text[:10]) for line, text in found[1:]] == [
        (3, "A link wor"), (3, "so does th"), (9, "an item"), (10, "another"),
    ]  # fmt: skip


def test_a_long_sentence_is_found():
    assert list(faults(LONG)) == [f"sentence of {MOST_WORDS_OF_A_SENTENCE + 1} words"]
    assert not list(faults(LONG.removesuffix(" word")))


@pytest.mark.parametrize("text", ["Simulations are played once.", "With two seats.", "A part is laid down again."])
def test_a_word_of_our_own_is_found(text):
    assert [reason.partition(" is a word of our own")[1] for reason in faults(text)]


@pytest.mark.parametrize("text", ["The display.", "SWEEPDB_COMPILED_PLAY=0 and `played`.", "A log is replayed."])
def test_words_that_only_contain_them_are_left(text):
    assert not list(of_text("a help text", 1, text))


def test_probe_is_a_column_in_help_and_a_word_of_our_own_in_documents(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("Take a probe.\n", encoding="utf-8")
    monkeypatch.setattr("tools.prose.ROOT", tmp_path)
    assert [one.reason for one in of_document(page)] == ["'probe' is a word of our own: row, operating point"]
    assert not list(of_text("help", 0, "Take a probe."))


def test_messages_and_hints_of_errors_are_read_with_their_values_as_words():
    module = ast.parse(f'raise InputError(f"{LONG} {{x}}. Short.", hint="one seat")\nprint("{LONG}")')
    assert [(one.line, one.reason.partition(":")[0]) for one in of_errors("a.py", module)] == [
        (1, f"sentence of {MOST_WORDS_OF_A_SENTENCE + 2} words"), (1, "'seat' is a word of our own"),
    ]  # fmt: skip


def test_words_by_hand_leave_code_and_generated_parts_out():
    assert words_by_hand("Two words.\n\n```\ncode\n```\n<!-- t -->\n| 1 |\n<!-- end -->\n| a | b |\n") == 4
    assert words_by_hand("# T\n\nMade by `python -m tools.x`.\n") == 0


def test_documents_by_hand_stay_under_their_budget():
    """A reader has ten minutes for a page, which are 3,000 words, and tables are skimmed."""
    words = {path.name: words_by_hand(path.read_text(encoding="utf-8")) for path in documents()}
    assert sum(words.values()) < 36_000
    assert {name: count for name, count in words.items() if count > 3_250} == {}
