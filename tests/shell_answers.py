"""Statements of `--show-sql` run in a DuckDB that knows nothing but an export."""

from __future__ import annotations

import duckdb
import pytest

from queries.session import Session
from store.location import parse_url


def in_a_shell(text, folder):
    with duckdb.connect() as connection:
        cursor = connection.execute(text.replace("export_folder = '.'", f"export_folder = '{folder}'"))
        return [item[0] for item in cursor.description], cursor.fetchall()


def check(question, url, folder, rounding=0.0):
    """Ask and print; the shell's rows, which are those of the answer. Sums of shares round by the order of rows."""
    with Session(parse_url(url)) as session:
        answer = session.ask(question)
        text = session.shell_sql(answer)
    columns, rows = in_a_shell(text, folder)
    assert tuple(columns) == answer.columns[: len(columns)]
    assert all(name.endswith("holds") or name == "basis" for name in answer.columns[len(columns) :])
    expected = [row[: len(columns)] for row in answer.rows]
    if not rounding:
        assert rows == expected
    else:
        assert len(rows) == len(expected)
        for one, other in zip(rows, expected, strict=True):
            for name, cell, wanted in zip(columns, one, other, strict=True):
                near = pytest.approx(wanted, rel=rounding) if isinstance(wanted, float) else wanted
                assert cell == near, name
    return rows
