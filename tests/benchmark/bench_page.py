"""What a page costs over a million probes: until its first picture, and from a slider to the redrawn picture and table.

Run: python tests/benchmark/bench_page.py [probes] (default 1e6). Prints JSON lines: wall time in a real Chromium, and the
server's processor time an answer; asserts nothing. The store is that of bench_read.py, made once and kept."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_read import sealed_store
from figures import say
from served_page import Watched, launched, serving

MOVES = 40
MODEL = "Qwen/Qwen3-8B"  # of a store of a million rows; smaller ones have fewer models


def stored_model(url):
    """The model of the figures where the store has it, else its first."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as store:
        names = [name for (name,) in store.execute("SELECT name FROM model ORDER BY id")]
    return MODEL if MODEL in names else names[0]


def spent(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@contextmanager
def page_of(chromium, address, path):
    """A page with its first answer, and the seconds until then."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    watched = Watched(page, address)
    started = time.perf_counter()
    page.goto(address + path)
    page.locator("#picture svg path, #picture canvas").first.wait_for(timeout=60_000)
    first = time.perf_counter() - started
    page.locator("body:not([data-seq='0'])").wait_for(timeout=60_000)
    yield watched, first
    page.close()


def drawn(page, after):
    page.locator(f"body:not([data-seq='{after}'])").wait_for(timeout=60_000)


def moves(chromium, address, path, process, name):
    """First picture of a server that has answered nothing about this scope, again, and then a slider step by step."""
    for which in ("cold", "warm"):
        with page_of(chromium, address, path) as (watched, first):
            say(f"{name}_first_picture_{which}", 1000 * first, "ms", aim="<= 1500")
            if which == "cold":
                continue
            slider = watched.page.locator("#tpot_limit_range")
            slider.focus()
            took, before = [], spent(process)
            for number in range(MOVES + 3):
                if number == 3:  # the second question about a scope keeps it
                    took, before = [], spent(process)
                seq, started = watched.seq(), time.perf_counter()
                watched.page.keyboard.press("ArrowLeft")
                drawn(watched.page, seq)
                took.append(1000 * (time.perf_counter() - started))
            cpu = (spent(process) - before) / MOVES
            say(f"{name}_slider_to_redraw", percentile(took, 0.5), "ms", aim="<= 120", p99=round(percentile(took, 0.99), 1),
                 least=round(min(took), 1), server_cpu_ms=round(cpu, 1))  # fmt: skip


def answers(address, process, model):
    """The two answers of a moved limit by themselves, without a browser."""
    for report in ("pareto", "best"):
        took, before = [], spent(process)
        for number in range(MOVES):
            asked = f"{report}?model={model}&convention=physical&tpot_limit={60 - number}&max_points=400"
            asked = asked if report == "pareto" else asked.replace("&max_points=400", "")
            started = time.perf_counter()
            urllib.request.urlopen(f"{address}/api/v1/answer/{asked}").read()
            took.append(1000 * (time.perf_counter() - started))
        cpu = (spent(process) - before) / MOVES
        say(
            f"rest_{report}",
            percentile(took, 0.5),
            "ms",
            p99=round(percentile(took, 0.99), 1),
            server_cpu_ms=round(cpu, 1),
        )


def main():
    url = sealed_store(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, serving(url) as address:
        process = next(
            int(one.name) for one in Path("/proc").iterdir()
            if one.name.isdigit() and is_server(one, url)
        )  # fmt: skip
        chromium = launched(driver.chromium)
        if chromium is None:
            sys.exit("there is no Chromium: apt-get install chromium")
        model = stored_model(url)
        moves(chromium, address, f"/?model={model}&tpot_limit=60", process, "page")
        answers(address, process, model)
        chromium.close()


def is_server(folder, url):
    try:
        words = (folder / "cmdline").read_bytes().decode().split("\0")
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return False
    return parent == os.getpid() and "serve" in words and url in words


if __name__ == "__main__":
    main()
