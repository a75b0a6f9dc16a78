"""Text of pages: numbers as people read them, tables, paragraphs. Everything that is stored is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

NOTHING = "\N{EN DASH}"


def cell_text(value: object) -> str:
    """A value of a table: four digits, thousands apart, a dash where there is none."""
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
    return str(value)


def table_text(heads: Sequence[str], rows: Iterable[Sequence[object]], *, named: str, id_: str | None = None) -> str:
    """A table, `named` for whoever hears it; columns of numbers stand to the right."""
    held = [list(row) for row in rows]
    right = [
        any(isinstance(row[place], int | float) for row in held)
        and all(row[place] is None or isinstance(row[place], int | float) for row in held)
        for place in range(len(heads))
    ]
    return "".join(_table(heads, held, right, id_, escape(named)))


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[bool], id_: str | None, named: str
) -> Iterator[str]:
    kinds = [' class="number"' if one else "" for one in right]
    label = f'aria-label="{named}"'
    id_and = f'id="{id_}" ' if id_ else ""
    yield f'<div class="wide" tabindex="0" role="region" {label}><table {id_and}{label}>\n<thead><tr>'
    yield from (f"<th{kind}>{escape(head)}</th>" for head, kind in zip(heads, kinds, strict=True))
    yield "</tr></thead>\n<tbody>\n"
    for row in rows:
        cells = (f"<td{kind}>{escape(cell_text(value))}</td>" for value, kind in zip(row, kinds, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody></table></div>\n"


def paragraph(text: str, *, kind: str | None = None, id_: str | None = None) -> str:
    """A paragraph of plain text."""
    told = "".join(f' {name}="{value}"' for name, value in (("class", kind), ("id", id_)) if value)
    return f"<p{told}>{escape(text)}</p>\n"


def listed(items: Iterable[str]) -> str:
    """A list of sentences, nothing where there is none."""
    lines = [f"<li>{escape(item)}</li>\n" for item in items]
    return f"<ul>\n{''.join(lines)}</ul>\n" if lines else ""


def preformatted(text: str) -> str:
    """Code, as it is."""
    return f"<pre><code>{escape(text)}</code></pre>\n"
