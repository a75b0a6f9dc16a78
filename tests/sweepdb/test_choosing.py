"""Which start is worth most, by hand: a few worlds with what each setting brings there."""

from __future__ import annotations

import numpy as np
import pytest

from queries.asking import Limits, PairOptions
from sweepdb.deciding.settings import Server, Setting
from sweepdb.deciding.worlds import Wanted, Worlds

NONE = float("nan")


def worlds(worth, *, starts=(0, 1, 2), measured=(NONE, NONE, NONE), believed=0.5):
    return Worlds(
        starts=np.array(starts), worth=np.array(worth, dtype=float), measured=np.array(measured), believed=believed
    )


# Four worlds, three servers of one setting each: a safe one, one that is better in half, a gamble.
FOUR = [
    [10, 16, 0],
    [10, 16, 0],
    [10, 0, 0],
    [10, 0, 60],
]


def test_a_setting_is_believed_by_the_share_of_worlds_in_which_it_holds():
    assert worlds(FOUR).holds.tolist() == [1.0, 0.5, 0.25]


def test_before_any_run_the_answer_is_what_brings_most_on_average_of_what_is_believed():
    # 10 for sure, 16 in half of the worlds: 8. The gamble brings 15 on average and is not believed.
    assert worlds(FOUR).chosen == 0
    # With a threshold of a quarter it is.
    assert worlds(FOUR, believed=0.25).chosen == 2
    assert worlds([[0, 0, 5], [0, 0, 0], [0, 0, 0]]).chosen is None


def test_once_something_was_measured_to_hold_only_measured_settings_are_answers():
    assert worlds(FOUR, measured=(9.0, NONE, NONE)).chosen == 0
    assert worlds(FOUR, measured=(9.0, 12.0, NONE)).chosen == 1
    # What was measured to miss a limit is no answer, however promising it was.
    assert worlds(FOUR, measured=(0.0, NONE, NONE)).chosen == 1


def test_a_start_is_worth_what_it_may_bring_more_than_the_best_that_was_measured():
    found = worlds(FOUR, measured=(10.0, NONE, NONE))
    # The second brings 6 more in two of four worlds: 3. The gamble 50 more in one of four: 12.5.
    assert list(found.first_starts(1)) == [(2, pytest.approx(12.5))]
    # On top of it the second is left 6 more in the two worlds in which the gamble brings nothing: 3.
    assert list(found.first_starts(3)) == [(2, pytest.approx(12.5)), (1, pytest.approx(3.0))]


def test_a_start_with_a_ladder_is_worth_the_best_of_its_settings_in_each_world():
    # One server at two loads: the higher holds in one world of two, the lower in both.
    found = worlds([[4, 9, 6], [4, 0, 6]], starts=(0, 0, 1))
    assert list(found.first_starts(2)) == [(0, pytest.approx(6.5)), (1, pytest.approx(1.0))]
    assert found.ladder(0, 4) == [1, 0]  # 4.5 on average comes first, 4 adds 2 of it
    assert found.ladder(0, 1) == [1]


def test_a_rung_that_adds_nothing_is_left_out():
    found = worlds([[4, 9, 6], [4, 8, 6]], starts=(0, 0, 1))
    assert found.ladder(0, 4) == [1]


def test_settings_that_were_measured_are_no_starts():
    assert list(worlds(FOUR, measured=(10.0, 0.0, 0.0)).first_starts(3)) == []
    assert [start for start, _ in worlds(FOUR, measured=(10.0, 0.0, NONE)).first_starts(3)] == [2]


def setting(device, num_devices, concurrency):
    server = Server("a1b2c3d4", 1, "m", device, "vllm", "FP8", num_devices, 1, 1, 1, num_devices, 1000.0, 101.0)
    return Setting(
        probe="", server=server, plan="", concurrency=concurrency, batch_size=concurrency, ttft_ms=0.0, tpot_ms=0.0
    )


def wanted(prices=None, limits=None, **pairs):
    return Wanted(
        limits=limits or Limits(), pairs=PairOptions(**pairs), prices=prices or {}, tpot_rule="exclusive", believed=0.5
    )


SMALL, LARGE = setting("h100_sxm", 2, 8), setting("h200_sxm", 4, 8)
# A request of the small server takes 0 + 100 x 20 ms = 2 s: 4 requests/s of 8 users. The large one takes 1 s: 8 a second.
TTFT, TPOT = np.zeros((1, 2)), np.array([[20.0, 10.0]])


def test_a_budget_is_worth_the_requests_of_all_copies_that_it_holds():
    # Eight devices hold four small servers and two large ones.
    assert wanted(num_devices=8).worth([SMALL, LARGE], TTFT, TPOT).tolist() == [[16.0, 16.0]]
    assert wanted(num_devices=4).fits(SMALL)
    assert not wanted(num_devices=3).fits(LARGE)


def test_users_are_worth_the_fewest_devices_or_the_least_money():
    # Twenty users take three servers of eight: 6 devices or 12.
    small, large = wanted(target_users=20).worth([SMALL, LARGE], TTFT, TPOT)[0]
    assert small / large == pytest.approx(2.0, rel=2e-3)
    prices = {"h100_sxm": 6.0, "h200_sxm": 2.0}  # 36 USD an hour, or 24
    small, large = wanted(prices, target_users=20).worth([SMALL, LARGE], TTFT, TPOT)[0]
    assert small / large == pytest.approx(24 / 36, rel=2e-3)
    # A price that is missing leaves devices to choose by.
    small, large = wanted({"h200_sxm": 2.0}, target_users=20).worth([SMALL, LARGE], TTFT, TPOT)[0]
    assert small / large == pytest.approx(2.0, rel=2e-3)


def test_a_rate_takes_as_many_servers_as_their_measured_speed_says():
    # Sixteen requests a second take four small servers or two large ones: 8 devices both.
    small, large = wanted(target_qps=16.0).worth([SMALL, LARGE], TTFT, TPOT)[0]
    assert small / large == pytest.approx(1.0, rel=2e-3)
    # With six devices, neither carries it.
    assert wanted(target_qps=16.0, num_devices=6).worth([SMALL, LARGE], TTFT, TPOT).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Limits(tpot_ms=15.0), [False, True]),
        (Limits(ttft_ms=40.0), [False, True]),  # 50 ms and 30 ms
        (Limits(e2e_ms=1_030.0), [False, True]),  # 50 + 100 x 20 ms; 30 + 100 x 10 ms is the limit itself
        (Limits(min_tokens_per_s_per_user=50.0), [True, True]),  # 50 and 100 tokens/s
        (Limits(min_tokens_per_s_per_user=51.0), [False, True]),
        (Limits(tpot_ms=15.0, ttft_ms=20.0), [False, False]),  # all together
    ],
)
def test_every_limit_is_to_be_kept_together(limits, kept):
    ttft = np.array([[50.0, 30.0]])
    assert wanted(limits=limits).kept(ttft, TPOT, np.array([101.0, 101.0])).tolist() == [kept]
