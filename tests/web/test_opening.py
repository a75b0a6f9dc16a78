"""`--open` with a real browser: what a person sees after `sweepdb sql --open` and `sweepdb serve --open`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from served_page import QUIET, ROOT

pytestmark = pytest.mark.survival
_MOST_S = 60


@pytest.fixture
def browser(tmp_path):
    """An environment whose browser is a Chromium that writes down what a page shows; the file that it writes."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    shown, script = tmp_path / "shown.html", tmp_path / "browse"
    told = " ".join([program, "--headless", *QUIET, "--virtual-time-budget=20000", "--dump-dom", '"$1"'])
    script.write_text(f"#!/bin/sh\n{told} >{shown}.part 2>/dev/null\nmv {shown}.part {shown}\n")
    script.chmod(0o755)
    with tempfile.TemporaryDirectory() as short:  # Chromium's socket lies in it, whose address may have 107 characters
        yield {**os.environ, "BROWSER": str(script), "TMPDIR": short}, shown


def test_rows_of_a_statement(browser, page_url):
    env, shown = browser
    statement = "SELECT plan, max(ttft_ms) AS slowest FROM probe WHERE batch_size <= $most GROUP BY plan ORDER BY plan"
    command = [sys.executable, "-m", "cli.main", "sql", statement, "--param", "most=7", "--open", "--store", page_url]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"opened {env['TMPDIR']}/")
    page = shown.read_text(encoding="utf-8")
    assert page.count("<tr>") == 5  # a head and four plans
    assert "$most = 7" in page


def test_the_page_of_a_server(browser, page_url):
    env, shown = browser
    command = [sys.executable, "-m", "cli.main", "serve", "--open", "--port", "0", "--store", page_url]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True) as server:
        try:
            over = time.monotonic() + _MOST_S
            while not shown.exists() and time.monotonic() < over:
                time.sleep(0.1)
            page = shown.read_text(encoding="utf-8")
        finally:
            server.terminate()
    assert 'id="top"' in page  # the table of the best plans
    assert "<svg" in page
