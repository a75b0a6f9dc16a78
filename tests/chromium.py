"""Debian's Chromium, driven by playwright, for tests that look at pages; they skip where either is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def browser() -> Iterator[object]:
    driver = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright, which is missing")
    if not CHROMIUM.exists():
        pytest.skip(f"pages are tested in {CHROMIUM}, which is missing")
    with driver.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield started
        finally:
            started.close()
