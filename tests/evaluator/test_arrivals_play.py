"""Requests that arrive against closed forms, a play with a clock, and the sums that no play can break."""

from __future__ import annotations

import ctypes
from dataclasses import fields, replace
from math import exp, factorial, floor, inf

import numpy as np
import pytest
from arrival_cases import EDGES, NODES, asking, prices
from arrival_player import play_with_a_clock
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import quick

from evaluator.arrivals.play_rules import AskedRequests, PlayRules, StepPrices
from evaluator.arrivals.playing import Stretches, compiled_play, play, play_compiled, play_in_python
from evaluator.arrivals.streams import (
    ArrivalProcess,
    dealt_replicas,
    drawn_kinds,
    rescaled_times,
    uniform,
    unit_times,
)
from evaluator.compiled import built_library
from evaluator.serving.engine.request_kinds import RequestKind


def service_of(seconds: float) -> StepPrices:
    """Steps with prompts that take so long, whatever is in them."""
    nothing = np.zeros(65)
    return prices(
        step_s=seconds, prompt_step_s=0.0, per_prompt_s=0.0, per_decode_s=0.0, linear=np.zeros(40),
        attention=np.zeros(NODES), own_s=nothing, own_key_s=nothing,
    )  # fmt: skip


ONE_BY_ONE = PlayRules(admission="prefill_first", token_budget=100, seats=10**6)


def waits(kind: str, load: float, requests: int, seed: int = 1) -> np.ndarray:
    """Waits of a queue with one server of 1 s: prompts of exactly the budget, one a step, and no decodes."""
    times = unit_times(ArrivalProcess(kind=kind, requests=requests, seed=seed)) / load
    played = play(ONE_BY_ONE, service_of(1.0), asking(times, 100, 1), EDGES)
    return played.end_s - times - 1.0


def crommelin(load: float, wait: float) -> float:
    """P(W <= wait) of M/D/1, service 1. Source: Crommelin 1932, Delay probability formulae; Erlang 1909."""
    terms = (
        (-load * (wait - k)) ** k / factorial(k) * exp(load * (wait - k)) for k in range(floor(wait) + 1)
    )  # fmt: skip
    return (1.0 - load) * sum(terms)


@pytest.mark.parametrize("load", quick([0.7, 0.3, 0.5]))
def test_waits_for_one_server_are_those_of_crommelin(load: float) -> None:
    # 6 million requests: the standard error of a share is a few 1e-4 at these loads.
    found = np.sort(np.concatenate([waits("poisson", load, 1_000_000, seed) for seed in range(6)]))
    for wait in (0.0, 0.5, 1.0, 2.0, 3.5):
        share = np.searchsorted(found, wait + 1e-9, side="right") / found.size
        assert share == pytest.approx(crommelin(load, wait), abs=1e-3)


def test_mean_waits_for_mixed_services_are_those_of_pollaczek_and_khinchine() -> None:
    # Prompts of one token and of three: services of 1 and 3 s. At 0.35 a second the load is 0.7 and the mean wait
    # 0.35 x (1 + 9) / 2 / 2 / (1 - 0.7) = 2.9167 s.
    linear = np.arange(40.0)
    mixture = replace(service_of(0.0), linear=linear, spacing=1, prefill_factor=1.0)
    rules = replace(ONE_BY_ONE, token_budget=3, seats=1)
    total, count = 0.0, 0
    for seed in range(4):
        process = ArrivalProcess(kind="poisson", requests=1_000_000, seed=seed)
        times = unit_times(process) / 0.35
        kinds = (RequestKind(new_tokens=1), RequestKind(new_tokens=3))
        lengths = np.asarray([1, 3])[drawn_kinds(kinds, seed, times.size)]
        played = play(rules, mixture, asking(times, lengths, 2), EDGES)
        total += float((played.first_s - times - lengths).sum())
        count += times.size
    assert total / count == pytest.approx(0.35 * 5.0 / 2.0 / 0.3, rel=0.01)


@pytest.mark.parametrize("kind", ["poisson", "constant", "gamma"])
def test_completions_follow_lindley_exactly(kind: str) -> None:
    times = unit_times(ArrivalProcess(kind=kind, requests=5_000, cv=3.0)) / 0.9
    played = play(ONE_BY_ONE, service_of(1.0), asking(times, 100, 1), EDGES)
    clock, expected = 0.0, []
    for arrived in times.tolist():
        clock = max(clock, arrived) + 1.0  # a prompt starts when it is there and the one before it is through
        expected.append(clock)
    assert played.end_s.tolist() == expected


rules_drawn = st.builds(
    PlayRules,
    admission=st.sampled_from(["mixed", "prefill_first"]),
    token_budget=st.sampled_from([64, 300, 1024]),
    seats=st.sampled_from([1, 3, 8, 64]),
    poll_steps=st.sampled_from([1, 1, 4]),
    ahead_steps=st.sampled_from([0, 0, 1, 3]),
    whole_prompts=st.booleans(),
    tokens_per_decode=st.sampled_from([1, 1, 3]),
    tokens_per_step=st.sampled_from([1.0, 1.0, 1.75]),
    kv_tokens=st.sampled_from([inf, 900.0, 2000.0, 5000.0]),
    kv_admission=st.sampled_from(["current", "reserved"]),
    prefilled=st.booleans(),
    reject_s=st.sampled_from([inf, inf, 0.05]),
    reject_tbt_s=st.sampled_from([inf, inf, 0.0057, 0.006]),
)


@st.composite
def asked_drawn(draw):
    count = draw(st.integers(1, 60))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.013, 0.07, 0.4]), min_size=count, max_size=count))
    lengths = draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count))
    steps = draw(st.lists(st.integers(1, 120), min_size=count, max_size=count))
    # No arrival falls on the end of a step: there the two ways of adding differ by a rounding, and so does who is in time.
    arrive = np.cumsum(gaps) + 1e-5 * np.sqrt(np.arange(1, count + 1))
    return asking(arrive, lengths, steps, cached=draw(st.sampled_from([0, 50])), service=0.01)


@settings(max_examples=examples(150))
@given(rules=rules_drawn, asked=asked_drawn())
def test_a_play_step_by_step_ends_at_the_same_times(rules: PlayRules, asked: AskedRequests) -> None:
    played = play(rules, prices(), asked, EDGES, each=True)
    server, first, end = play_with_a_clock(rules, prices(), asked)
    assert played.rejected == server.rejected
    assert played.preempted == server.preempted
    assert played.preemptions.tolist() == [server.preemptions.get(number, 0) for number in range(asked.count)]
    if not rules.prefilled:
        assert played.worst_gap_s == pytest.approx([server.worst.get(n, 0.0) for n in range(asked.count)], abs=1e-9)
    assert np.abs(played.first_s - first).max() < 1e-9
    assert np.abs(played.end_s - end).max() < 1e-9
    if not played.preempted and not rules.prefilled:
        assert played.gaps.sum() == len(server.gaps)
        by_bin = np.bincount(np.searchsorted(EDGES, server.gaps, side="right") - 1, minlength=played.gaps.size)
        assert np.abs(played.gaps - by_bin).sum() <= 2  # of gaps that end within rounding of an edge


def test_a_step_that_would_be_too_dense_turns_a_request_away() -> None:
    asked = asking(np.arange(20) * 1e-4, 10, 30)
    for limit in (inf, 0.02, 0.0058):
        rules = PlayRules(admission="mixed", token_budget=1024, seats=64, reject_tbt_s=limit)
        played = play(rules, prices(), asked, EDGES)
        server, _, end = play_with_a_clock(rules, prices(), asked)
        assert played.rejected == server.rejected
        assert np.abs(played.end_s - end).max() < 1e-9
        assert (played.rejected > 0) == (limit < 0.02)


@settings(max_examples=examples(100))
@given(rules=rules_drawn, asked=asked_drawn(), replicas=st.sampled_from([1, 3]), least=st.booleans())
def test_compiled_and_python_give_the_same_bits(rules, asked, replicas, least) -> None:
    library = compiled_play()
    if library is None:
        pytest.skip("no C compiler here")
    rules = replace(rules, replicas=replicas, dispatch="least" if least else "random")
    asked = replace(asked, replica=dealt_replicas(replicas, 7, asked.count))
    one = play_compiled(library, rules, prices(), asked, EDGES, each=True)
    other = play_in_python(rules, prices(), asked, EDGES, each=True)
    assert one.worst_gap_s.tobytes() == other.worst_gap_s.tobytes()
    assert one.preemptions.tolist() == other.preemptions.tolist()
    assert one.first_s.tobytes() == other.first_s.tobytes()
    assert one.end_s.tobytes() == other.end_s.tobytes()
    assert one.gaps.tolist() == other.gaps.tolist()
    assert (one.busy_s, one.preempted) == (other.busy_s, other.preempted)


@settings(max_examples=examples(60))
@given(rules=rules_drawn, asked=asked_drawn(), replicas=st.sampled_from([1, 2]), target=st.sampled_from([1, 3]))
def test_instances_that_come_and_go_are_played_alike_and_as_each_alone(rules, asked, replicas, target) -> None:
    library = compiled_play()
    if library is None:
        pytest.skip("no C compiler here")
    rules = replace(rules, replicas=replicas)
    asked = replace(asked, replica=dealt_replicas(replicas, 7, asked.count))
    minute = (asked.arrive_s // 0.1).astype(int)
    share, served = 1.0 - uniform(3, 9, asked.count), []

    def serving(stretch, waiting, there):
        assert 0 <= waiting <= there
        served.append(min(4, 1 + there // target))
        return served[-1]

    stretches = Stretches(seconds=0.1, came=np.cumsum(np.bincount(minute)), share=share, most=4, serving=serving)
    one = play_compiled(library, rules, prices(), asked, EDGES, each=False, stretches=stretches)
    decided, served[:] = list(served), []
    other = play_in_python(rules, prices(), asked, EDGES, stretches=stretches)
    assert decided == served
    assert one.first_s.tobytes() == other.first_s.tobytes()
    assert one.end_s.tobytes() == other.end_s.tobytes()
    # With the instances that it chose, known beforehand, all is one play of as many replicas, up to rounding.
    place = np.floor(share * np.asarray(served)[minute]).astype(int) * replicas + asked.replica
    known = play(replace(rules, replicas=4 * replicas), prices(), replace(asked, replica=place), EDGES)
    assert known.end_s == pytest.approx(one.end_s, abs=1e-9)


def test_without_a_compiler_python_plays(monkeypatch) -> None:
    monkeypatch.setenv("SWEEPDB_COMPILED_PLAY", "0")
    asked = asking([0.0, 0.1], 100, 5)
    built_library.cache_clear()
    try:
        assert compiled_play() is None
        alone = play(ONE_BY_ONE, prices(), asked, EDGES)
    finally:
        built_library.cache_clear()
    assert alone.end_s.tobytes() == play_in_python(ONE_BY_ONE, prices(), asked, EDGES).end_s.tobytes()


def test_a_program_of_somebody_else_is_not_run(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built_library.cache_clear()
    try:
        assert compiled_play() is None or isinstance(compiled_play(), ctypes.CDLL)
        built_library.cache_clear()
        monkeypatch.setattr("os.getuid", lambda: 12345678)
        assert compiled_play() is None
    finally:
        built_library.cache_clear()


MIXED = PlayRules(admission="mixed", token_budget=512, seats=48)


@pytest.mark.parametrize("admission", ["mixed", "prefill_first"])
def test_requests_in_flight_are_rate_times_sojourn(admission: str) -> None:
    """Little 1961: the time integral of how many there are equals the sum of their times, counted by events."""
    times = unit_times(ArrivalProcess(kind="poisson", requests=4_000, seed=3)) / 12.0
    played = play(replace(MIXED, admission=admission), prices(), asking(times, 300, 40), EDGES)
    moments = np.concatenate((times, played.end_s))
    order = np.argsort(moments, kind="stable")
    present = np.cumsum(np.concatenate((np.ones(times.size), -np.ones(times.size)))[order])
    area = float((present[:-1] * np.diff(moments[order])).sum())
    assert present.min() >= 0
    assert area == pytest.approx(float((played.end_s - times).sum()), rel=1e-12)
    assert 0.0 < played.busy_s < played.end_s.max()


def test_a_lone_request_is_the_hand_sum() -> None:
    """At a rate near zero every request takes its prompt step and its decodes, which grow by a key each."""
    one = prices()
    times = np.arange(1.0, 11.0) * 1e4
    played = play(MIXED, one, asking(times, 500, 31), EDGES)
    # 500 tokens at spacing 128 lie at node 3.90625; attention is at half of the table's 8 stretches.
    linear = one.linear[3] + (one.linear[4] - one.linear[3]) * 0.90625
    prompt = 1e-3 + 2e-3 + 5e-4 + 1.1 * (linear + 5e-3 * 0.5**1.8 + one.own_s[0])
    keys = sum(500 + step for step in range(1, 31))
    assert played.first_s - times == pytest.approx(np.full(10, prompt))
    assert played.end_s - played.first_s == pytest.approx(
        np.full(10, 30 * one.decode_s[1] + one.decode_key_s[1] * keys)
    )


@pytest.mark.parametrize("factor", [2.0, 1.1])
@pytest.mark.parametrize("admission", ["mixed", "prefill_first"])
def test_steps_that_take_longer_scale_the_play(factor: float, admission: str) -> None:
    """With every step c times as long, requests at rate r meet what requests at rate r c meet c times as fast."""
    times = unit_times(ArrivalProcess(kind="gamma", requests=3_000, cv=2.0)) / 10.0
    scaled = {
        name.name: factor * getattr(prices(), name.name)
        for name in fields(StepPrices)
        if name.name not in {"spacing", "stretches", "prefill_factor", "decode_factor"}
    }
    rules = replace(MIXED, admission=admission, kv_tokens=9000.0)
    plain = play(rules, prices(), asking(times, 300, 40), EDGES)
    slower = play(rules, prices(**scaled), asking(factor * times, 300, 40), EDGES)
    if factor == 2.0:
        assert (2.0 * plain.end_s).tobytes() == slower.end_s.tobytes()
        assert (2.0 * plain.first_s).tobytes() == slower.first_s.tobytes()
    assert slower.end_s == pytest.approx(factor * plain.end_s, rel=1e-9)


def test_least_takes_the_emptiest_replica() -> None:
    # Two replicas, three requests at once: 0 and 2 go to the first, 1 to the second.
    rules = replace(ONE_BY_ONE, replicas=2, dispatch="least")
    played = play(rules, service_of(1.0), asking([0.0, 0.0, 0.0, 1.5], 100, 1), EDGES)
    # At 1.5 s the first still works on request 2, the second is idle.
    assert played.end_s.tolist() == [1.0, 1.0, 2.0, 2.5]


def test_what_is_reserved_waits_and_what_is_current_is_preempted() -> None:
    asked = asking([0.0, 0.0], 400, 200)
    rules = replace(MIXED, kv_tokens=1000.0)
    reserved = play(replace(rules, kv_admission="reserved"), prices(), asked, EDGES)
    current = play(rules, prices(), asked, EDGES)
    # 600 + 600 tokens do not fit 1,000: the second prompt runs when the first answer has ended.
    assert reserved.first_s[1] > reserved.end_s[0]
    assert (reserved.preempted, current.preempted) == (0, 1)
    # Both prompts fit, and 200 tokens more: the second leaves after 100 steps or so, and ends last.
    assert current.first_s[1] < current.end_s[0] < current.end_s[1]


def test_a_request_too_large_for_the_memory_enters_an_empty_server() -> None:
    for kv_admission in ("current", "reserved"):
        rules = replace(MIXED, kv_tokens=100.0, kv_admission=kv_admission)
        played = play(rules, prices(), asking([0.0, 0.0], 400, 20), EDGES)
        assert played.first_s[1] > played.end_s[0] > 0.0


def test_streams_begin_alike_and_have_their_mean_and_spread() -> None:
    for kind, cv in (("poisson", 1.0), ("gamma", 0.4), ("gamma", 3.0), ("constant", 0.0)):
        process = ArrivalProcess(kind=kind, requests=200_000, seed=5, cv=cv or 1.0)
        gaps = np.diff(unit_times(process), prepend=0.0)
        assert gaps.mean() == pytest.approx(1.0, rel=0.03)
        assert gaps.std() == pytest.approx(cv, rel=0.05, abs=1e-12)
    short, long = (unit_times(ArrivalProcess(kind="poisson", requests=count)) for count in (1_000, 5_000))
    assert short.tolist() == long[:1_000].tolist()
    assert rescaled_times(np.asarray([10.0, 12.0, 12.0, 16.0])).tolist() == [0.0, 1.0, 1.0, 3.0]


@pytest.mark.parametrize(("limit", "steps"), [(inf, [(512, 5), (88, 0)]), (2.0, [(200, 2), (200, 2), (200, 1)])])
def test_a_prompt_waits_for_the_images_that_its_steps_encode(limit: float, steps: list[tuple[int, int]]) -> None:
    """600 tokens, of which five images are the first 500; two images a step at most, or as many as there are."""
    one = prices(encoder_s=np.asarray([0.0, 0.010, 0.018, 0.025]))
    asked = replace(asking([1e4], 600, 1), images=np.asarray([5.0]), image_tokens=np.asarray([100.0]))
    played = play(replace(MIXED, images_a_step=limit), one, asked, EDGES)
    seconds, done = 0.0, 0
    for tokens, images in steps:
        linear = np.interp(tokens / 128, np.arange(40), one.linear)
        attention = np.diff(np.interp(np.asarray([done, done + tokens]) / 125, np.arange(NODES), one.attention))[0]
        # Five images at once, beyond the table of three: 5 / 3 x 25 ms.
        encoder = {0: 0.0, 1: 0.010, 2: 0.018, 5: 0.025 * 5 / 3}[images]
        seconds += 1e-3 + 2e-3 + 5e-4 + 1.1 * (linear + attention + encoder + one.own_s[0])
        done += tokens
    assert played.first_s[0] - 1e4 == pytest.approx(seconds)


def test_images_of_prompts_that_begin_together_are_encoded_together() -> None:
    # Two prompts of 100 tokens with an image each: one step with 18 ms of both, or a step each with 10 where one is the most.
    one = prices(encoder_s=np.asarray([0.0, 0.010, 0.018]))
    asked = replace(asking([0.0, 0.0], 100, 1), images=np.ones(2), image_tokens=np.zeros(2))
    together = play(MIXED, one, asked, EDGES)
    text = play(MIXED, one, asking([0.0, 0.0], 100, 1), EDGES)
    assert together.end_s - text.end_s == pytest.approx(np.full(2, 1.1 * 0.018))
    apart = play(replace(MIXED, images_a_step=1.0), one, replace(asked, image_tokens=np.full(2, 50.0)), EDGES)
    assert apart.end_s[0] < together.end_s[0] < apart.end_s[1]


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    admission=st.sampled_from(["mixed", "prefill_first"]),
    limit=st.sampled_from([1.0, 2.0, 3.0, inf]),
    kv_tokens=st.sampled_from([inf, 2500.0]),
)
def test_requests_with_images_are_played_as_with_a_clock(
    seed: int, admission: str, limit: float, kv_tokens: float
) -> None:
    chosen = np.random.default_rng(seed)
    times = np.cumsum(chosen.exponential(0.05, 60))
    images = chosen.integers(0, 5, 60).astype(float)
    lengths = 60 * images.astype(int) + chosen.integers(1, 500, 60)
    asked = replace(asking(times, lengths, chosen.integers(1, 30, 60)), images=images, image_tokens=np.full(60, 60.0))
    one = prices(encoder_s=np.concatenate(([0.0], np.cumsum(0.004 + chosen.random(40) * 0.002))))
    rules = replace(MIXED, admission=admission, token_budget=256, seats=12, images_a_step=limit, kv_tokens=kv_tokens)
    _, first, end = play_with_a_clock(rules, one, asked)
    for played in (play(rules, one, asked, EDGES), play_in_python(rules, one, asked, EDGES)):
        assert played.first_s == pytest.approx(first, rel=1e-9)
        assert played.end_s == pytest.approx(end, rel=1e-9)
    assert play(rules, one, asked, EDGES).end_s.tobytes() == play_in_python(rules, one, asked, EDGES).end_s.tobytes()
