"""Extremes of every option of every report, over REST, tools of assistants and the command line: answers or sentences."""

from __future__ import annotations

import asyncio
import math
import resource

import pytest
from conftest_cli import sweepdb
from served_store import write_served
from web_client import send

from queries.asking import asked_reports, keywords_of
from store.location import parse_url
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sweepdb[mcp]'")
from sweepdb.web.assistant import MOST_BYTES, assistant_server

TEXTS = ("1000000", "1" + "0" * 21, "1e308", "-1", "nan", "inf", "", "x" * 20_000)
VALUES = (10**6, 10**21, 1e308, -1, math.nan, math.inf, "", "x" * 20_000, [], {"a": 1}, True)
NEEDED = {"num_devices": 8, "rate": 1.0, "vary": "ttft", "mix": (("chat", 1.0), ("code", 1.0)),
          "probes": ("a:1", "b:1"), "sweeps": ("a", "b"), "target_rate": 1.0}  # fmt: skip
MOST_MORE = 2**30  # bytes over idle


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of every phase, as an engine serves it."""
    address = f"sqlite:///{tmp_path_factory.mktemp('extremes')}/store.sqlite"
    write_served(address)
    return address


def cases(*, every):
    """Reports with an option each: every pair, or each option in one report that takes it."""
    seen = set()
    for report in asked_reports().values():
        taken = keywords_of(report)
        needed = {one.name: NEEDED[one.name] for one in taken if one.required and one.name in NEEDED}
        for keyword in taken:
            if every or keyword.name not in seen:
                seen.add(keyword.name)
                yield report.name, keyword.name, {name: value for name, value in needed.items() if name != keyword.name}


def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def addressed(options):
    for name, value in options.items():
        for one in value if isinstance(value, tuple) else (value,):
            yield name, "=".join(map(str, one)) if isinstance(one, tuple) else str(one)


def asked_by_rest(url, asked):
    """What is wrong with answers to addresses, and how many were asked."""
    wrong = []

    async def asking():
        pool = SessionPool(parse_url(url))
        app = build_web(pool, names=frozenset(LOOPBACK))
        count = 0
        for report, option, needed in asked:
            for text in TEXTS:
                got = await send(app, f"/api/v1/answer/{report}", [*addressed(needed), (option, text)])
                count += 1
                told = got.json()
                said = told.get("error", "") if got.status != 200 else "."
                if got.status not in {200, 400} or not said or len(said) > 1_500 or "bug" in said:
                    wrong.append((report, option, text[:30], got.status, said[:200]))
        await asyncio.to_thread(pool.close)
        return count

    return wrong, asyncio.run(asking())


def asked_by_tools(url, asked, each):
    """What is wrong with answers of the tool `ask`, `each` so many values an option, and how many were asked."""
    wrong = []

    async def asking():
        pool = SessionPool(parse_url(url))
        server = assistant_server(pool, sql=True)
        count = 0
        for number, (report, option, needed) in enumerate(asked):
            for place in range(each):
                value = VALUES[(number + place) % len(VALUES)]
                got = await server.call_tool("ask", {"report": report, "options": {**needed, option: value}})
                count += 1
                text = got.content[0].text if hasattr(got, "content") else got[0].text
                if len(text.encode()) > MOST_BYTES or "Error executing" in text or not text:
                    wrong.append((report, option, repr(value)[:30], text[:200]))
        await asyncio.to_thread(pool.close)
        return count

    return wrong, asyncio.run(asking())


def asked_by_commands(url, asked, texts):
    """What is wrong with answers to command lines, and how many were typed."""
    wrong, count = [], 0
    for report, option, needed in asked:
        for text in texts:
            typed = [f"--{name.replace('_', '-')}={value}" for name, value in addressed(needed)]
            outcome = sweepdb(["query", report, *typed, f"--{option.replace('_', '-')}={text}"], url)
            count += 1
            told = outcome.err
            if outcome.code not in {0, 2} or "Traceback" in told or "bug in sweepdb" in told or len(told) > 3_000:
                wrong.append((report, option, text[:30], outcome.code, told[-300:]))
    return wrong, count


NAMES = {"probes", "sweeps"}  # arguments of a command line, not options


@pytest.mark.parametrize("way", ["rest", "tools", "commands"])
def test_an_extreme_of_each_option_is_answered_or_refused_in_a_sentence(url, way):
    before = resident()
    asked = list(cases(every=False))
    if way == "rest":
        wrong, count = asked_by_rest(url, asked)
    elif way == "tools":
        wrong, count = asked_by_tools(url, asked, 3)
    else:
        asked = [one for one in asked if one[1] not in NAMES]
        wrong, count = [], 0
        for number, one in enumerate(asked):  # each of them in turn
            more, typed = asked_by_commands(url, [one], [TEXTS[number % len(TEXTS)]])
            wrong, count = wrong + more, count + typed
    assert wrong == []
    assert count >= len(asked)
    assert resident() - before <= MOST_MORE


@pytest.mark.parametrize("way", ["rest", "tools", "commands"])
@pytest.mark.parametrize(
    "step", [pytest.param(20, marks=pytest.mark.survival), pytest.param(1, marks=pytest.mark.long)]
)
def test_extremes_of_every_report_are_answered_or_refused(url, way, step, capsys):
    """Each option of each report with each value: 40 minutes. CI asks a twentieth of them."""
    before = resident()
    asked = list(cases(every=True))[::step]
    if way == "rest":
        wrong, count = asked_by_rest(url, asked)
    elif way == "tools":
        wrong, count = asked_by_tools(url, asked, len(VALUES))
    else:
        wrong, count = asked_by_commands(url, [one for one in asked if one[1] not in NAMES], TEXTS)
    with capsys.disabled():
        print(f" {way}: {count:,} extremes, {(resident() - before) / 2**20:.0f} MB over idle")
    assert wrong == []
    assert resident() - before <= MOST_MORE


def test_a_tool_is_called_wrongly_in_a_sentence(url):
    calls = [
        ("ask", {"report": "why", "options": {"probes": 5}}),
        ("ask", {"report": "x" * 100_000}),
        ("ask", {"report": 5}),
        ("ask", {}),
        ("ask", {"report": "best", "options": {"x" * 100_000: 1}}),
        ("nothing", {}),
        ("sql", {"statement": "SELECT '" + "x" * 100_000 + "'"}),
        ("explain", {"probe": "x" * 100_000}),
    ]

    async def asking():
        pool = SessionPool(parse_url(url))
        server = assistant_server(pool, sql=True)
        found = [await server.call_tool(name, arguments) for name, arguments in calls]
        await asyncio.to_thread(pool.close)
        return found

    for got in asyncio.run(asking()):
        (one,) = got.content
        assert got.is_error
        assert "Error executing" not in one.text
        assert len(one.text) < 2_000
