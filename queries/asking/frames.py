"""Rows as tables of other libraries, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.errors import InputError
from store.texts import Html, element, html_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_ROWS_SHOWN = 20  # of a page; `df()` has all of them
_STYLE = "text-align: right; white-space: nowrap"


class Framed:
    """Rows by column. Libraries are imported when their kind of table is asked for."""

    __slots__ = ()
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return True  # an answer without rows is an answer

    def dicts(self) -> list[dict[str, object]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def df(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise _missing("pandas", "df") from None
        return pd.DataFrame(list(self.rows), columns=list(self.columns))

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table; needs pyarrow."""
        try:
            import pyarrow as pa
        except ImportError:
            raise _missing("pyarrow", "arrow") from None
        cells = [pa.array([row[place] for row in self.rows]) for place in range(len(self.columns))]
        return pa.Table.from_arrays(cells, names=list(self.columns))

    def pl(self) -> pl.DataFrame:
        """The rows as a polars DataFrame; needs polars."""
        try:
            import polars as pl
        except ImportError:
            raise _missing("polars", "pl") from None
        return pl.DataFrame(self.rows, schema=list(self.columns), orient="row", infer_schema_length=None)

    def _repr_html_(self) -> str:
        return str(html_table(self.columns, self.rows))


def _missing(package: str, method: str) -> InputError:
    return InputError(
        f"{method}() needs {package}, which is not installed.",
        hint=f"Run: pip install {package}; dicts() needs nothing.",
    )


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]], shown: Sequence[str] | None = None) -> Html:
    """Only the first rows; every text is escaped."""
    places = range(len(columns)) if shown is None else [columns.index(name) for name in shown if name in columns]
    head = element("tr", *(element("th", columns[place], style=_STYLE) for place in places))
    body = (
        element("tr", *(element("td", _cell(row[place]), style=_STYLE) for place in places))
        for row in rows[:_ROWS_SHOWN]
    )
    table = element("table", element("thead", head), element("tbody", *body))
    left = len(rows) - _ROWS_SHOWN
    return html_of([table, *([element("p", f"... {left:,} more rows")] if left > 0 else [])])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
