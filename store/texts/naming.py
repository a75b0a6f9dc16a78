"""The one rule of names and texts that a store keeps. Every way in checks it; what breaks it is shown escaped.

Not here: which columns are names (store.schema), and markup (sweepdb.reporting.page_text)."""

from __future__ import annotations

import json
import re

from store.errors import InputError

LONGEST_NAME = 200
LONGEST_TEXT = 100_000
LONGEST_ARGUMENTS = 4_000_000
# The controls of C0 but tab and line break, DEL and those of C1; marks that turn the direction of what follows; the
# line breaks of Unicode, at which a table would fall apart; halves of characters, which no encoding can write; and the
# two that no XML may hold, which end the program that draws pictures.
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
_IN_TEXTS = re.compile(f"[{_UNSEEN}]")
_IN_NAMES = re.compile(f"[{_UNSEEN}\t\n]")
_HINT = (
    "A name holds no control characters, no line breaks, no marks that turn the direction of writing, and no halves of"
    " characters."
)
_SHOWN = 40


def checked_name(name: str, what: str, *, longest: int = LONGEST_NAME) -> str:
    """The name as it is, or an error: it is one line that a reader sees as it is stored. `what` begins the sentence."""
    return _checked(name, what, _IN_NAMES, longest)


def checked_text(text: str, what: str, *, longest: int = LONGEST_TEXT) -> str:
    """The text as it is, or an error: a name, but for its length and its breaks."""
    return _checked(text, what, _IN_TEXTS, longest)


def checked_arguments(text: str) -> str:
    """The arguments of a sweep as they are, or an error: a JSON object of bounded length and depth."""
    if len(text) > LONGEST_ARGUMENTS:
        raise InputError(
            f"The arguments of a sweep have {len(text):,} characters, more than {LONGEST_ARGUMENTS:,}.",
            hint="Ask for less in one sweep.",
        )
    if arguments_of(text) is None:
        raise InputError("The arguments of a sweep are no JSON object that can be read.", hint="Export it again.")
    return text


def arguments_of(text: str) -> dict[str, object] | None:
    """The arguments of a sweep; None where they are none that this program wrote."""
    try:
        found = json.loads(text) if len(text) <= LONGEST_ARGUMENTS else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def escaped(text: str) -> str:
    r"""The text with characters that no reader sees as their escapes: `\x1b` for what begins a terminal's sequence."""
    return _IN_TEXTS.sub(_escape, text)


def _checked(text: str, what: str, odd: re.Pattern[str], longest: int) -> str:
    if len(text) > longest:
        raise InputError(
            f"{what} has {len(text):,} characters, more than {longest:,}: it begins with '{escaped(text[:_SHOWN])}'.",
            hint=f"Give one of at most {longest:,} characters.",
        )
    if found := odd.search(text):
        raise InputError(f"{what} holds the character U+{ord(found[0]):04X}: '{_shortened(text)}'.", hint=_HINT)
    return text


def _shortened(text: str) -> str:
    shown = escaped(text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= 2 * _SHOWN else f"{shown[: 2 * _SHOWN]}..."


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
