"""A server as its command starts it, and pages of a browser that are watched for what they should not do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from generator import MODELS
from queries_stores import mission_records

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"at (http://\S+)")
QUIET = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def records(plans):
    return mission_records(models=(MODELS[4],), plans=plans)


@contextmanager
def serving(url, *options):
    """`sweepdb serve` in a process of its own, and its address."""
    command = [sys.executable, "-m", "cli.main", "serve", "--port", "0", "--store", url, *options]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = process.stderr.readline()
            found = ADDRESS.search(said)
            assert found, said + process.stderr.read()
            yield found[1].rstrip("/")
        finally:
            process.terminate()
            process.wait(timeout=30)


def launched(kind, *options):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    return program and kind.launch(executable_path=program, args=[*QUIET, *options])


class Watched:
    """A page, and everything that it should not have done."""

    def __init__(self, page, address):
        self.page, self.address, self.wrong, self.foreign = page, address, [], []
        page.on("console", lambda told: self.wrong.append(told.text) if told.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._note)

    def _note(self, request):
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.foreign.append(request.url)

    def open(self, path):
        """Open a page and wait for its first answer."""
        self.page.goto(self.address + path)
        self.drawn(after=0)

    def seq(self):
        return int(self.page.locator("body").get_attribute("data-seq"))

    def drawn(self, *, after):
        """Wait until the page has drawn more often than that, and has nothing left to draw."""
        self.page.locator(f"body:not([data-seq='{after}'])").wait_for(timeout=60_000)
        self.page.wait_for_load_state("networkidle")
