"""HTML whose texts are escaped because there is no other way to make it: `element` escapes what is not markup already.

Not here: any page."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from store.texts.naming import escaped

_VOID = frozenset({"img", "input", "link", "meta"})
Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Html:
    """Markup. Nothing but this module makes one, and as a text of another it would be escaped."""

    source: str

    def __str__(self) -> str:
        return self.source


def html_of(parts: Iterable[Html | str]) -> Html:
    """Parts after each other; texts among them are escaped, and characters that no reader sees are written out."""
    return Html("".join(one.source if isinstance(one, Html) else html.escape(escaped(one)) for one in parts))


def element(tag: str, /, *inner: Html | str, **attributes: Value) -> Html:
    """An element. `class_` is the attribute class and `aria_label` aria-label; None and False leave one out."""
    begin = f"<{tag}{_written(attributes)}>"
    return Html(begin if tag in _VOID else f"{begin}{html_of(inner)}</{tag}>")


def embedded(tag: str, source: str, /, **attributes: Value) -> Html:
    """A script or a style, whose source is not escaped and so must not end it."""
    if f"</{tag}" in source.lower():
        raise ValueError(f"the source of a {tag} would end it")
    return Html(f"<{tag}{_written(attributes)}>{source}</{tag}>")


def html_page(head: Iterable[Html | str], body: Iterable[Html | str]) -> Html:
    """A whole page in English and UTF-8."""
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
    return html.escape(escaped(text), quote=False).replace('"', "&quot;")
