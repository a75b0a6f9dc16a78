"""Official MLPerf runs: which instance a submission states, how long it runs, and the rate that is searched."""

from dataclasses import replace

import pytest
from shared_data import shared_data

from tools.mlperf_report import _player as player_of
from tools.mlperf_report import bisected, played_offline, requests_of, share_within, systems


@pytest.fixture(scope="module")
def runs():
    found = systems(shared_data("fresh") / "points.csv")
    return {(one.deployment.device.name, one.data, one.division): one for one in found}


def test_every_run_has_the_instance_that_its_submission_states(runs):
    assert len(runs) == 33
    # 8 devices: 4 a pipeline of two stages; the runtime's flags stand behind the builder's: 128 seats.
    offline = runs["b200_sxm", "llama3.1-405b", "Offline"]
    assert (offline.deployment.plan.tp, offline.deployment.plan.pp, offline.instances, offline.seats) == (2, 2, 2, 128)
    # Attention data parallelism: each of the 8 devices has its own attention, experts are split over all.
    deepseek = runs["b200_sxm", "deepseek-r1", "Server"].deployment.plan
    assert (deepseek.tp, deepseek.dp, deepseek.ep) == (1, 8, 8)
    # Built for 16,384 tokens a step, started with 9,216.
    assert runs["h200_sxm", "mixtral-8x7b", "Offline"].deployment.token_budget == 9216
    # Nothing is stated: one device each, the engine's own budget.
    amd = runs["mi300x", "llama2-70b", "Server"]
    assert (amd.instances, amd.seats, amd.deployment.token_budget) == (8, None, None)


def test_a_run_takes_its_data_set_or_ten_minutes_whichever_is_more(runs):
    # 1624.11 tokens/s / 652 tokens x 600 s = 1,495 requests, fewer than the 8,313 of the data set: 4,157 an instance.
    assert requests_of(runs["b200_sxm", "llama3.1-405b", "Offline"]) == 4157
    # 81.67 requests/s x 600 s = 49,002, more than 24,576: 6,126 an instance.
    server = replace(runs["mi300x", "llama2-70b", "Server"], measured=81.67)
    assert requests_of(server) == 6126
    # 361.3 requests/s x 600 s / 8 = 27,098 an instance: 20,000 are played.
    assert requests_of(runs["b200_sxm", "llama2-70b", "Server"]) == 20_000


def test_the_rate_is_the_largest_that_keeps_limits_to_half_a_percent():
    assert bisected(lambda rate: rate <= 3.0, 10.0) == pytest.approx(3.0, rel=0.005)
    assert bisected(lambda rate: rate <= 3.0, 10.0) <= 3.0
    assert bisected(lambda _: True, 10.0) == 10.0
    assert bisected(lambda _: False, 10.0) == 0.0


def test_requests_count_with_what_no_step_takes(runs):
    player = player_of(runs["h200_sxm", "llama3.1-8b", "Server"], shared_data("fresh"))
    load = player.load(0.2 * player.saturation_per_s, keep_requests=True)
    assert share_within(load, (1e9, 1e9)) == 1.0
    assert share_within(load, (load.outside_ms, 1e9)) == 0.0  # a first token takes a step at least


def test_offline_tokens_of_h200_are_within_a_tenth(runs):
    """No number is fitted to these runs."""
    system = runs["h200_sxm", "llama2-70b", "Offline"]
    assert played_offline(system, shared_data("fresh")) == pytest.approx(34797.0, rel=0.1)
