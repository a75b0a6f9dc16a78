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

__getattr__, __dir__ = lazy_face(__name__)
