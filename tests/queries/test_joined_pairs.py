"""Pairs of bursts whose loads keep every request: joined by number, against plain Python and against playing the pair."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from arrival_cases import player_of_qwen
from conftest_cli import sweepdb as command
from generator import sweep_record
from goodput_twin import crossing
from sqlalchemy import text

import sweepdb
from evaluator.arrivals.asked import at_rate
from evaluator.arrivals.load_rows import arrival_record, load_record, settings_key
from evaluator.arrivals.loads import LoadPlayer
from evaluator.arrivals.playing import play
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.evaluate import evaluate_scenario
from evaluator.identity import RecordBuilder
from queries.connect import connect
from store.loads import pack_kept, unpack_kept
from store.location import parse_url
from store.opening import open_store
from store.records import BlockRecord
from store.writing import begin_sweep, put_block, put_loads, put_scenarios

EDGES = 1e-5 * 10.0 ** (np.arange(289) / 32)
BURSTS = ArrivalProcess(kind="gamma", cv=3.0, requests=6_000)
LIMITS = {"ttft_limit": 700.0, "tpot_limit": 5.0}


def side(phase: str, requests: int = BURSTS.requests) -> LoadPlayer:
    return player_of_qwen(phase, replace(BURSTS, requests=requests))


@pytest.fixture(scope="module")
def sides():
    return side("prefill"), side("decode")


@pytest.fixture(scope="module")
def stored(sides, tmp_path_factory):
    """Both sides at twelve rates, every request kept."""
    url = f"sqlite:///{tmp_path_factory.mktemp('joined')}/store.sqlite"
    most = min(one.saturation_per_s for one in sides)
    with open_store(url, create=True) as store:
        sweep = begin_sweep(store, sweep_record(key="a" * 32))
        for player in sides:
            scenario = player.run.scenario
            record = RecordBuilder().scenario("Qwen/Qwen3-32B", scenario)
            common = settings_key(record.key, player.settings)
            (ref,) = put_scenarios(store, sweep, [record])
            block = evaluate_scenario(scenario, np.asarray([1]), player.run.operators)
            put_block(store, sweep, ref.id, BlockRecord(batch_sizes=block.batch_size, columns=block.columns()))
            loads = [
                load_record(player.load(rate * most, keep_requests=True), player.settings, common)
                for rate in np.linspace(0.05, 0.95, 13)
            ]
            put_loads(store, sweep, ref.id, arrival_record(player.settings.process), loads)
    return url


def played_share(sides, rate: float, ttft: float, tpot: float) -> float:
    """One instance of each side, request by request: a prompt decodes from when it has its first token."""
    first, second = sides
    asked = at_rate(first.asked, rate)
    prompts = play(first.rules, first.prices, asked, EDGES)
    order = np.argsort(prompts.end_s, kind="stable")
    answers = play(second.rules, second.prices, replace(second.asked, arrive_s=prompts.end_s[order]), EDGES)
    times = 1e3 * (prompts.end_s - asked.arrive_s)[order]
    each = 1e3 * (answers.end_s - answers.first_s) / (second.asked.steps - 1)
    return float(((times <= ttft) & (each <= tpot))[first.asked.count // 20 :].mean())


def carried(sides, ttft: float, tpot: float, wanted: float) -> float:
    """The rate at which a played pair falls below the wanted share."""
    low, high = 0.05, 0.95 * min(one.saturation_per_s for one in sides)
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if played_share(sides, middle, ttft, tpot) >= wanted else (low, middle)
    return 0.5 * (low + high)


@pytest.fixture(scope="module")
def forgotten(stored):
    """The same store without the requests: these may go."""
    url = stored.replace("store.sqlite", "copy.sqlite")
    shutil.copy(parse_url(stored).path, parse_url(url).path)
    with open_store(url) as store, store.writing() as connection:
        connection.execute(text("DELETE FROM load_request"))
    return url


@pytest.mark.parametrize("limits", [(250.0, 6.9, 0.6), (354.0, 7.05, 0.74)])
def test_bursts_are_joined_where_the_product_of_shares_misses_the_pair(stored, forgotten, sides, limits) -> None:
    """What is left is that decode sides were simulated with the bursts themselves, which prefill sides smooth."""
    ttft, tpot, wanted = limits
    given = {"tpot_limit": tpot, "attainment": wanted, "num_devices": 8, "mode": "pd"}
    with sweepdb.open(stored) as one, sweepdb.open(forgotten) as other:
        (first,) = one.best(by="goodput", ttft_limit=ttft, **given).dicts()
        outside = sides[0].load_outside_ms + first["kv_transfer_ms"]
        (joined,), (product,) = (
            opened.best(by="goodput", ttft_limit=ttft + outside, **given).dicts() for opened in (one, other)
        )
        assert any("join" in note for note in one.best(by="goodput", ttft_limit=ttft, **given).notes)
        assert any("keep_requests" in note for note in other.best(by="goodput", ttft_limit=ttft, **given).notes)
    assert (joined["prefill_instances"], joined["decode_instances"]) == (1, 1)
    assert (joined["combined"], product["combined"]) == ("requests joined", "shares multiplied")
    truth = carried(sides, ttft, tpot, wanted)
    missed, off = (abs(row["goodput"] / truth - 1.0) for row in (product, joined))
    print(f"{missed:.1%} off by the product, {off:.1%} joined")
    assert missed > 0.15
    assert off < 0.75 * missed
    assert joined["goodput_least"] <= joined["goodput"] <= joined["goodput_most"] * (1 + 1e-9)


def requests_of(url):
    """By phase: rates, times outside of steps, and (TTFT of steps, TPOT) of every request in order; NaN: rejected."""
    with connect(url) as connection:
        loads = connection.execute(
            "SELECT phase, arrivals_per_s, outside_ms, load_id FROM load ORDER BY arrivals_per_s"
        ).fetchall()
        found = {"prefill": [], "decode": []}
        for phase, rate, outside, load in loads:
            rows = connection.execute(
                "SELECT ttft_ms, tpot_ms FROM load_request WHERE load_id = $load ORDER BY number", {"load": load}
            ).fetchall()
            found[phase].append((rate, np.asarray(rows, dtype=float) - (outside, 0.0)))
    return found


def joint(found, rate_p, rate_d, ttft, tpot):
    """The share of requests within both limits at rates between those played; that of the lowest below them."""

    def near(curve, rate):
        rates = [one for one, _ in curve]
        if rate <= rates[0]:
            return [(1.0, curve[0][1])]
        high = int(np.searchsorted(rates, rate - 1e-9))
        weight = (rate - rates[high - 1]) / (rates[high] - rates[high - 1])
        return [(1.0 - weight, curve[high - 1][1]), (weight, curve[high][1])]

    return sum(
        w_p * w_d * float(((p[:, 0] <= ttft) & (d[:, 1] <= tpot)).mean())
        for w_p, p in near(found["prefill"], rate_p)
        for w_d, d in near(found["decode"], rate_d)
    )


@pytest.mark.parametrize(("devices", "ttft", "tpot", "wanted"), [(8, 900.0, 9.0, 0.8), (20, 600.0, 8.5, 0.7)])
def test_joined_pairs_are_those_of_plain_python(stored, devices, ttft, tpot, wanted) -> None:
    given = {"tpot_limit": tpot, "attainment": wanted, "num_devices": devices, "mode": "pd"}
    with sweepdb.open(stored) as opened:
        (row,) = opened.best(by="goodput", ttft_limit=ttft, **given).dicts()
    found = requests_of(stored)
    prefills, decodes = row["prefill_instances"], row["decode_instances"]
    assert 4 * (prefills + decodes) == row["devices_used"] <= devices
    outside = row["kv_transfer_ms"] + side_outside(stored)
    errors = {"prefill": step_error(stored, "prefill"), "decode": step_error(stored, "decode")}
    for name, sign in (("goodput", 0), ("goodput_slower", 1), ("goodput_faster", -1)):
        slow, late = (1 + sign * errors[phase] for phase in ("prefill", "decode"))
        at_p, at_d = (
            [copies * rate / c for rate, _ in found[phase]]
            for phase, copies, c in (("prefill", prefills, slow), ("decode", decodes, late))
        )
        curve = [
            (node, joint(found, node * slow / prefills, node * late / decodes, (ttft - outside) / slow, tpot / late))
            for node in sorted({*at_p, *at_d})
            if node <= min(at_p[-1], at_d[-1])
        ]
        assert row[name] == pytest.approx(crossing(curve, wanted)[0], rel=1e-6), name


def side_outside(url):
    with connect(url) as connection:
        return connection.execute("SELECT any_value(outside_ms) FROM load WHERE phase = 'prefill'").fetchone()[0]


def step_error(url, phase):
    with sweepdb.open(url) as opened:
        limit = {"prefill": {"ttft_limit": 900.0}, "decode": {"tpot_limit": 50.0}}[phase]
        (row,) = opened.best(by="goodput", **limit, mode=phase).dicts()
    return row["step_error"]


def test_a_proof_of_joined_pairs_is_of_the_requests_too(stored, tmp_path) -> None:
    """Their digests are of the bytes as they are: a request that somebody moved is noticed, whatever is said of them."""
    asked = "query best --by goodput --mode pd --num-devices 8 --ttft-limit 900 --tpot-limit 9"
    proof, url = tmp_path / "proof.json", f"sqlite:///{tmp_path}/copy.sqlite"
    shutil.copy(parse_url(stored).path, parse_url(url).path)
    assert command(f"{asked} --proof {proof}", url).code == 0
    assert command(f"verify {proof}", url).code == 0
    with open_store(url) as store, store.writing() as connection:
        first = connection.execute(text("SELECT load_id, requests FROM load_request ORDER BY load_id LIMIT 1")).one()
        kept = unpack_kept(bytes(first.requests))
        moved = pack_kept(replace(kept, ttft_us=kept.ttft_us[::-1].copy()))
        connection.execute(text("DROP TRIGGER load_request_refuses_update"))
        connection.execute(
            text("UPDATE load_request SET requests = :requests WHERE load_id = :load"),
            {"requests": moved, "load": first.load_id},
        )
    outcome = command(f"verify {proof}", url)
    assert outcome.code == 3
    assert "are not those of the proof" in outcome.err.replace("\n", " ")


def test_means_are_those_of_every_request_that_was_played(stored) -> None:
    """Requests are kept in whole microseconds; between two rates a mean lies on the line."""
    with connect(stored) as connection:
        played = connection.execute(
            "SELECT phase, arrivals_per_s, avg(load_request.ttft_ms), avg(tpot_ms) FILTER (WHERE answer_tokens > 1)"
            " FROM load JOIN load_request ON load_request.load_id = load.load_id"
            " GROUP BY phase, arrivals_per_s ORDER BY phase, arrivals_per_s"
        ).fetchall()
    assert len(played) > 4
    with sweepdb.open(stored) as opened:
        for phase, rate, ttft, tpot in played:
            (row,) = opened.percentiles(rate=rate, mode=phase).dicts()
            assert row["ttft_mean_ms"] == pytest.approx(ttft, abs=1e-3)
            if phase == "decode":
                assert row["tpot_mean_ms"] == pytest.approx(tpot, abs=1e-3)
        (_, low, at_low, _), (_, high, at_high, _) = [row for row in played if row[0] == "prefill"][:2]
        (row,) = opened.percentiles(rate=(3 * low + high) / 4, mode="prefill").dicts()
    assert row["ttft_mean_ms"] == pytest.approx((3 * at_low + at_high) / 4, abs=1e-3)
