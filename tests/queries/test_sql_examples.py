"""The statements that docs/howto/ask-a-store.md shows are run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from generator import fill

from queries.sandbox import run_sql
from store.location import parse_url

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "ask-a-store.md"
TEXT = PAGE.read_text(encoding="utf-8").partition("\n## Python\n")[0]
BLOCKS = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
QUOTED = re.findall(r'sweepdb sql "(.*?)"', TEXT)


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    found = parse_url(f"sqlite:///{tmp_path_factory.mktemp('examples')}/store.sqlite")
    fill(found.url, probes=2_000)
    return found


def test_the_page_shows_statements():
    assert len(BLOCKS) >= 3
    assert QUOTED


@pytest.mark.parametrize("sql", BLOCKS + QUOTED)
def test_a_shown_statement_runs(location, sql):
    with run_sql(location, sql) as result:
        assert all(len(row) == len(result.columns) > 0 for row in result)
