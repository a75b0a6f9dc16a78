"""Text as a terminal may be given it: what would move its cursor, clear it or turn its letters round is shown escaped.

Every writer of `cli` to the standard streams goes through here; tests/cli/test_visible.py finds those that do not."""

from __future__ import annotations

import re

# The controls of C0 but tab and line break, DEL and those of C1; marks that turn the direction of what follows; the
# line breaks of Unicode, at which a table would fall apart; and halves of characters, which no encoding can write.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with control characters as their escapes: `\x1b` for what begins a sequence of a terminal."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
