"""REST: the answers of the command line, as addresses; moments that stay; limits of queue and time; SQL apart."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import time
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep
from web_client import send

from queries.asking import asked_reports, keywords_of
from queries.probes import MeasuredPoints
from queries.session import Session
from store.errors import InputError
from store.location import parse_url
from sweepdb.web import listings, pool
from sweepdb.web.app import build_web
from sweepdb.web.documents import table_document
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool
from sweepdb.web.statements_apart import bounded_rows

ASKED = {"tpot_limit": 40, "top": 3}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one model on two devices."""
    address = f"sqlite:///{tmp_path_factory.mktemp('rest')}/store.sqlite"
    write_sweep(address, mission_records(models=(MODELS[4],), plans=PLANS[:3]), key="a", sizes=8)
    return address


@asynccontextmanager
async def served(url, *, sql=False, **limits):
    """The application over a store, and what asks it."""
    sessions = SessionPool(parse_url(url), **limits)
    app = build_web(sessions, names=frozenset(LOOPBACK), sql=sql)

    async def get(path, parameters=(), **request):
        return await send(app, f"/api/v1/{path}", parameters, **request)

    try:
        yield get
    finally:
        sessions.close()


def got(url, path, parameters=(), *, sql=False, **request):
    async def asking():
        async with served(url, sql=sql) as get:
            return await get(path, parameters, **request)

    return asyncio.run(asking())


def test_an_answer_is_that_of_the_command_line(url):
    document = got(url, "answer/best", ASKED).json()
    typed = json.loads(sweepdb("query best --tpot-limit 40 --top 3 --format json", url).out)
    names = [column["name"] for column in document["columns"]]
    assert [dict(zip(names, row, strict=True)) for row in document["rows"]] == typed
    assert len(typed) == 3
    assert document["limits"]["tpot_ms"] == 40
    assert document["expected_error"]


def test_csv_is_that_of_the_command_line(url):
    answered = got(url, "answer/pareto.csv", {"tpot_limit": 40})
    assert answered.headers["content-type"].startswith("text/csv")
    assert answered.body.decode() == sweepdb("query pareto --tpot-limit 40 --format csv", url).out
    assert len(list(csv.reader(io.StringIO(answered.body.decode())))) > 3


def test_a_picture_comes_with_an_answer_and_by_itself(url):
    assert got(url, "answer/best", {"picture": "true"}).json()["picture"]["mark"] == "bar"
    assert got(url, "answer/best.vl").json()["mark"] == "bar"
    pytest.importorskip("vl_convert")
    assert got(url, "answer/best.svg").body.startswith(b"<svg")


def test_a_picture_without_rows_is_the_same_picture_but_for_them(url):
    whole, shape = (got(url, "answer/pareto", {"picture": form}).json()["picture"] for form in ("true", "shape"))
    assert shape.pop("data") == {"values": []}
    assert whole.pop("data")["values"]
    assert shape == whole


def test_the_drawing_script_is_packed_for_those_who_take_it(url):
    pytest.importorskip("vl_convert")
    own = ("host", "localhost:8787")

    async def both():
        app = build_web(SessionPool(parse_url(url)), names=frozenset(LOOPBACK))
        return [
            await send(app, "/vega.js", headers=(own, ("accept-encoding", taken))) for taken in ("identity", "gzip, br")
        ]

    plain, packed = asyncio.run(both())
    assert b"vegaEmbed" in plain.body
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize(("path", "status"), [("answer/bets", 404), ("answer/best?tpot_limit=fast", 400)])
def test_a_page_is_told_of_a_refusal_and_others_get_its_status(url, path, status):
    path, _, query = path.partition("?")
    asked = dict(one.split("=") for one in query.split("&") if one)
    refused = got(url, path, asked)
    told = got(url, path, asked, headers=(("host", "localhost:8787"), ("x-refusals", "told")))
    assert (refused.status, told.status) == (status, 200)
    assert told.json() == {"refused": status, **refused.json()}


def test_nearest_misses_come_with_the_value_that_admits_them(url):
    document = got(url, "answer/best", {"tpot_limit": 0.001}).json()
    nearest = document["nearest"]
    row = dict(zip([column["name"] for column in nearest["columns"]], nearest["rows"][0], strict=True))
    assert (document["rows"], row["binding_limit"]) == ([], "tpot")
    assert got(url, "answer/best", {"tpot_limit": row["relax_to"]}).json()["rows"]


@pytest.mark.parametrize(
    ("path", "parameters", "status", "said"),
    [
        ("answer/bets", {}, 404, "there is no report 'bets'"),
        ("answer/best.exe", {}, 404, "there is no report"),
        ("nothing", {}, 404, "there is nothing at"),
        ("answer/best", {"tpot_limts": 5}, 400, "unknown option 'tpot_limts' of best"),
        ("answer/best", {"tpot_limit": "fast"}, 400, "`tpot_limit` is a number, not 'fast'"),
        ("answer/best", {"tpot_limit": "-1"}, 400, "`tpot_limit` must be a number above 0"),
        ("answer/best", {"tpot_limit": "nan"}, 400, "`tpot_limit` must be a number above 0"),
        ("answer/best", [("tpot_limit", "5"), ("tpot_limit", "6")], 400, "takes one value"),
        ("answer/best", {"top": "2.5"}, 400, "`top` is a whole number, not '2.5'"),
        ("answer/best", {"last": "maybe"}, 400, "`last` is true or false"),
        ("answer/best", {"model": "nobody/nothing"}, 400, "nobody/nothing"),
        ("answer/best", {"input_length": "/etc/passwd"}, 400, "`input_length` is a whole number, not '/etc/passwd'"),
        ("answer/mix", {"mix": "chat"}, 400, "a workload and its weight"),
        ("answer/why", {}, 400, "two probes"),
        ("answer/goodput-pairs", {}, 404, "there is no report"),
        ("answer/goodput", {}, 400, "no aggregated rows of this scope have been simulated"),  # a name of before
        ("probe/nonsense", {}, 400, "is not a probe"),
        ("probe/abcdef:1", {}, 400, "abcdef"),
    ],
)
def test_what_is_wrong_is_two_sentences(url, path, parameters, status, said):
    answered = got(url, path, parameters)
    assert answered.status == status, answered.body
    assert said in answered.json()["error"]


def test_what_is_no_question_is_listed(url):
    scope = got(url, "scope").json()
    stored = {tuple(row.values()) for row in json.loads(
        sweepdb(["sql", "SELECT DISTINCT model, device, family FROM probe", "--format", "json"], url).out)}  # fmt: skip
    places = [[column["name"] for column in scope["columns"]].index(name) for name in ("model", "device", "family")]
    assert {tuple(row[place] for place in places) for row in scope["rows"]} == stored
    assert got(url, "sweeps").json()["rows"][0][6] > 0
    assert {one["name"] for one in got(url, "schema").json()} >= {"probe", "feasible"}
    assert {one["name"] for one in got(url, "reports").json()} == {one.name for one in asked_reports().values()}
    probe = json.loads(sweepdb("query best --top 1 --format json", url).out)[0]["probe"]
    document = got(url, f"probe/{probe}").json()
    assert len(document["columns"]) == len(document["rows"][0]) > 50


def test_sweeps_and_rows_come_in_the_forms_of_answers(url):
    document = got(url, "sweeps").json()
    names = [one["name"] for one in document["columns"]]
    lines = list(csv.DictReader(io.StringIO(got(url, "sweeps.csv").body.decode())))
    assert [one["key"] for one in lines] == [row[names.index("key")] for row in document["rows"]]
    asked = json.loads(sweepdb(["sql", document["sql"], "--format", "json"], url).out)
    assert [one["key"] for one in asked] == [one["key"] for one in lines]
    drawn = got(url, "sweeps.vl").json()
    assert [one["probes_stored"] for one in drawn["data"]["values"]] == [one["probes_stored"] for one in asked]
    probe = json.loads(sweepdb("query best --top 1 --format json", url).out)[0]["probe"]
    (row,) = csv.DictReader(io.StringIO(got(url, f"probe/{probe}.csv").body.decode()))
    assert f"{row['scenario'][:8]}:{row['batch_size']}" == probe
    assert got(url, f"probe/{probe}.svg").status == 404
    assert got(url, f"probe/{probe}.exe").status == 404
    pytest.importorskip("vl_convert")
    assert got(url, "sweeps.svg").body.startswith(b"<svg")


def test_the_statement_of_sweeps_gives_their_table_and_why_one_is_void(tmp_path):
    address = f"sqlite:///{tmp_path}/store.sqlite"
    for key in ("aaaa", "bbbb"):
        write_sweep(address, mission_records(models=(MODELS[4],), plans=PLANS[:1]), key=key, sizes=2)
    told = sweepdb(["void", "aaaa", "--reason", "wrong clock"], address)
    assert told.code == 0, told.err
    document = got(address, "sweeps").json()
    asked = json.loads(sweepdb(["sql", document["sql"], "--format", "json"], address).out)
    names = [one["name"] for one in document["columns"]]
    assert [list(one) for one in asked] == [names, names]
    place = names.index("voided")
    assert [one["voided"] for one in asked] == [row[place] for row in document["rows"]]
    assert {row[names.index("key")][:4]: row[place] for row in document["rows"]} == {
        "aaaa": "wrong clock",
        "bbbb": None,
    }


def test_measured_points_are_drawn_a_metric_at_a_time(url, monkeypatch):
    rows = (("ttft_ms", 100.0, 110.0), ("ttft_ms", 400.0, 300.0), ("ttft_ms", None, 1.0), ("qps", 2.0, 3.0))
    points = MeasuredPoints(columns=("metric", "measured", "predicted"), rows=rows, sql="SELECT 1")
    monkeypatch.setattr(listings, "measured_points", lambda _: points)
    spec = got(url, "measured.vl", {"metric": "ttft_ms"}).json()
    assert [one["measured"] for one in spec["data"]["values"]] == [100, 400]
    above, below = (spec["layer"][layer]["data"]["values"] for layer in (2, 3))
    assert [one["predicted"] for one in above] == pytest.approx([120, 480])
    assert [one["predicted"] for one in below] == pytest.approx([100 / 1.2, 400 / 1.2])
    assert spec["encoding"]["x"]["title"] == "measured, TTFT in ms"
    assert got(url, "measured.csv", {"metric": "qps"}).body.decode() == "metric,measured,predicted\nqps,2.0,3.0\n"
    assert got(url, "measured").json()["rows"] == [list(row) for row in rows]
    refused = got(url, "measured.vl", {"metric": "tpot_ms"})
    assert (refused.status, refused.json()["hint"]) == (400, "compared: qps, ttft_ms")
    assert got(url, "measured.vl").status == 404


def test_cells_are_what_json_can_hold():
    rows = [
        (1, 2.5, None, "a", float("nan"), Decimal("1.5"), True, ["x"]),
        (2, None, None, "b", 1.0, Decimal(2), False, [float("inf")]),
    ]
    document = table_document([str(place) for place in range(8)], rows)
    assert document["rows"] == [
        [1, 2.5, None, "a", None, 1.5, True, ["x"]],
        [2, None, None, "b", 1.0, 2, False, [None]],
    ]
    json.dumps(document, allow_nan=False)
    assert table_document(["a"], [])["rows"] == []


def test_the_openapi_document_has_every_report_with_its_keywords_and_columns(url):
    document = got(url, "openapi.json").json()
    assert document["openapi"].startswith("3.")
    for asked in asked_reports().values():
        operation = document["paths"][f"/api/v1/answer/{asked.name}"]["get"]
        assert [one["name"] for one in operation["parameters"]] == [*(one.name for one in keywords_of(asked)), "state"]
        assert all(column.name in operation["responses"]["200"]["description"] for column in asked.columns)
    assert "/api/v1/sql" not in document["paths"]


def test_rows_of_a_moment_stay_while_the_store_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_STATE_HOLDS_S", 0.05)
    monkeypatch.setattr(pool, "_FRESH_S", 0.05)
    address = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(address, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=4)
    asked = {"model": MODELS[4][0]}

    async def asking():
        async with served(address) as get:
            before = (await get("answer/best", asked)).json()
            await asyncio.to_thread(
                write_sweep, address, mission_records(models=(MODELS[4],), plans=PLANS[2:4]), key="b", sizes=4
            )
            await asyncio.sleep(0.1)  # a state holds for a while
            state = (await get("state")).json()["state"]
            same = (await get("answer/best", {**asked, "state": before["state"]})).json()
            now = (await get("answer/best", asked)).json()
            return before, state, same, now

    before, state, same, now = asyncio.run(asking())
    assert before["rows"] == same["rows"]
    assert before["state"] == same["state"] != state == now["state"]
    assert len(now["rows"]) > len(before["rows"])


def test_a_full_queue_says_when_to_come_again(url, monkeypatch):
    ask = Session.ask

    def slowly(session, question):
        time.sleep(0.4)
        return ask(session, question)

    monkeypatch.setattr(Session, "ask", slowly)

    async def asking():
        async with served(url, threads=1, most_waiting=1) as get:
            return await asyncio.gather(*(get("answer/best", {"tpot_limit": 40 + number}) for number in range(4)))

    answers = asyncio.run(asking())
    assert sorted(one.status for one in answers) == [200, 200, 503, 503]
    assert all(one.headers["retry-after"] == "1" for one in answers if one.status == 503)


def test_a_question_that_takes_too_long_is_stopped_and_the_next_is_answered(url, monkeypatch):
    ask = Session.ask

    def endless(session, question):
        if question.limits.tpot_ms == 7:
            session._connection.duckdb.execute(
                "SELECT count(*) FROM range(1e12::BIGINT) a, range(1e6::BIGINT) b"
            ).fetchall()
        return ask(session, question)

    monkeypatch.setattr(Session, "ask", endless)

    async def asking():
        async with served(url, timeout_s=2.0) as get:
            return [await get("answer/best", {"tpot_limit": limit}) for limit in (7, 40)]

    stopped, answered = asyncio.run(asking())
    assert (stopped.status, answered.status) == (504, 200)
    assert stopped.json()["error"] == "the answer took more than 2 s"


def test_sql_is_off_until_it_is_switched_on(url):
    statement = b"SELECT count(*) AS n FROM probe"
    assert got(url, "sql", method="POST", body=statement).status == 405
    document = got(url, "sql", method="POST", body=statement, sql=True).json()
    assert (document["columns"], document["rows"][0][0] > 0) == ([{"name": "n"}], True)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (b"DROP VIEW probe", "Only SELECT and EXPLAIN are run here"),
        (b"SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
        (b"SELECT 1; SELECT 2", "Exactly one statement"),
        (b"x" * 100_001, "at most 100,000 bytes"),
    ],
)
def test_sql_only_reads_the_store(url, statement, said):
    answered = got(url, "sql", method="POST", body=statement, sql=True)
    assert answered.status == 400
    assert said in answered.json()["error"]


def test_a_result_of_sql_ends_where_its_bytes_do():
    taken = []

    def rows():
        for number in range(50):
            taken.append(number)
            yield (number, "x" * 1000)

    found, more = bounded_rows(rows(), 10_000)
    assert more
    assert sum(map(len, found)) <= 10_000
    assert len(taken) == len(found) + 1  # nothing is fetched that is not sent
    assert bounded_rows(iter([(1, None)]), 10_000) == (["[1, null]"], False)
    with pytest.raises(InputError, match=r"One row of the result is larger than the 8 MiB"):
        bounded_rows(iter([("x" * 20_000,)]), 10_000)


def test_a_session_is_made_anew_after_many_questions(url, monkeypatch):
    monkeypatch.setattr(pool, "_MOST_ASKED", 2)

    async def asking():
        async with served(url) as get:
            return [(await get("answer/best", {"tpot_limit": 40 + number})).status for number in range(5)]

    assert asyncio.run(asking()) == [200] * 5


def test_who_leaves_in_the_middle_of_a_statement_is_no_fault_of_the_server(url):
    async def asking():
        sessions = SessionPool(parse_url(url))
        app = build_web(sessions, names=frozenset(LOOPBACK), sql=True)
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
                 "path": "/api/v1/sql", "raw_path": b"/api/v1/sql", "query_string": b"", "root_path": "",
                 "headers": [(b"host", b"localhost:8787")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8787)}  # fmt: skip
        told = []

        async def gone():
            return {"type": "http.disconnect"}

        async def answered(message):
            told.append(message)

        await app(scope, gone, answered)
        await asyncio.to_thread(sessions.close)
        return told

    assert asyncio.run(asking())[0]["status"] == 400
