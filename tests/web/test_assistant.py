"""Tools of an assistant, by the protocol's own client over stdio: a question, its limits, errors, SQL switched on."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from conftest_cli import sweepdb
from generator import PLANS
from queries_stores import write_sweep
from served_page import ROOT, records

pytestmark = pytest.mark.survival
TOOLS = {"scope", "ask", "decide", "why", "coverage", "explain", "regress", "trend", "sql_schema"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('assistant')}/store.sqlite"
    write_sweep(address, records(PLANS[:2]), key="a", sizes=60)
    return address


def told(url, calls, *options):
    """Tools of a server, and the outcomes of calls: whether each failed, and its document or text."""

    mcp = pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sweepdb[mcp]'")

    async def asking():
        command = ["-m", "cli.main", "mcp", "--store", url, *options]
        parameters = mcp.StdioServerParameters(command=sys.executable, args=command, cwd=str(ROOT))
        async with mcp.stdio_client(parameters) as (read, write), mcp.ClientSession(read, write) as client:
            await client.initialize()
            tools = (await client.list_tools()).tools
            found = []
            for name, arguments in calls:
                got = await client.call_tool(name, arguments)
                text = "".join(one.text for one in got.content)
                found.append((got.is_error, text if got.is_error else json.loads(text), len(text)))
            return tools, found

    return asyncio.run(asking())


def test_an_assistant_asks_what_the_command_line_asks(url):
    calls = [
        ("scope", {}),
        ("ask", {"report": "best", "options": {"tpot_limit": 40, "top": 2}}),
        ("ask", {"report": "curve"}),
        ("ask", {"report": "best", "options": {"tpot_limts": 40}}),
        ("ask", {"report": "bets"}),
        ("ask", {"report": "best", "options": {"tpot_limit": 1e-6}}),
        ("coverage", {}),
        ("sql_schema", {}),
        ("sql_schema", {"relation": "probe"}),
        ("sql_schema", {"relation": "prob"}),
        ("regress", {"baseline": "sweep a", "against": "v2"}),
        ("trend", {}),
    ]
    tools, found = told(url, calls)
    assert {one.name for one in tools} == TOOLS
    assert all(one.annotations.read_only_hint and one.description for one in tools)
    scope, best, curve, misspelt, unknown, nothing, coverage, relations, columns, nowhere, no_side, no_runs = found
    assert scope[1]["reports"]["best"]
    names = [column["name"] for column in best[1]["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in best[1]["rows"]]
    assert rows == json.loads(sweepdb("query best --tpot-limit 40 --top 2 --format json", url).out)
    assert best[1]["expected_error"]
    assert best[1]["rules"]["tpot"]
    assert 0 < len(curve[1]["rows"]) <= 100
    assert curve[1]["more_rows"] > 0
    assert [one[0] for one in (misspelt, unknown, nowhere)] == [True, True, True]
    assert "nearest: tpot_limit" in misspelt[1]
    assert "nearest: best" in unknown[1]
    assert "'prob'" in nowhere[1]
    assert all(one[0] and "no measured run is stored" in one[1].lower() for one in (no_side, no_runs))
    assert nothing[1]["nearest"]["rows"]
    assert coverage[1]["rows"]
    assert relations[1]["rows"]
    assert [row[0] for row in columns[1]["rows"] if row[0] == "batch_size"] == ["batch_size"]
    assert all(size <= 32_000 for _, _, size in found)


def test_sql_is_a_tool_only_where_it_is_switched_on(url):
    calls = [("sql", {"statement": "SELECT count(*) AS n FROM probe"}), ("sql", {"statement": "DROP VIEW probe"})]
    tools, (counted, refused) = told(url, calls, "--sql")
    assert {one.name for one in tools} == {*TOOLS, "sql"}
    assert counted[1]["rows"][0][0] > 100
    assert refused[0]
    assert "Only SELECT" in refused[1]
