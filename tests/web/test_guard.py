"""Who may ask a server what: names, methods, other sites' pages, tokens."""

from __future__ import annotations

import asyncio

import pytest
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep
from starlette.responses import PlainTextResponse
from web_client import send

from store.errors import InputError
from store.location import parse_url
from sweepdb.web.guard import COOKIE, LOOPBACK, Guard, host_name
from sweepdb.web.serving import Served, bound_socket, is_loopback

HOST = ("host", "localhost:8787")
TOKEN = "a1b2c3d4e5f60718"


async def reached(scope, receive, respond):
    await PlainTextResponse("reached")(scope, receive, respond)


def ask(path="/api/v1/state", *, token=None, posts=(), names=LOOPBACK, **request):
    guard = Guard(reached, names=frozenset(names), token=token, posts=frozenset(posts))
    return asyncio.run(send(guard, path, **request))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8787", 200), ("localhost.:8787", 200), ("127.0.0.1:8787", 200), ("[::1]:8787", 200),
        # What another name resolves to is not asked: rebinding gives this machine's address to a name of theirs.
        ("evil.example", 421), ("evil.example:8787", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example", 421),
        ("", 421), ("localhost@evil.example", 421), ("[::2]:8787", 421), ("0.0.0.0:8787", 421),
    ],
)  # fmt: skip
def test_only_its_own_names_are_answered(host, status):
    assert ask(headers=[("host", host)]).status == status


def test_no_host_and_two_hosts_are_refused():
    assert ask(headers=[]).status == 421
    assert ask(headers=[HOST, ("host", "evil.example")]).status == 421


def test_a_name_that_is_allowed_is_answered():
    assert ask(names=(*LOOPBACK, "stats.example"), headers=[("host", "stats.example:8787")]).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_what_is_no_reading_is_refused(method):
    got = ask(method=method)
    assert (got.status, got.headers["allow"]) == (405, "GET, HEAD")


def test_sql_alone_takes_a_body_where_it_is_switched_on():
    assert ask("/api/v1/sql", method="POST").status == 405
    assert ask("/api/v1/sql", method="POST", posts=["/api/v1/sql"]).status == 200
    assert ask("/api/v1/state", method="POST", posts=["/api/v1/sql"]).status == 405


@pytest.mark.parametrize(
    ("site", "mode", "dest", "path", "status"),
    [
        ("same-origin", "cors", "empty", "/api/v1/state", 200),
        ("none", "navigate", "document", "/", 200),
        ("cross-site", "cors", "empty", "/api/v1/state", 403),
        ("same-site", "cors", "empty", "/api/v1/state", 403),
        ("cross-site", "no-cors", "script", "/vega.js", 403),
        ("cross-site", "navigate", "iframe", "/", 403),
        ("cross-site", "navigate", "document", "/", 200),  # a link from a mail: the other page reads nothing of it
        ("cross-site", "navigate", "document", "/api/v1/state", 403),
    ],
)
def test_pages_of_other_sites_are_refused(site, mode, dest, path, status):
    headers = [HOST, ("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]
    assert ask(path, headers=headers).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 401),
        ([("authorization", f"Bearer {TOKEN}")], 200),
        ([("authorization", f"Bearer {TOKEN}0")], 401),
        ([("authorization", f"Basic {TOKEN}")], 401),
        ([("cookie", f"{COOKIE}={TOKEN}")], 200),
        ([("cookie", f"other=1; {COOKIE}={TOKEN}")], 200),
        ([("cookie", f"{COOKIE}=")], 401),
        ([("cookie", "\x00=;;;")], 401),
    ],
)
def test_a_token_is_needed_where_there_is_one(headers, status):
    assert ask(headers=[HOST, *headers], token=TOKEN).status == status


def test_a_token_in_the_address_of_the_front_page_becomes_a_cookie_and_leaves_the_address():
    got = ask("/", parameters={"token": TOKEN}, token=TOKEN)
    cookie = got.headers["set-cookie"].lower()
    assert got.status == 200
    assert all(word in cookie for word in (f"{COOKIE}={TOKEN}", "httponly", "samesite=strict"))
    assert TOKEN.encode() not in got.body
    assert ask("/", parameters={"token": "wrong"}, token=TOKEN).status == 401
    assert ask("/api/v1/state", parameters={"token": TOKEN}, token=TOKEN).status == 401


@pytest.mark.parametrize("headers", [[HOST], [("host", "evil.example")]])
def test_every_answer_and_every_refusal_says_what_a_browser_may_do(headers):
    told = ask(headers=headers).headers
    policy = told["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert told["x-content-type-options"] == "nosniff"
    assert told["cross-origin-resource-policy"] == "same-origin"
    assert not any(name.startswith("access-control-") for name in told)


def test_a_websocket_gets_no_answer():
    sent = []

    async def connect():
        async def respond(message):
            sent.append(message)

        await Guard(reached, names=frozenset(LOOPBACK))({"type": "websocket", "headers": []}, None, respond)

    asyncio.run(connect())
    assert sent == []


@pytest.mark.parametrize(
    ("text", "name"), [("Localhost:80", "localhost"), ("[::1]:80", "[::1]"), ("a.b", "a.b"), (":80", "")]
)
def test_a_name_is_read_without_its_port(text, name):
    assert host_name(text) == name


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("stats.example", False)],
)  # fmt: skip
def test_which_addresses_are_of_this_machine_alone(host, loopback):
    assert is_loopback(host) is loopback


def test_beyond_this_machine_nothing_starts_without_a_token(tmp_path):
    served = Served(location=parse_url(f"sqlite:///{tmp_path}/store.sqlite"), host="0.0.0.0", port=0)
    with pytest.raises(InputError, match="so a token is needed"):
        bound_socket(served)


def test_a_port_that_is_taken_is_a_sentence(tmp_path):
    location = parse_url(f"sqlite:///{tmp_path}/store.sqlite")
    with bound_socket(Served(location=location, port=0)) as first:
        taken = first.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{taken} cannot be served: "):
            bound_socket(Served(location=location, port=taken))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("short", "16 letters and digits or more"),
        ("a token of words", "16 letters and digits"),
        (None, "no token can be"),
    ],
)
def test_a_token_that_is_none_starts_nothing(tmp_path, text, said):
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:1]), key="a", sizes=2)
    outcome = sweepdb(["serve", "--port", "0", "--token-file", str(file)], url)
    assert outcome.code == 2
    assert said in outcome.err


def test_the_command_says_what_is_missing_and_what_is_open(tmp_path, monkeypatch):
    open_to_all = sweepdb(["serve", "--port", "0", "--host", "0.0.0.0"], f"sqlite:///{tmp_path}/store.sqlite")
    assert open_to_all.code == 2
    assert "--host 0.0.0.0 is reached from other machines" in open_to_all.err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    missing = sweepdb(["serve"], f"sqlite:///{tmp_path}/store.sqlite")
    assert "hint: pip install 'sweepdb[serve]'" in missing.err
    assert "hint: pip install 'sweepdb[mcp]'" in sweepdb(["mcp"], f"sqlite:///{tmp_path}/store.sqlite").err


def test_a_store_that_is_not_there_is_told_before_anybody_asks(tmp_path):
    outcome = sweepdb(["serve", "--port", "0"], f"sqlite:///{tmp_path}/none.sqlite")
    assert outcome.code == 3
