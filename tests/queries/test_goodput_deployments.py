"""Deployments by goodput: capacity for a rate, comparison, cost, sensitivity, scale of limits; against plain Python."""

from __future__ import annotations

import re
from itertools import product
from math import ceil

import pytest
from conftest_loads import evaluate_loads
from goodput_twin import bent, goodput_of, ladders_of, pair_goodput, shares_of, side_levels, unbent

import sweepdb
from queries.asking.library import OLD_NAMES
from store.errors import InputError
from store.opening import open_store
from store.records import PriceRecord
from store.writing.beside import put_prices

LIMITS = {"ttft_limit": 700.0, "tpot_limit": 5.0}
WANTED = 0.95
SCALES = [2 ** (step / 4) for step in range(-8, 9)]
DEVICES = ["a100_sxm", "h100_sxm"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Plans of one and two devices, every phase, played at ten rates."""
    url = f"sqlite:///{tmp_path_factory.mktemp('deployments')}/store.sqlite"
    rates = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 90.0, 120.0, 180.0, 240.0)
    evaluate_loads(url, num_devices=[1, 2], requests=2_000, tp_sizes=[1, 2], search="every", rates=rates)
    evaluate_loads(url, device="h100_sxm", mode="aggregated", requests=2_000, rates=rates)
    with open_store(url) as store:
        put_prices(
            store,
            [
                PriceRecord(
                    device_name=name, effective_from="2026-01-01", usd_per_device_hour=usd, watts_per_device=700
                )
                for name, usd in zip(DEVICES, (2.0, 3.0), strict=True)
            ],
        )
    return url


@pytest.fixture(scope="module")
def opened(stored):
    with sweepdb.open(stored) as store:
        yield store


@pytest.fixture(scope="module")
def ladders(stored):
    return ladders_of(stored)


def of_phase(ladders, phase, device="a100_sxm"):
    """(plan, devices of an instance) to its ladder."""
    return {(plan, size): rows for (kind, on, plan, size), rows in ladders.items() if (kind, on) == (phase, device)}


@pytest.fixture(scope="module")
def sides(opened, ladders):
    """Rates by level of every side, prompts moved in the time that answers say."""
    moved = {
        row["prefill_plan"]: row["kv_transfer_ms"]
        for row in opened.best(by="goodput", mode="pd", num_devices=8, device="a100_sxm", top=100, **LIMITS).dicts()
    }
    prefill = {
        at: side_levels(rows, LIMITS["ttft_limit"] - moved[at[0]], None, WANTED)
        for at, rows in of_phase(ladders, "prefill").items()
    }
    decode = {
        at: side_levels(rows, None, LIMITS["tpot_limit"], WANTED) for at, rows in of_phase(ladders, "decode").items()
    }
    return prefill, decode


def together_of(ladders, device="a100_sxm"):
    return {
        at: goodput_of(rows, LIMITS["ttft_limit"], LIMITS["tpot_limit"], WANTED)
        for at, rows in of_phase(ladders, "aggregated", device).items()
    }


@pytest.mark.parametrize("rate", [3.0, 55.0, 170.0])
def test_capacity_is_the_fewest_devices_of_every_count(opened, ladders, sides, rate) -> None:
    answer = opened.capacity(rate=rate, device="a100_sxm", top=100, **LIMITS)
    rows = answer.dicts()
    assert answer.report == "capacity by goodput"
    expected = {}
    for (plan, size), goodput in together_of(ladders).items():
        if goodput:
            copies = ceil(rate / goodput)
            expected[("aggregated", plan, None)] = (copies * size, copies * goodput)
    prefill, decode = sides
    for (p, p_size), (d, d_size) in product(prefill, decode):
        carried = [
            (n * p_size + m * d_size, -pair_goodput(prefill[p, p_size], decode[d, d_size], (n, m)))
            for n, m in product(range(1, 9), repeat=2)
            if pair_goodput(prefill[p, p_size], decode[d, d_size], (n, m)) >= rate
        ]
        if carried:
            expected[("pd", d, p)] = (min(carried)[0], None)
    found = {(row["mode"], row["plan"] or row["decode_plan"], row["prefill_plan"]): row for row in rows}
    assert {at: row["devices"] for at, row in found.items()} == {at: devices for at, (devices, _) in expected.items()}
    for at, (_, goodput) in expected.items():
        assert found[at]["goodput"] >= rate * (1 - 1e-9)
        if goodput is not None:
            assert found[at]["goodput"] == pytest.approx(goodput)
            assert found[at]["headroom"] == pytest.approx(goodput / rate - 1)
    assert [row["devices"] for row in rows] == sorted(row["devices"] for row in rows)
    few = opened.capacity(rate=rate, device="a100_sxm", top=2, **LIMITS).dicts()
    assert few == rows[:2]
    within = opened.capacity(rate=rate, device="a100_sxm", num_devices=3, top=100, **LIMITS).dicts()
    assert [{**row, "carries_target": True} for row in within] == rows
    assert [row["carries_target"] for row in within] == [row["devices"] <= 3 for row in rows]


def test_the_number_to_buy_carries_the_rate_with_longer_steps(opened, ladders, sides) -> None:
    rate = 55.0
    for row in opened.capacity(rate=rate, device="a100_sxm", top=100, **LIMITS).dicts():
        assert row["devices_slower"] == row["devices_with_margin"]
        if row["devices_with_margin"] is None:
            continue
        assert row["devices_with_margin"] >= row["devices"]
        assert 0.95 <= row["attained"] <= 1.0  # more devices than the rate takes at 95 %
        if row["mode"] == "aggregated":
            (one,) = [
                one for one in opened.best(by="goodput", device="a100_sxm", top=100, **LIMITS).dicts()
                if one["scenario"] == row["scenario"]
            ]  # fmt: skip
            assert row["instances_with_margin"] == ceil(rate / one["goodput_slower"])
            assert row["goodput_per_instance"] == one["goodput"]
            assert row["step_error"] == one["step_error"]


def test_capacity_for_probes_is_as_it_was(opened) -> None:
    assert opened.capacity(target_rate=10.0, num_devices=4, device="a100_sxm").report == "capacity"
    with pytest.raises(InputError, match="devices are counted for a rate of requests"):
        opened.capacity(by="goodput", ttft_limit=300.0, device="a100_sxm")


@pytest.mark.parametrize("devices", [2, 5])
def test_compare_by_goodput_is_the_best_of_every_count(opened, ladders, sides, devices) -> None:
    answer = opened.compare(by="goodput", num_devices=devices, device="a100_sxm", **LIMITS)
    rows = {row["mode"]: row for row in answer.dicts()}
    together = max(devices // size * goodput for (_, size), goodput in together_of(ladders).items())
    prefill, decode = sides
    apart = max(
        pair_goodput(prefill[p], decode[d], (n, m))
        for p, d, n, m in product(prefill, decode, range(1, 6), range(1, 6))
        if n * p[1] + m * d[1] <= devices
    )
    assert rows["aggregated"]["system_goodput"] == pytest.approx(together)
    assert rows["pd"]["system_goodput"] == pytest.approx(apart)
    assert rows["pd"]["gain"] == pytest.approx(apart / together)
    (said,) = answer.verdict
    winner = "Disaggregated serving" if apart > together else "Aggregated serving"
    assert said.startswith(
        f"{winner} carries {max(apart / together, together / apart):.2f} x the requests/s within the"
    )


@pytest.mark.parametrize(("old", "more"), [
    ("goodput", {"mode": "pd"}), ("goodput-capacity", {"rate": 20.0}), ("goodput-compare", {"num_devices": 4}),
    ("goodput-cost", {}), ("goodput-sensitivity", {"vary": "tpot", "mode": "aggregated"}),
])  # fmt: skip
def test_names_of_before_answer_and_say_the_new_one(opened, old, more) -> None:
    new = OLD_NAMES[old]
    asked = {"device": "a100_sxm", **more, **LIMITS}
    with pytest.warns(DeprecationWarning, match=f"^{old} is an old name, .* ask {new} with `by=goodput`$"):
        before = getattr(opened, old.replace("-", "_"))(**asked)
    after = opened.report(new, by="goodput", **asked)
    assert (before.columns, before.rows, before.verdict) == (after.columns, after.rows, after.verdict)
    assert after.rows
    assert before.report == after.report
    assert after.report.startswith(f"{new} by goodput")


def test_forms_of_others_are_not_asked_by_their_names(opened) -> None:
    with pytest.raises(InputError, match="report prefill makes no use of `by`"):
        opened.report("prefill", by="goodput")
    with pytest.raises(InputError, match="report best by goodput is part of another one") as caught:
        opened.report("best by goodput")
    assert caught.value.hint == "ask best"
    with pytest.raises(InputError, match="`by`"):
        opened.best(by="throughput")


def test_cost_by_goodput_is_arithmetic(opened, ladders) -> None:
    rows = {row["device"]: row for row in opened.cost(by="goodput", **LIMITS).dicts()}
    each = {}
    for device, usd in zip(DEVICES, (2.0, 3.0), strict=True):
        best = max(goodput / size for (_, size), goodput in together_of(ladders, device).items())
        each[device] = best
        assert rows[device]["goodput_per_device"] == pytest.approx(best)
        assert rows[device]["requests_per_usd"] == pytest.approx(best * 3600 / usd)
        assert rows[device]["usd_per_1000_requests"] == pytest.approx(1000 * usd / (best * 3600))
        assert rows[device]["requests_per_kwh"] == pytest.approx(best * 3600 / 0.7)
    for device, other, usd in ((*DEVICES, 3.0), (*DEVICES[::-1], 2.0)):
        # as many requests per $ as the other: price / own rate = its price / its rate
        assert rows[device]["break_even_usd_per_device_hour"] == pytest.approx(usd * each[device] / each[other])


@pytest.mark.parametrize("marginal", [False, True])
@pytest.mark.parametrize("vary", ["ttft", "tpot"])
def test_sensitivity_by_goodput_reads_every_value_of_the_limit(opened, ladders, vary, marginal) -> None:
    held = {name: value for name, value in LIMITS.items() if not name.startswith(vary)}
    rows = opened.sensitivity(
        by="goodput", vary=vary, device="a100_sxm", mode="aggregated", marginal=marginal, **held
    ).dicts()
    assert len(rows) > 1
    for number, row in enumerate(rows):
        limits = {**held, f"{vary}_limit": row["limit_ms"]}
        found = {
            plan: goodput_of(one, limits["ttft_limit"], limits["tpot_limit"], WANTED, marginal=marginal) / size
            for (plan, size), one in of_phase(ladders, "aggregated").items()
        }
        assert row["ranked_goodput"] == pytest.approx(max(found.values()))
        assert found[row["plan"]] == pytest.approx(max(found.values()))
        if number:
            before = rows[number - 1]
            assert row["gain"] == pytest.approx(row["ranked_goodput"] - before["ranked_goodput"], abs=1e-9)
            assert row["gain_per_ms"] == pytest.approx(row["gain"] / (row["limit_ms"] - before["limit_ms"]), abs=1e-9)
            assert row["winner_changes"] == (
                (row["plan"], row["num_devices"]) != (before["plan"], before["num_devices"])
            )
    # Looser still, nothing more is gained.
    most = max(
        goodput_of(one, *(None if vary == name else held[f"{name}_limit"] for name in ("ttft", "tpot")), WANTED,
                   marginal=marginal) / size
        for (_, size), one in of_phase(ladders, "aggregated").items()
    )  # fmt: skip
    assert rows[-1]["ranked_goodput"] == pytest.approx(most)


def test_the_scale_of_the_limits_is_read_from_the_same_cells(opened, ladders) -> None:
    rate = 30.0
    answer = opened.attainment(scale=True, rate=rate, device="a100_sxm", mode="aggregated", **LIMITS)
    found = {(row["plan"], row["num_devices"], row["scale"]): row for row in answer.dicts()}
    plans = of_phase(ladders, "aggregated")
    assert sorted(found) == sorted((*at, scale) for at in plans for scale in SCALES)
    for (plan, size), one in plans.items():
        for scale in SCALES:
            row, limits = found[plan, size, scale], [scale * value for value in LIMITS.values()]
            assert (row["goodput"] or 0.0) == pytest.approx(goodput_of(one, *limits, WANTED))
            shares = {at: share for at, share, _ in shares_of(one, *limits)}
            assert row["attained"] == pytest.approx(
                unbent((bent(shares[20.0]) + bent(shares[40.0])) / 2),
                abs=1e-10,  # 30 lies half way; shares of a bin are in steps of 2^-32
            )
    with pytest.raises(InputError, match="report best by goodput makes no use of `scale`"):
        opened.report("best", by="goodput", scale=True)


def test_the_line_says_where_separation_turns(opened, ladders, sides) -> None:
    answer = opened.best(by="goodput", mode="pd", num_devices=4, device="a100_sxm", **LIMITS)
    row = answer.dicts()[0]
    (said,) = answer.verdict
    sizes = dict(of_phase(ladders, "prefill").keys())
    p, d, both = (row[f"{side}_plan"] for side in ("prefill", "decode", "colocated"))
    beside = row["kv_transfer_ms"]

    def pays(of_ttft: float, of_tpot: float) -> bool | None:
        ttft, tpot = of_ttft * LIMITS["ttft_limit"], of_tpot * LIMITS["tpot_limit"]
        apart = pair_goodput(
            side_levels(of_phase(ladders, "prefill")[p, sizes[p]], ttft - beside, None, WANTED),
            side_levels(of_phase(ladders, "decode")[d, sizes[d]], None, tpot, WANTED),
            (row["prefill_instances"], row["decode_instances"]),
        )
        copies = row["colocated_instances"]
        together = copies * goodput_of(of_phase(ladders, "aggregated")[both, sizes[both]], ttft, tpot, WANTED)
        return None if max(apart, together) <= 0.0 else apart > together

    assert said.startswith(f"Separation {'pays' if pays(1, 1) else 'does not pay'} here: ")
    # Instances and plans as tables spell them, such as `2 x TP1 + 1 x TP2`, and as many devices beside them.
    assert re.search(r"here: \d x TP\d \+ \d x TP\d carries [\d.]+ x what \d x TP\d(?: DP\d)? for both", said)
    told = dict(re.findall(r"(TTFT|TPOT) ([\d.,]+) ms alone", said))
    for name, limit, at in (
        ("TTFT", LIMITS["ttft_limit"], lambda scale: (scale, 1)),
        ("TPOT", LIMITS["tpot_limit"], lambda scale: (1, scale)),
    ):
        turned = [2 ** (step / 4) for step in range(-12, 13) if pays(*at(2 ** (step / 4))) is (not pays(1, 1))]
        if not turned:
            assert name not in told
            continue
        nearest = min(turned, key=lambda scale: max(scale, 1 / scale))
        assert float(told[name].replace(",", "")) == pytest.approx(nearest * limit, rel=0.01)
    assert told  # a tight TTFT leaves no time to move a prompt


def test_pairs_cost_what_the_devices_of_both_sides_do(opened) -> None:
    limits = {"ttft_limit": 900.0, "tpot_limit": 5.0, "mode": "pd"}
    (row,) = opened.cost(by="goodput", **limits).dicts()
    pairs = [pair for pair in opened.best(by="goodput", top=50, **limits).dicts() if pair["goodput"]]
    best = max(pair["goodput"] / pair["devices_used"] for pair in pairs)
    assert len(pairs) > 2
    assert (row["prefill_device"], row["decode_device"], row["price_from"]) == ("a100_sxm", "a100_sxm", "2026-01-01")
    assert row["requests_per_usd"] == pytest.approx(best * 3600 / 2.0)
    assert row["requests_per_kwh"] == pytest.approx(best * 3_600_000 / 700)
    assert row["usd_per_hour"] == pytest.approx(2.0 * row["num_devices"])
    assert row["usd_per_1000_requests"] == pytest.approx(1000 / row["requests_per_usd"])
    chosen = [
        f"{pair['prefill_instances']} x {pair['prefill_plan']} + {pair['decode_instances']} x {pair['decode_plan']}"
        for pair in pairs
        if pair["goodput"] / pair["devices_used"] == pytest.approx(best)
    ]
    assert row["plan"] in chosen
    (unpriced,) = opened.cost(by="goodput", price_date="2025-01-01", **limits).dicts()
    assert (unpriced["requests_per_usd"], unpriced["plan"]) == (None, row["plan"])


def test_devices_by_goodput_are_the_best_plan_of_each(opened) -> None:
    rows = opened.devices(by="goodput", mode="aggregated", **LIMITS).dicts()
    every = opened.best(by="goodput", mode="aggregated", top=1000, **LIMITS).dicts()
    most = {
        name: max((row["goodput"] or 0.0) / row["num_devices"] for row in every if row["device"] == name)
        for name in DEVICES
    }
    assert {row["device"]: row["goodput_per_device"] for row in rows} == pytest.approx(most)
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["goodput_per_device"] >= rows[1]["goodput_per_device"]


@pytest.mark.parametrize("mode", ["aggregated", "decode"])
def test_the_frontier_by_goodput_is_every_load_that_none_beats(opened, mode) -> None:
    limits = {name: limit for name, limit in LIMITS.items() if mode == "aggregated" or name == "tpot_limit"}
    kept = [row for row in opened.attainment(mode=mode, **limits).dicts() if row["attained"] >= WANTED]
    sizes = {
        row["scenario"]: row["num_devices"] for row in opened.best(by="goodput", mode=mode, top=1000, **limits).dicts()
    }
    points = []
    for row in kept:
        (scenario,) = opened.sql("SELECT scenario FROM load WHERE load = $load", param={"load": row["load"]}).rows[0]
        at_rate = opened.percentiles(mode=mode, rate=row["arrivals_per_s"], device=row["device"], top=100).dicts()
        median = next(one["tpot_p50_ms"] for one in at_rate if one["load"] == row["load"])
        points.append((row["question_group"], row["load"], 1000 / median, row["arrivals_per_s"] / sizes[scenario]))
    expected = {
        load
        for group, load, pace, worth in points
        if not any(g == group and p >= pace and w >= worth and (p, w) != (pace, worth) for g, _, p, w in points)
    }
    found = opened.pareto(by="goodput", mode=mode, **limits).dicts()
    assert {row["load"] for row in found} == expected
    assert len(expected) > 2
    told = {load: (pace, worth) for _, load, pace, worth in points}
    for row in found:
        assert (row["tokens_per_s_per_user"], row["requests_per_s_per_device"]) == pytest.approx(told[row["load"]])
