"""One row asked by every face: the same probe, and the same e2e, requests/s, tokens/s and concurrency.

The client's lengths are spread, so that nominal and mean lengths differ: there two definitions would show."""

from __future__ import annotations

import asyncio
import json

import pytest
from conftest_cli import sweepdb as command
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from web_client import send

import sweepdb
from store.location import parse_url
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

MODEL, DEVICES, INPUT, OUTPUT, SHORTEST = "Qwen/Qwen3-8B", ("h100_sxm", "h200_sxm", "b200_sxm"), 2000, 200, 0.8
MEAN = (1 + SHORTEST) / 2


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Instances of one and two devices, of three devices with prices."""
    url = f"sqlite:///{tmp_path_factory.mktemp('faces')}/store.sqlite"
    sweepdb.evaluate(
        MODEL, device=DEVICES, num_devices=[1, 2], input_length=INPUT, output_length=OUTPUT, batch_range=(1, 128),
        client_lengths=SHORTEST, mode="aggregated", serving_model="vllm", store=url,
    )  # fmt: skip
    for dollars, device in enumerate(DEVICES, start=2):
        assert command(f"prices set {device} --usd-per-device-hour {dollars}", url).code == 0
    return url


@pytest.fixture(scope="module")
def store(url):
    with sweepdb.open(url) as opened:
        yield opened


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "tpot_limit": st.floats(4.0, 60.0),
        "ttft_limit": st.floats(50.0, 4000.0),
        "e2e_limit": st.floats(800.0, 15_000.0),
        "num_devices": st.sampled_from([1, 2, 3, 8]),
    },
)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIMITS)
def test_the_best_of_each_device_is_what_best_gives_of_that_device(store, asked):
    found = {row["device"]: row for row in store.devices(**asked).dicts()}
    for device in DEVICES:
        alone = store.best(device=device, top=1, **asked).dicts()
        if not alone:
            assert device not in found
            continue
        shared = found[device].keys() & alone[0].keys() - {
            "rank",
            "question_group",
            "ranked_by",
        }  # the name of one order
        assert {name: found[device][name] for name in shared} == {name: alone[0][name] for name in shared}
    assert [row["rank"] for row in found.values()] == list(range(1, len(found) + 1))


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIMITS)
def test_users_rate_time_and_tokens_of_a_row_are_of_one_length(store, asked):
    for row in store.best(**asked).dicts():
        # Little's law, and the mean answer that clients of these lengths get.
        assert row["concurrency"] == pytest.approx(row["requests_per_s"] * row["e2e_ms"] / 1000, rel=1e-9)
        assert row["output_tokens_per_s"] == pytest.approx(row["requests_per_s"] * MEAN * OUTPUT, rel=1e-9)
        assert row["e2e_ms"] == pytest.approx(row["ttft_ms"] + (MEAN * OUTPUT - 1) * row["tpot_exclusive_ms"], rel=1e-9)


def numbers_of(row, instances=1, **names):
    """What a face says of one instance, by one name for each number."""
    said = {"concurrency", "requests_per_s", "output_tokens_per_s", "e2e_ms", "ttft_ms"}
    many = said - {"e2e_ms", "ttft_ms"}
    return {name: row[names.get(name, name)] / (instances if name in many else 1) for name in said}


@pytest.mark.parametrize("device", DEVICES[:1])
def test_every_face_says_the_same_of_the_same_row(device, url, store, tmp_path):
    asked = {"tpot_limit": 30.0, "device": device}
    (best,) = store.best(top=1, **asked).dicts()
    probe, size = best["probe"], best["num_devices"]
    typed = f"--tpot-limit 30 --device {device} --format json"

    (whole,) = (row for row in store.deployments(num_devices=size, **asked).dicts() if row["probe"] == probe)
    of_whole = {"requests_per_s": "system_requests_per_s", "concurrency": "users"}
    (cost,) = store.cost(**asked).dicts()
    (devices,) = store.devices(**asked).dicts()
    (shown,) = json.loads(command(f"show {probe} --format json", url).out)
    (sql,) = store.sql(f"SELECT * FROM feasible WHERE probe = '{probe}'").dicts()
    (typed_row,) = json.loads(command(f"query best --top 1 {typed}", url).out)
    assert command(f"launch {probe} --output {tmp_path}/out", url).code == 0
    launched = json.loads((tmp_path / "out" / "expected.json").read_text())
    # Rates of a server that stays full are the row's; its benchmark's end with the last answers.
    launched = launched["deployment"] | launched["roles"]["server"]["predicted"]

    async def over_rest():
        sessions = SessionPool(parse_url(url))
        try:
            web = build_web(sessions, names=frozenset(LOOPBACK))
            return (await send(web, "/api/v1/answer/best", {"top": 1, **asked})).json()
        finally:
            sessions.close()

    rest = asyncio.run(over_rest())
    (rested,) = [dict(zip([one["name"] for one in rest["columns"]], row, strict=True)) for row in rest["rows"]]

    planned = sweepdb.plan(
        MODEL, device=device, total_devices=size, input_length=INPUT, output_length=OUTPUT, client_lengths=SHORTEST,
        quantization="NATIVE", tpot_limit=30.0, store=url,
    )  # fmt: skip
    (plan,) = (row for row in planned.dicts() if row["probe"] == probe)
    counted = store.concurrency(concurrency=best["concurrency"], num_devices=size, **asked).dicts()
    (asked_at,) = (row for row in counted if row["probe"] == probe)
    of_users = {**of_whole, "output_tokens_per_s": "system_output_tokens_per_s"}

    expected = numbers_of(best)
    for face in (numbers_of(devices), numbers_of(shown), numbers_of(sql), numbers_of(typed_row), numbers_of(rested),
                 numbers_of(whole, whole["instances"], **of_whole), numbers_of(launched, concurrency="users"),
                 numbers_of(plan, plan["instances"], **of_whole), numbers_of(asked_at, asked_at["instances"], **of_users)):  # fmt: skip
        assert face == pytest.approx(expected, rel=1e-12)
    assert (cost["probe"], devices["probe"]) == (probe, probe)
    assert cost["output_tokens_per_s"] == pytest.approx(expected["output_tokens_per_s"], rel=1e-12)
    assert cost["tokens_per_usd"] == pytest.approx(
        best["output_tokens_per_s_per_device"] * 3600 / (2 + DEVICES.index(device)), rel=1e-12
    )

    page = tmp_path / "report.html"
    assert command(f"report --tpot-limit 30 --device {device} --num-devices {size} --output {page}", url).code == 0
    text = page.read_text()
    assert f"{expected['e2e_ms']:,.0f}" in text


def test_holds_is_not_sure_where_first_tokens_are_on_both_sides_of_the_limit(tmp_path):
    """Users of lengths that are nearly alike may stay in step: a limit within that range is kept by some of them alone."""
    url = f"sqlite:///{tmp_path}/alike.sqlite"
    sweepdb.evaluate(MODEL, device="h100_sxm", num_devices=1, input_length=2000, output_length=200, batch_range=(8, 128),
                     client_lengths=0.95, mode="aggregated", serving_model="sglang", store=url)  # fmt: skip
    with sweepdb.open(url) as store:
        widest = max(store.curve(top=200).ttft_intervals, key=lambda one: one.most_ms / one.least_ms)
        said = {}
        for share in (0.999, 1.05):
            rows = store.curve(ttft_limit=share * widest.most_ms, top=200, tuned_servers=True).dicts()
            (said[share],) = (row["holds"] for row in rows if row["probe"] == widest.probe)
    # The range is 2.8 wide: its lower end lies so far below both limits that errors alone leave no doubt.
    assert said == {0.999: "likely", 1.05: "yes"}
