"""Decisions by REST and as a tool: those of Python, with the bands of a picture and the script of the next run."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest
from web_client import send

import sweepdb
from store.location import parse_url
from sweepdb.web.app import build_web
from sweepdb.web.assistant import MOST_BYTES, Assistant
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

MODEL = "Qwen/Qwen3-32B-FP8"
ASKED = {"num_devices": 8, "tpot_limit": 30, "ttft_limit": 2000}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('decisions') / 's.sqlite'}"
    sweepdb.evaluate(
        MODEL, device="h200_sxm", total_devices=8, input_length=2000, output_length=500, batch_range=128, store=address
    )
    return address


def got(url, path, parameters):
    async def asking():
        sessions = SessionPool(parse_url(url))
        try:
            return await send(build_web(sessions, names=frozenset(LOOPBACK)), f"/api/v1/{path}", parameters)
        finally:
            sessions.close()

    return asyncio.run(asking())


def test_a_decision_is_that_of_python(url):
    document = got(url, "decide", {**ASKED, "budget": 2}).json()
    with sweepdb.open(url) as store:
        found = store.decide(**ASKED, budget=2)
    assert document["answer"]["probe"] == found.answer.probe
    assert [one["probe"] for one in document["next_starts"]] == [one.probe for one in found.next_starts]
    assert document["sentences"][0].startswith("Answer now: ")
    # Four of five runs lie in a band; the prediction is its middle as long as nobody measured anything.
    for one in document["bands"]:
        assert one["low_ms"] < one["expected_ms"] < one["high_ms"]
        assert one["expected_ms"] == pytest.approx(one["predicted_ms"])
    assert {one["scenario"] for one in document["next_starts"]} <= {one["scenario"] for one in document["bands"]}


def test_the_script_of_the_next_run_measures_its_ladder(url, tmp_path):
    start = got(url, "decide", ASKED).json()["next_starts"][0]
    ladder = " ".join(str(one["concurrency"]) for one in start["ladder"])
    script = got(url, "decide.sh", ASKED).body.decode()
    # Without its last part it starts nothing, and writes the folder of `launch`.
    (tmp_path / "run.sh").write_text(script.partition("./server.sh >")[0])
    subprocess.run(["bash", "run.sh"], cwd=tmp_path, check=True)
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert folder.name == f"run-{start['scenario']}"
    assert f"LADDER:-{ladder}}}" in (folder / "ladder.sh").read_text()
    assert json.loads((folder / "expected.json").read_text())["roles"]["server"]["probe"] == start["probe"]
    subprocess.run(["bash", "-n", folder / "bench.sh"], check=True)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"budget": "two"}, "`budget` is a number, not 'two'"),
        ({"budget": "1.5"}, "`budget=1.5` is not a whole number of starts"),
        ({"gain": "0"}, "`gain=0` is not a share between 0 and 1"),
        ({"tpot_limts": "3"}, "tpot_limts"),
    ],
)
def test_a_decision_that_cannot_be_asked_is_refused(url, parameters, said):
    refused = got(url, "decide", parameters)
    assert refused.status == 400
    assert said in refused.json()["error"]


def test_a_decided_question_has_no_script(url):
    refused = got(url, "decide.sh", {**ASKED, "tpot_limit": 0.01})
    assert refused.status == 400
    assert "no run is worth it" in refused.json()["error"]


def test_an_assistant_decides_in_few_bytes(url):
    pool = SessionPool(parse_url(url))
    try:
        told = asyncio.run(Assistant(pool).decide(ASKED))
    finally:
        pool.close()
    assert told["answer"]["stands"] == "predicted"
    assert told["next_starts"][0]["ladder"]
    assert len(json.dumps(told)) <= MOST_BYTES
