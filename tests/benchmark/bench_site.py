"""What a published site costs: the size of its folder, its first picture and move, and a slider over rows of one scope.

Run: python tests/benchmark/bench_site.py [probes] (default 1e5). Prints JSON lines: wall time in a real Chromium, and the processor time
of the browser, which other programs on the machine do not lengthen. It asserts nothing. Wants npm once, for DuckDB for browsers."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_page import percentile
from figures import say
from generator import DEVICES, MODELS, PLANS
from playwright.sync_api import sync_playwright
from queries_stores import mission_records, write_sweep
from served_page import Watched, launched

from store.location import parse_url
from sweepdb.site import publish_site

LONGEST_MS = 300_000
MOVES, UNTIMED = 40, 6  # a browser compiles the engine's functions while they are first used


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


def spent_below(process):
    below, total = {process}, 0.0
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    while more := {one for one, (parent, _) in found.items() if parent in below} - below:
        below |= more
    total = sum(found[one][1] for one in below if one in found)
    return 1000 * total / os.sysconf("SC_CLK_TCK")


def drawn(watched, after):
    watched.page.locator(f"body:not([data-seq='{after}'])").wait_for(timeout=LONGEST_MS)


def since(name, started, before, **more):
    say(
        name,
        1000 * (time.perf_counter() - started),
        "ms",
        processor_ms=round(spent_below(os.getpid()) - before),
        **more,
    )


def moves(watched):
    wall, processor = [], []
    for number in range(MOVES + UNTIMED):
        seq, started, before = watched.seq(), time.perf_counter(), spent_below(os.getpid())
        watched.page.keyboard.press("ArrowLeft")
        drawn(watched, seq)
        if number >= UNTIMED:
            wall.append(1000 * (time.perf_counter() - started))
            processor.append(spent_below(os.getpid()) - before)
    for share in (0.5, 0.95):
        name = f"site_slider_p{round(100 * share)}"
        say(name, percentile(wall, share), "ms", processor_ms=round(percentile(processor, share)), aim="<= 300")


def main(probes):
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.sqlite"
        records = [
            one for one in mission_records(models=(MODELS[6],), devices=DEVICES, plans=PLANS) if one.status == "ok"
        ]
        write_sweep(url, records, key="a", sizes=probes // len(records))
        started = time.perf_counter()
        pages = Path(folder) / "pages.site"
        written = publish_site(parse_url(url), pages)
        say("site_published", time.perf_counter() - started, "s", probes=written.probes)
        for name, part in (("folder", pages), ("engine", pages / "engine"), ("rows_of_a_choice", pages / "data" / "0")):
            size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
            say(f"site_{name}", size / 1e6, "MB", probes=written.probes)
        handler = functools.partial(Quiet, directory=pages)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as driver:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser = launched(driver.chromium)
            before = spent_below(os.getpid())
            watched = Watched(browser.new_page(viewport={"width": 1280, "height": 900}), "")
            started = time.perf_counter()
            watched.page.goto(f"http://127.0.0.1:{server.server_port}/")
            drawn(watched, 0)
            since("site_first_picture", started, before, probes=written.probes)
            watched.page.locator("#tpot_limit_range").focus()
            seq = watched.seq()
            watched.page.keyboard.press("ArrowLeft")
            drawn(watched, seq)
            since("site_first_move", started, before)  # which waits for the engine
            moves(watched)
            browser.close()
            server.shutdown()


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 100_000)
