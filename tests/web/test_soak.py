"""A server under many questions, one after another and at once: its memory and open files level."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from served_store import write_served
from web_client import send

from store.location import parse_url
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

REPORTS = ("best", "pareto", "deployments", "capacity", "pd-ratio", "sensitivity", "curve", "devices")
MOST_MORE_KB = 24 * 1024  # of the second half, in which no question is a first one


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of every phase, as an engine serves it."""
    address = f"sqlite:///{tmp_path_factory.mktemp('soak')}/store.sqlite"
    write_served(address)
    return address


def resident_kb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def soaked(url, questions, at_once):
    """Memory and files at half and at the end of so many questions, and the statuses of so many at once."""

    async def asking():
        pool = SessionPool(parse_url(url), timeout_s=600.0)
        app = build_web(pool, names=frozenset(LOOPBACK))

        async def one(number):
            report = REPORTS[number % len(REPORTS)]
            limits = {"tpot_limit": 5 + number * 0.013}
            if report in {"deployments", "capacity", "pd-ratio"}:
                limits["num_devices"] = 8 + number % 32
            if report == "sensitivity":
                limits = {"vary": "tpot"}
            return (await send(app, f"/api/v1/answer/{report}", limits)).status

        statuses, held = Counter(), []
        for number in range(questions):
            statuses[await one(number)] += 1
            if number + 1 in {questions // 2, questions}:
                held.append((resident_kb(), open_files()))
        together = Counter(await asyncio.gather(*(one(number) for number in range(at_once))))
        held.append((resident_kb(), open_files()))
        await asyncio.to_thread(pool.close)
        return statuses, together, held

    return asyncio.run(asking())


def check(url, questions, at_once):
    """Ask, and hold what was promised; returns what was seen."""
    statuses, together, held = soaked(url, questions, at_once)
    assert set(statuses) == {200}, statuses
    assert set(together) <= {200, 503}, together
    assert together[200] >= min(at_once, 60)
    (half_kb, half_files), (end_kb, end_files), (all_kb, all_files) = held
    assert end_kb - half_kb <= MOST_MORE_KB, held
    assert all_kb - end_kb <= 8 * MOST_MORE_KB, held
    assert max(end_files, all_files) <= half_files + 8, held
    return held, together


def test_memory_and_files_level_over_a_few_questions(url):
    check(url, 24, 16)


@pytest.mark.parametrize(
    ("questions", "at_once"),
    [pytest.param(200, 60, marks=pytest.mark.survival), pytest.param(2_000, 200, marks=pytest.mark.long)],
)
def test_memory_and_files_level_over_many_questions_and_many_at_once(url, questions, at_once, capsys):
    held, together = check(url, questions, at_once)
    with capsys.disabled():
        print(f" memory in kB and files at half, end, after {at_once} at once: {held}; {dict(together)}")
