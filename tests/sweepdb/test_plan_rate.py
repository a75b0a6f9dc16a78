"""`plan` for a rate: what is simulated, that its rows are those of `capacity`, and what is said first."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sweepdb
from store.location import parse_url
from sweepdb.planning.arriving import to_buy
from sweepdb.planning.sizing import Ceiling, Known, Rounds, ceilings_of

MODEL = "Qwen/Qwen3-0.6B"
QUESTION = {"device": "h200_sxm", "total_devices": 4, "input_length": 2000, "output_length": 100, "requests": 1000,
            "ttft_limit": 400.0, "tpot_limit": 8.0}  # fmt: skip
OWN = ("rank", "carries_target", "quantization")  # of a plan: it ranks by what is to buy, and knows the budget


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('rated')}/store.sqlite"
    assert sweepdb.plan(MODEL, store=url, **QUESTION, rate=20.0).probes_evaluated > 100
    return url


def capacity(url, plan, **more):
    with sweepdb.open(url) as store:
        limits = {name: QUESTION[name] for name in ("ttft_limit", "tpot_limit")}
        return store.capacity(**{"sweep": plan.sweep, "attainment": 0.95, "top": 1000, **limits, **more}).dicts()


def without_rank(row):
    return {name: value for name, value in row.items() if name not in OWN}


@pytest.mark.parametrize(
    ("rate", "limits", "attainment"),
    [(3.0, {}, 0.95), (60.0, {}, 0.9), (400.0, {"tpot_limit": 4.0}, 0.99), (60.0, {"ttft_limit": 120.0}, 0.5)],
)
def test_rows_are_those_of_capacity(url, rate, limits, attainment):
    found = sweepdb.plan(MODEL, store=url, **{**QUESTION, **limits}, rate=rate, attainment=attainment)
    beside = capacity(url, found, rate=rate, attainment=attainment, **limits)
    assert {row["attainment"] for row in found.dicts()} == {attainment}
    for row in found.dicts():
        assert without_rank(row) in [without_rank(one) for one in beside]
        assert row["carries_target"] == (row["devices"] <= 4)
    for mode in ("aggregated", "pd"):
        bought = [one["devices_with_margin"] for one in beside if one["mode"] == mode]
        mine = [one["devices_with_margin"] for one in found.dicts() if one["mode"] == mode]
        assert min(mine, default=None) == min(bought, default=None)
    assert found.best["devices_with_margin"] == min(row["devices_with_margin"] for row in found.dicts())


def test_asked_again_it_simulates_nothing(url):
    def sweeps():
        with sweepdb.open(url) as store:
            return [one.key for one in store.sweeps()]

    found = sweepdb.plan(MODEL, store=url, **QUESTION, rate=20.0)
    before = sweeps()
    again = sweepdb.plan(MODEL, store=url, **{**QUESTION, "tpot_limit": 9.0}, rate=21.0)
    assert sweeps() == before
    assert (again.sweep, again.probes_evaluated, found.probes_evaluated) == (found.sweep, 0, 0)


def test_what_is_to_buy_is_said_first_and_a_poisson_process_is_an_assumption(url):
    notes = []
    found = sweepdb.plan(MODEL, store=url, **QUESTION, rate=60.0, on_notes=notes.extend)
    assert "assumed: requests arrive as a Poisson process (`arrivals=gamma:3` for bursts, or trace:FILE)" in notes
    first, *others = found.sentences()
    best = found.best
    assert first.startswith(f"Buy {best['devices_with_margin']} h200_sxm (")
    assert "with 95 % of them within the limits" in first
    assert "poisson, 1000 requests, seed 1" in others[0]
    counts = to_buy(best)
    if best["mode"] == "aggregated":
        assert counts["instances"] * best["num_devices"] == best["devices_with_margin"]
    (launched,) = [one.words[1:] for one in found.next_commands() if one.words[0] == "launch"]
    # Every server to buy is started: `Nx ROW`, or a pair with its counts.
    count = (
        f"{counts['instances']}x"
        if best["mode"] == "aggregated"
        else f"{counts['prefill_instances']}P{counts['decode_instances']}D"
    )
    assert set(launched) - {"1x"} == {*found.probes, count} - {"1x"}


def test_a_budget_that_is_too_small_says_what_it_carries(url):
    found = sweepdb.plan(MODEL, store=url, **QUESTION, rate=1000.0)
    assert [row["carries_target"] for row in found.dicts()] == [False] * 4
    with sweepdb.open(url) as store:
        asked = {"by": "goodput", "attainment": 0.95, "sweep": found.sweep, "num_devices": 4,
                 "ttft_limit": 400.0, "tpot_limit": 8.0}  # fmt: skip
        together = max(row["system_goodput"] for row in store.best(**asked).dicts())
        apart = max(row["goodput"] for row in store.best(**asked, mode="pd").dicts())
    assert found.within == max(together, apart)
    assert f"they carry up to {found.within:.3g} requests/s" in " ".join(found.sentences())


def test_no_stored_row_near_the_limits_needs_no_simulation(url):
    found = sweepdb.plan(MODEL, store=url, **{**QUESTION, "ttft_limit": 0.001}, rate=5.0)
    assert found.best is None
    assert list(found.sentences()) == ["Nothing satisfies the limits."]


def test_goodput_stays_below_what_a_closed_loop_finishes(url):
    """The bound by which simulations are left out: here of every configuration that was simulated."""
    with sweepdb.open(url) as store:
        sweep = store.sweeps()[-1].key
        closed = next(one.key for one in store.sweeps() if one.key != sweep)
        for ttft, tpot, e2e in ((400.0, 8.0, inf), (100.0, 3.0, inf), (3000.0, 30.0, inf), (400.0, 8.0, 300.0)):
            ceilings = {one.scenario: one for key in (sweep, closed)
                        for one in ceilings_of(parse_url(url), key, ttft_ms=ttft, tpot_ms=tpot, e2e_ms=e2e)}  # fmt: skip
            for mode, limits in (
                ("aggregated", {"ttft_limit": ttft, "tpot_limit": tpot, "e2e_limit": None if e2e == inf else e2e}),
                ("prefill", {"ttft_limit": ttft}),
                ("decode", {"tpot_limit": tpot}),
            ):
                if mode != "aggregated" and e2e < inf:
                    continue
                for row in store.best(by="goodput", sweep=sweep, mode=mode, attainment=0.95, **limits).dicts():
                    if row["goodput"] is not None:
                        assert row["goodput"] <= ceilings[row["scenario"]].most_per_s


def ceiling(name, phase, devices, most):
    return Ceiling(scenario=name, phase=phase, lot="h200", num_devices=devices, most_per_s=most, lone_ttft_ms=0.0)


def test_rounds_end_where_nothing_left_can_need_as_few_devices():
    # 20 requests/s: a takes at least 2 x 4 = 8 devices, b 3 x 2 = 6, c 20, d 16 x 2 = 32, e 10 x 4 = 40.
    one = [
        ceiling("a", "aggregated", 4, 10.0), ceiling("b", "aggregated", 2, 7.0), ceiling("c", "aggregated", 1, 1.0),
        ceiling("d", "aggregated", 2, 1.25), ceiling("e", "aggregated", 4, 2.0),
    ]  # fmt: skip
    rounds = Rounds(one, 20.0)
    assert rounds.next(Known({})) == ["b", "a", "c", "d"]  # four at first, by devices
    assert rounds.next(Known({("h200", "aggregated"): 39})) == []  # e takes 40
    again = Rounds(one, 20.0)
    again.next(Known({}))
    assert again.next(Known({("h200", "aggregated"): 40})) == ["e"]


def test_a_side_counts_with_the_least_of_the_other():
    # Decode takes at least 3 devices, so that a prefill side of 8 cannot be part of a pair of 10.
    sides = [
        ceiling("p", "prefill", 2, 10.0), ceiling("q", "prefill", 8, 20.0), ceiling("x", "decode", 3, 25.0),
    ]  # fmt: skip
    rounds = Rounds(sides, 20.0)
    assert [one.scenario for one in rounds.left(Known({("h200", "pd"): 10}))] == ["x", "p"]
    assert [one.scenario for one in rounds.left(Known({("h200", "pd"): 11}))] == ["x", "p", "q"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.1, 50.0), st.floats(0.05, 1.0)), min_size=1, max_size=30),
    st.floats(0.5, 200.0),
)
def test_rounds_find_the_fewest_devices(drawn, rate):
    """Whatever share of its ceiling each carries, the best of what was simulated is the best of all."""
    found = [ceiling(str(place), "aggregated", devices, most) for place, (devices, most, _) in enumerate(drawn)]
    truth = {
        one.scenario: Ceiling(**{**one._asdict(), "most_per_s": one.most_per_s * share}).fewest(rate)
        for one, (_, _, share) in zip(found, drawn, strict=True)
    }
    rounds, known = Rounds(found, rate), Known({})
    while rounds.next(known):
        known = Known({("h200", "aggregated"): min(truth[name] for name in rounds.tried)})
    assert min(truth[name] for name in rounds.tried) == min(truth.values())
