"""Hostile names that a store already holds, in answers over HTTP and of tools: data everywhere, and never a status of 500."""

from __future__ import annotations

import asyncio
import csv
import io
import json

import pytest
from hostile_names import NAMES, UNSEEN, assert_only_drawn, named
from launched_rows import fill
from quick import quick
from web_client import send

from store.location import parse_url
from store.texts import from_text
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

pytest.importorskip("mcp", reason="mcp is not installed: pip install 'sweepdb[mcp]'")
from sweepdb.web.assistant import MOST_BYTES, assistant_server

BEST = (("tpot_limit", "50"), ("all", "true"), ("top", "3"))
STATEMENT = "SELECT device, model FROM probe LIMIT 3"
TYPES = {".csv": "text/csv", ".svg": "image/svg+xml"}
LISTED = ("scope", "coverage", "sweeps", "sweeps.csv", "measured", "measured.csv")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store that was evaluated, so that its steps can be explained."""
    return fill(tmp_path_factory.mktemp("hostile"))


EACH = [pytest.param(name, id=kind) for kind, name in NAMES.items()]


@pytest.fixture(scope="module", params=quick(EACH, lambda each: each.id in {"script", "escape"}))
def asked(request, place):
    """A hostile name, what each address answers where everything is called so, and what each tool does."""
    named(place, request.param)
    return request.param, *asyncio.run(answered(place, request.param))


async def answered(url, name):
    """Answers of every address that has stored names in it, and of every tool."""
    pool = SessionPool(parse_url(url))
    app = build_web(pool, names=frozenset(LOOPBACK), sql=True)
    got = {form: await send(app, f"/api/v1/answer/best{form}", BEST) for form in ("", ".csv", ".svg", ".vl")}
    got["picture"] = await send(app, "/api/v1/answer/best", [*BEST, ("picture", "true")])
    (first, *_) = records(got[""])
    paths = (*LISTED, f"probe/{first['probe']}", f"probe/{first['probe']}.csv", f"explain/{first['probe']}")
    got.update({path: await send(app, f"/api/v1/{path}") for path in paths})
    for option in ("model", "device", "workload"):
        got[f"no {option}"] = await send(app, "/api/v1/answer/best", [*BEST, (option, f"{name}?")])
    got["sql"] = await send(app, "/api/v1/sql", method="POST", body=STATEMENT.encode())
    server = assistant_server(pool, sql=True)
    calls = {
        "scope": {},
        "ask": {"report": "best", "options": {"tpot_limit": 50, "all": True, "top": 3}},
        "coverage": {},
        "explain": {"probe": first["probe"]},
        "sql": {"statement": STATEMENT},
    }
    told = {tool: await server.call_tool(tool, arguments) for tool, arguments in calls.items()}
    told["refused"] = await server.call_tool("ask", {"report": "best", "options": {"device": f"{name}?"}})
    await asyncio.to_thread(pool.close)
    return got, told


def records(got):
    document = got.json()
    return [dict(zip((one["name"] for one in document["columns"]), row, strict=True)) for row in document["rows"]]


def texts_of(value):
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_of(item)]
    return [text for item in value for text in texts_of(item)] if isinstance(value, list) else [value]


def test_no_address_fails_and_none_is_taken_for_a_page(asked):
    _, got, _ = asked
    for path, one in got.items():
        assert one.status == (400 if path.startswith("no ") else 200), (path, one.body[:300])
        assert one.headers["content-type"].partition(";")[0] == TYPES.get(path[-4:], "application/json")
        assert one.headers["x-content-type-options"] == "nosniff"
        if one.status == 400:
            assert not UNSEEN.search("".join(filter(None, one.json().values()))), path


def test_documents_hold_the_name_as_it_is(asked):
    name, got, _ = asked
    for path in ("", "picture", ".vl", "scope", "coverage", "sweeps", "sql"):
        begun = name[:40] if path == "sweeps" else name  # whose list shortens texts
        assert any(str(text).startswith(begun) for text in texts_of(got[path].json())), path


def test_csv_runs_nothing_and_is_read_back_as_it_was(asked):
    name, got, _ = asked
    for path in (".csv", "sweeps.csv"):
        _, *rows = csv.reader(io.StringIO(got[path].body.decode(), newline=""))
        cells = [cell for row in rows for cell in row]
        assert any(from_text(cell).startswith(name[:40]) for cell in cells), path
        assert not any(cell[:1] in "=@\t\r" for cell in cells if cell), path


def test_a_picture_has_no_element_of_a_name(asked):
    assert_only_drawn(asked[1][".svg"].body.decode())


def test_tools_answer_in_documents_that_hold_the_name(asked):
    name, _, told = asked
    for tool, got in told.items():
        (one,) = got.content
        assert got.is_error == (tool == "refused"), (tool, one.text)
        assert len(one.text.encode()) <= MOST_BYTES
        if got.is_error:
            assert not UNSEEN.search(one.text)
            continue
        texts = list(map(str, texts_of(json.loads(one.text))))
        assert any(name[:900] in text for text in texts) or tool == "explain"
