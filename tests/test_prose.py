"""Docstrings read at first sight: tools.prose finds none that does not, and finds each kind of fault."""

from __future__ import annotations

import pytest

from tools.prose import MOST_WORDS, first_sentence, offences, reasons

GOOD = """The outcome of sealing: parts laid down, and what they hold.

Parts that did not match are laid down again, however often one seals, and few of them remain in
the end, because each is merged with parts of its own size.

    a drawing | of
    parts     | beside text
"""
STUMP = """The steps of a schedule.

A step has its prompts, and the first
of them belongs to the group that began the step, whatever comes after it in the queue."""


def test_no_docstring_is_hard_to_read():
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
