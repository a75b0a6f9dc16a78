"""What a page shows beside what the command line answers that it shows."""

from __future__ import annotations

import json
import shlex

import pytest
from conftest_cli import sweepdb

from sweepdb.planning import short_plan


def top_row(page):
    heads = page.locator("#top thead th").all_inner_texts()
    return dict(zip(heads, page.locator("#top tbody tr").first.locator("td").all_inner_texts(), strict=True))


def typed(page, url, report="best"):
    """What the command line that the page shows answers."""
    line = page.locator(f"code[data-report='{report}']").inner_text()
    words = shlex.split(line)
    assert words[:2] == ["sweepdb", "query"]
    told = sweepdb([*words[1:], "--format", "json"], url)
    assert told.code == 0, told.err
    return json.loads(told.out)


def agree(page, url):
    shown, first = top_row(page), typed(page, url)[0]
    assert shown["probe"] == first["probe"]
    assert shown["plan"] == short_plan(first["plan"])
    assert float(shown["batch"].replace(",", "")) == first["batch_size"]
    assert float(shown["tokens/s/device"].replace(",", "")) == pytest.approx(
        first["output_tokens_per_s_per_device"], rel=1e-3
    )
    return first
