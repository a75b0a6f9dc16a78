"""Numbers, tables and paragraphs of pages; markup is store.texts'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from store.texts import Html, element, escaped, html_of

NOTHING = "\N{EN DASH}"


def cell_text(value: object) -> str:
    """Four digits, thousands apart, a dash for none."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value and (abs(value) < 1e-3 or abs(value) >= 1e9):
            return f"{value:.3g}"
        digits = next((places for bound, places in ((1000, 0), (100, 1), (10, 2)) if abs(value) >= bound), 3)
        return f"{value:,.{digits}f}"
    return escaped(str(value))


def amount(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def table_text(heads: Sequence[str], rows: Iterable[Sequence[object]], *, named: str, id_: str | None = None) -> Html:
    held = [list(row) for row in rows]
    kinds = [
        "number"
        if any(isinstance(row[place], int | float) for row in held)
        and all(row[place] is None or isinstance(row[place], int | float) for row in held)
        else None
        for place in range(len(heads))
    ]
    lines = (html_of([*_row("td", [cell_text(value) for value in row], kinds), "\n"]) for row in held)
    table = element(
        "table",
        "\n",
        element("thead", *_row("th", heads, kinds)),
        "\n",
        element("tbody", "\n", *lines),
        id=id_,
        aria_label=named,
    )
    return html_of([element("div", table, class_="wide", tabindex=0, role="region", aria_label=named), "\n"])


def _row(tag: str, texts: Iterable[str], kinds: Sequence[str | None]) -> Iterator[Html]:
    yield element("tr", *(element(tag, text, class_=kind) for text, kind in zip(texts, kinds, strict=True)))


def paragraph(text: str, *, kind: str | None = None, id_: str | None = None) -> Html:
    return html_of([element("p", text, class_=kind, id=id_), "\n"])


def listed(items: Iterable[str]) -> Html:
    lines = [html_of([element("li", item), "\n"]) for item in items]
    return html_of([element("ul", "\n", *lines), "\n"] if lines else [])


def preformatted(text: str) -> Html:
    return html_of([element("pre", element("code", text)), "\n"])
