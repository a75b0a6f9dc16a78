"""A served store and a real Chromium; without Chromium or its driver, tests say so and skip."""

from __future__ import annotations

import pytest
from generator import PLANS
from queries_stores import write_sweep
from served_page import Watched, launched, records, serving


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('page')}/store.sqlite"
    write_sweep(address, records(PLANS[:3]), key="a", sizes=40)
    write_sweep(address, records(PLANS[:4]), key="b", sizes=40)
    return address


@pytest.fixture(scope="module")
def server(page_url):
    with serving(page_url) as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as driver:
        browser = launched(driver.chromium)
        if browser is None:
            pytest.skip("there is no Chromium: apt-get install chromium")
        yield browser
        browser.close()


@pytest.fixture
def watched(chromium, server):
    """A page of 1280 pixels; a test that leaves errors in its console or asks somebody else fails."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    made = Watched(context.new_page(), server)
    yield made
    context.close()
    assert made.wrong == []
    assert made.foreign == []
