"""People's texts: which may be names, and how HTML and CSV hold them.

Every way in checks one rule; what breaks it is shown escaped. Only `element` makes HTML, and escapes all but markup.
CSV texts that a spreadsheet would run get an apostrophe, which reading takes off again."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from store.errors import InputError
from store.light_dataclass import dataclass

LONGEST_NAME = 200
LONGEST_TEXT = 100_000
LONGEST_ARGUMENTS = 4_000_000
# The controls of C0 but tab and line break, DEL and those of C1; marks that turn the direction of what follows; the
# line breaks of Unicode, at which a table would fall apart; halves of characters, which no encoding can write; and the
# two that no XML may hold, which end the program that draws pictures.
_UNSEEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
_IN_TEXTS, _IN_NAMES = f"[{_UNSEEN}]", f"[{_UNSEEN}\t\n]"  # compiled when first looked for: most questions never do
_HINT = (
    "A name holds no control characters, no line breaks, no marks that turn the direction of writing, and no halves of"
    " characters."
)
_SHOWN = 40


def counted(number: float, name: str) -> str:
    """`1 sweep`, `2,230 probes`."""
    return f"{number:,.0f} {name}{'' if number == 1 else 's'}"


def checked_name(name: str, what: str, *, longest: int = LONGEST_NAME) -> str:
    """One line that readers see as it is stored. `what` begins the error."""
    return _checked(name, what, _IN_NAMES, longest)


def checked_text(text: str, what: str, *, longest: int = LONGEST_TEXT) -> str:
    """A name, but for length and line breaks."""
    return _checked(text, what, _IN_TEXTS, longest)


def checked_arguments(text: str) -> str:
    """A JSON object of bounded length and depth."""
    if len(text) > LONGEST_ARGUMENTS:
        raise InputError(
            f"The arguments of a sweep have {len(text):,} characters, more than {LONGEST_ARGUMENTS:,}.",
            hint="Ask for less in one sweep.",
        )
    if arguments_of(text) is None:
        raise InputError("The arguments of a sweep are no JSON object that can be read.", hint="Export it again.")
    return text


def arguments_of(text: str) -> dict[str, object] | None:
    """None where this program did not write them."""
    try:
        found = json.loads(text) if len(text) <= LONGEST_ARGUMENTS else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def escaped(text: str) -> str:
    """Invisible characters as escapes: `\x1b` for a terminal's sequence."""
    return text if text.replace("\n", "").isprintable() else re.sub(_IN_TEXTS, _escape, text)


def _checked(text: str, what: str, odd: str, longest: int) -> str:
    if len(text) > longest:
        raise InputError(
            f"{what} has {len(text):,} characters, more than {longest:,}: it begins with '{escaped(text[:_SHOWN])}'.",
            hint=f"Give one of at most {longest:,} characters.",
        )
    if found := re.search(odd, text):
        raise InputError(f"{what} holds the character U+{ord(found[0]):04X}: '{_shortened(text)}'.", hint=_HINT)
    return text


def _shortened(text: str) -> str:
    shown = escaped(text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= 2 * _SHOWN else f"{shown[: 2 * _SHOWN]}..."


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# What begins a formula, in full width too, behind apostrophes of texts that begin with one already.
_RUN = "'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]"
_NUMBER = r"(?i)[+-]?(\d[\d,]*(\.\d*)?|\.\d+)(e[+-]?\d+)?"


def plain(value: object) -> object:  # noqa: PLR0911  one return a kind of value
    """Non-finite numbers are missing, bytes hexadecimal."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date) else str(value)


def csv_line(cells: Sequence[object], *, exact: bool = False) -> str:
    """`exact`: texts as they are; half characters are escaped anyway."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(["" if cell is None else cell for cell in _told(cells, exact)])
    return buffer.getvalue().encode("utf-8", "backslashreplace").decode()


def _told(cells: Sequence[object], exact: bool) -> Sequence[object]:
    return cells if exact else [as_text(cell) if isinstance(cell, str) else cell for cell in cells]


def as_text(cell: str) -> str:
    return f"'{cell}" if re.match(_RUN, cell) and not re.fullmatch(_NUMBER, cell) else cell


def from_text(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and re.match(_RUN, cell[1:]) else cell


_VOID = frozenset({"img", "input", "link", "meta"})
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Html:
    """Made here alone; any other text is escaped."""

    source: str

    def __str__(self) -> str:
        return self.source


def html_of(parts: Iterable[Html | str]) -> Html:
    """Texts among the parts are escaped."""
    from html import escape

    return Html("".join(one.source if isinstance(one, Html) else escape(escaped(one)) for one in parts))


def element(tag: str, /, *inner: Html | str, **attributes: Value) -> Html:
    begin = f"<{tag}{_written(attributes)}>"
    return Html(begin if tag in _VOID else f"{begin}{html_of(inner)}</{tag}>")


def embedded(tag: str, source: str, /, **attributes: Value) -> Html:
    """A script or style, unescaped, which must not end its tag."""
    if f"</{tag}" in source.lower():
        raise ValueError(f"the source of a {tag} would end it")
    return Html(f"<{tag}{_written(attributes)}>{source}</{tag}>")


def html_page(head: Iterable[Html | str], body: Iterable[Html | str]) -> Html:
    first = element("head", "\n", element("meta", charset="utf-8"), "\n", *head)
    whole = element("html", "\n", first, "\n", element("body", "\n", *body), "\n", lang="en")
    return Html(f"<!DOCTYPE html>\n{whole}\n")


def _written(attributes: dict[str, Value]) -> str:
    return "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_quoted(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )


def _quoted(text: str) -> str:
    from html import escape

    return escape(escaped(text), quote=False).replace('"', "&quot;")
