"""Texts that people gave and people read: which may be names, and how each is written into a page or a line of CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.texts.markup import Html, element, embedded, html_of, html_page
    from store.texts.naming import (
        LONGEST_NAME,
        LONGEST_TEXT,
        arguments_of,
        checked_arguments,
        checked_name,
        checked_text,
        escaped,
    )
    from store.texts.spreadsheets import as_text, csv_line, from_text

__all__ = [
    "LONGEST_NAME",
    "LONGEST_TEXT",
    "Html",
    "arguments_of",
    "as_text",
    "checked_arguments",
    "checked_name",
    "checked_text",
    "csv_line",
    "element",
    "embedded",
    "escaped",
    "from_text",
    "html_of",
    "html_page",
]

__getattr__, __dir__ = lazy_face(__name__)
