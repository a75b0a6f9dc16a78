"""A published site in Chromium without a network: the rows of the command line, and no request beyond this machine."""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest_cli import sweepdb
from generator import DEVICES, MODELS, PLANS
from page_answers import agree, top_row, typed
from queries_stores import mission_records, write_sweep
from served_page import Watched, launched

from store.errors import InputError
from sweepdb.planning import short_plan
from sweepdb.site import find_engine

pytestmark = pytest.mark.survival


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def hosted(folder):
    """The address of a folder on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def engine():
    """DuckDB for browsers, which `make engine` fetches with npm."""
    try:
        return find_engine(None)
    except InputError as error:
        pytest.skip(f"{error.message}: make engine")


@pytest.fixture(scope="module")
def site(tmp_path_factory, engine):
    """The address of a site, and its store: two models on two devices, of which one lacks prefill rows."""
    folder = tmp_path_factory.mktemp("site")
    url = f"sqlite:///{folder}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), devices=DEVICES[:2], plans=PLANS[:4]), key="a", sizes=40)
    few = mission_records(models=(MODELS[6],), devices=DEVICES[:2], plans=PLANS[:3], phases=("aggregated", "decode"))
    write_sweep(url, few, key="b", sizes=20)
    told = sweepdb(["publish", "--to", str(folder / "pages.site"), "--engine", str(engine)], url)
    assert told.code == 0, told.err
    with hosted(folder / "pages.site") as address:
        yield address, url


@pytest.fixture
def watched(site):
    """A page of a browser that resolves no name; a request or an error that should not be fails the test."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright, which is missing")
    with playwright.sync_playwright() as driver:
        browser = launched(driver.chromium, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        if browser is None:
            pytest.skip("there is no Chromium: apt-get install chromium")
        made = Watched(browser.new_page(viewport={"width": 1280, "height": 900}), site[0])
        yield made
        browser.close()
    assert made.wrong == []
    assert made.foreign == []


def moved(watched, name, value):
    seq = watched.seq()
    watched.page.locator(f"#{name}").fill(value)
    watched.page.keyboard.press("Enter")
    watched.drawn(after=seq)


def test_rows_of_the_page_are_those_of_the_command_line_however_limits_move(watched, site):
    _, url = site
    watched.open(f"/?model={MODELS[4][0]}&tpot_limit=40")
    page = watched.page
    page.wait_for_function("document.querySelectorAll('#picture svg path').length > 5")  # after the table
    for name, value in (("tpot_limit", "12.5"), ("ttft_limit", "700"), ("reserved_memory_gb", "30")):
        moved(watched, name, value)
        shown = [row.locator("td").all_inner_texts() for row in page.locator("#top tbody tr").all()]
        place = page.locator("#top thead th").all_inner_texts().index("probe")
        assert [row[place] for row in shown] == [row["probe"] for row in typed(page, url)]
        agree(page, url)
        page.locator("#twin summary").click()
        page.wait_for_function("rows => document.querySelectorAll('#twin table tbody tr').length === rows",
                               arg=len(typed(page, url, "pareto")))  # fmt: skip
        page.locator("#twin summary").click()
    assert page.locator("main a[href*='/api/']").count() == 0
    assert page.locator("main a[href*='explain']").count() == 0


def test_the_page_says_that_limits_wait_for_the_engine_while_it_loads(watched, site):
    held = []
    page = watched.page
    page.route("**/duckdb.wasm", lambda route: held.append(route))  # noqa: PLW0108  playwright marks its handlers
    page.goto(site[0])
    page.locator("#picture svg path").nth(5).wait_for(state="attached")  # which needs no engine
    loading = page.locator("#store [role=status]")
    assert loading.inner_text().strip() == "Loading DuckDB: new limits wait for it."
    page.wait_for_timeout(500)
    assert loading.is_visible()
    held[0].continue_()
    loading.wait_for(state="detached")


def test_another_model_a_device_and_a_budget(watched, site):
    _, url = site
    watched.open(f"/?model={MODELS[4][0]}&tpot_limit=40")
    page = watched.page
    for field, value in (("model", MODELS[6][0]), ("device", DEVICES[1][0])):
        seq = watched.seq()
        page.locator(f"#{field}").select_option(value)
        watched.drawn(after=seq)
        agree(page, url)
    moved(watched, "num_devices", "2")
    first = agree(page, url)
    assert first["num_devices"] <= 2
    assert first["device"] == DEVICES[1][0]


def test_nothing_fits_and_the_button_moves_the_limit_that_binds(watched, site):
    _, url = site
    watched.open(f"/?model={MODELS[4][0]}&tpot_limit=0.01")
    page, seq = watched.page, watched.seq()
    assert page.locator("main .error").all_inner_texts() == []
    assert page.locator("#sentence").inner_text() == "Nothing satisfies the limits."
    wanted = sweepdb(["query", "best", "--tpot-limit", "0.01", "--model", MODELS[4][0]], url)
    button = page.locator("#relax").inner_text()
    assert button.split()[3] in wanted.out + wanted.err
    page.locator("#relax").click()
    watched.drawn(after=seq)
    first = agree(page, url)
    assert first["tpot_ms"] <= float(page.locator("#tpot_limit").input_value())
    assert top_row(page)["plan"] == short_plan(first["plan"])
