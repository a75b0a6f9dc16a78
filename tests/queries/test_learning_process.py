"""The process through own runs against arithmetic by hand, and properties that any of it must have."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from queries.learning import REGIONS, Kept, Posterior, Prior, Process, Run, Setting, prior_of, probability_of
from queries.learning import without_strange_versions as agreeing
from queries.learning.one_thread import openblas
from queries.learning.process import ALONE

HERE = Setting(users=16, input_length=1024, output_length=256, num_devices=4, dp=1, ep=1, plan="a")
FAR = HERE._replace(users=16 * 2**40)  # forty doublings: shapes have nothing in common
EVEN = Prior(common=(0.3, 0.2), common_correlation=0.0, shape=(0.4, 0.1), shape_correlation=0.0, own=(0.0, 0.0),
             own_correlation=0.0, noise=(0.1, 0.1), lengths=(2.5, 2.0, 3.0, 1.5, 1.0, 1.0), degrees=1e12, bare=(1.0, 1.0))  # fmt: skip


def test_one_run_moves_what_is_common_by_its_share_of_the_variance():
    # TTFT: 0.09 common, 0.16 shape, 0.01 noise: 0.26. Far away only what is common is known: 0.09 / 0.26 x 0.5.
    # There the variance left is 0.25 - 0.09^2 / 0.26; at the run itself 0.25 - 0.25^2 / 0.26.
    found = Process([Run(key="r", setting=HERE, ttft=0.5)], EVEN).at([FAR, HERE])
    assert found.mean[:, 0] == pytest.approx([0.09 / 0.26 * 0.5, 0.25 / 0.26 * 0.5])
    assert found.sd[:, 0] ** 2 == pytest.approx([0.25 - 0.0081 / 0.26, 0.25 - 0.0625 / 0.26])
    assert found.mean[:, 1] == pytest.approx([0.0, 0.0])  # without a correlation TTFT says nothing of TPOT
    assert found.measured.tolist() == [False, True]
    assert found.near.tolist() == [0, 1]


def test_a_run_of_ttft_says_something_of_tpot_where_they_go_together():
    # Covariance of TTFT and TPOT in common: 0.5 x 0.3 x 0.2 = 0.03; of 0.26 that is 0.03 / 0.26 x 0.5.
    prior = Prior(**{**{name: getattr(EVEN, name) for name in Prior.__slots__}, "common_correlation": 0.5})
    found = Process([Run(key="r", setting=HERE, ttft=0.5)], prior).at([FAR])
    assert found.mean[0, 1] == pytest.approx(0.03 / 0.26 * 0.5)


def test_a_request_as_a_whole_is_its_share_of_both():
    # A quarter TTFT: variance 0.0625 x 0.25 + 0.5625 x 0.05 = 0.04375, noise (0.0625 + 0.5625) x 0.01 = 0.00625.
    found = Process([Run(key="r", setting=HERE, whole=0.5, ttft_share=0.25)], EVEN).at([HERE])
    assert found.mean[0] == pytest.approx([0.25 * 0.25 / 0.05 * 0.5, 0.75 * 0.05 / 0.05 * 0.5])


def test_widths_follow_how_far_apart_the_runs_lie():
    # Four degrees of freedom; one value of distance 0.5^2 / 0.26 = 0.9615: (4 + 0.9615) / 5, and 1 + 0.6606 / 5.
    prior = Prior(**{**{name: getattr(EVEN, name) for name in Prior.__slots__}, "degrees": 4.0})
    process = Process([Run(key="r", setting=HERE, ttft=0.5)], prior)
    assert process.width[0] == pytest.approx(math.sqrt(4.96154 / 5) * (1 + 0.66059 / 5), rel=1e-4)


def test_runs_of_one_time_say_nothing_of_how_far_the_other_is_off():
    """TPOT a thousand times as long, with no TTFT beside it: as without runs, but for what both have in common."""
    prior = prior_of("known")
    near, far = (Process([Run(key="r", setting=HERE, tpot=value)], prior).at([FAR]).sd[0] for value in (0.0, 7.0))
    assert far[1] > 5 * near[1]
    assert far[0] == near[0] < Process([], prior).at([FAR]).sd[0, 0]
    # A whole request tells of the time that most of it is.
    whole = Process([Run(key="r", setting=HERE, whole=7.0, ttft_share=0.1)], prior)
    assert whole.width[0] == prior.bare[0] < whole.width[1]


def test_without_runs_nothing_moves():
    found = Process([], EVEN).at([HERE, FAR])
    assert not found.mean.any()
    assert found.sd[0] == pytest.approx([0.5, math.sqrt(0.05)])
    assert found.nearest.tolist() == [-1, -1]


def test_a_run_that_disagrees_is_named_and_stays():
    runs = [Run(key=str(place), setting=HERE._replace(users=2**place), ttft=0.1, tpot=0.0) for place in range(6)]
    runs[3] = Run(key="3", setting=runs[3].setting, ttft=3.0, tpot=0.0)
    process = Process(runs, EVEN)
    named = process.disagreements()
    assert (named[0].key, named[0].metric) == ("3", "TTFT")
    assert named[0].deviations > 2.5
    # As if it were left out: the others' prediction of it, by the same process without it.
    rest = Process([run for run in runs if run.key != "3"], EVEN).at([runs[3].setting])
    assert named[0].deviations == pytest.approx((3.0 - rest.mean[0, 0]) / math.hypot(rest.sd[0, 0], 0.1), rel=1e-4)
    assert len(process.runs) == 6


def test_a_run_very_far_from_the_others_is_read_of_its_own_setting_alone():
    """Five runs half as long again, and one of an overloaded server, 30 times as long: 0.4 and 3.4 in logarithms."""
    runs = [Run(key=str(place), setting=HERE._replace(users=2**place), ttft=0.4, tpot=0.1) for place in range(6)]
    runs[5] = Run(key="5", setting=runs[5].setting, ttft=3.4, tpot=0.1)
    process = Process(runs, prior_of("known"))
    near = HERE._replace(users=24)  # between the last two
    found = process.at([runs[5].setting, near])
    assert found.mean[0, 0] == pytest.approx(3.4, abs=0.01)  # of the setting itself it is what was measured
    rest = Process(runs[:5], prior_of("known")).at([near])
    assert found.mean[1] == pytest.approx(rest.mean[0], abs=0.01)  # of others it says nothing
    assert found.sd[1, 0] > 2 * rest.sd[0, 0]  # and they are less sure
    assert [one.key for one in process.disagreements()][:1] == ["5"]
    # Ladders are of the same factors, and what is told jointly of what is told singly.
    ladder = process.ladders([HERE._replace(users=1)], np.array([[24.0, 32.0]]))
    assert ladder[:, 0] == pytest.approx(process.at([near, runs[5].setting]).mean.T)
    both = np.diag(process.across([runs[5].setting, near]))
    assert both == pytest.approx(np.diagonal(found.covariance, axis1=1, axis2=2).T.ravel())


def test_two_runs_of_one_setting_are_both_read():
    one, two = (Run(key=str(value), setting=HERE, ttft=value) for value in (0.2, 0.6))
    # Both with noise 0.01 over a variance of 0.25: their mean, 0.4, weighs 0.25 / (0.25 + 0.005).
    assert Process([one, two], EVEN).at([HERE]).mean[0, 0] == pytest.approx(0.4 * 0.25 / 0.255)


@pytest.mark.skipif(openblas() is None, reason="NumPy has another library")
def test_many_runs_say_the_same_digits_whatever_number_of_threads():
    """Two threads sum in another order than one: of 200 runs the thirteenth digit differs."""
    draw, library = np.random.default_rng(1), openblas()
    runs = [
        Run(
            key=str(place),
            setting=HERE._replace(users=place + 1, input_length=128 * 2 ** (place % 4)),
            ttft=ttft,
            tpot=tpot,
        )
        for place, (ttft, tpot) in enumerate(draw.normal(0.2, 0.1, (200, 2)).tolist())
    ]
    before, found = library.scipy_openblas_get_num_threads64_(), []
    try:
        for threads in (1, 2):
            library.scipy_openblas_set_num_threads64_(threads)
            posterior = Process(runs, prior_of("foreign")).at([HERE, FAR])
            found.append((posterior.mean.tobytes(), posterior.covariance.tobytes()))
            assert library.scipy_openblas_get_num_threads64_() == threads  # as whoever called had it
    finally:
        library.scipy_openblas_set_num_threads64_(before)
    assert found[0] == found[1]


def test_versions_mix_where_they_agree():
    old = [Run(key=f"o{n}", setting=HERE._replace(users=2**n), ttft=0.1, tpot=0.1, version="0.10.1") for n in range(4)]
    like = [Run(key="n", setting=HERE._replace(users=3), ttft=0.12, tpot=0.1, version="0.11.0")]
    unlike = [Run(key="n", setting=HERE._replace(users=3), ttft=0.1, tpot=1.4, version="0.11.0")]
    assert agreeing([*old, *like], prior_of("known")) == ((*old, *like), ())
    assert agreeing([*old, *unlike], prior_of("known")) == (tuple(old), ("0.11.0",))


RUNS = st.lists(
    st.builds(
        Run,
        key=st.just("r"),
        setting=st.builds(
            Setting, users=st.integers(1, 512), input_length=st.integers(16, 8192), output_length=st.integers(2, 2048),
            num_devices=st.sampled_from([1, 2, 4, 8]), dp=st.sampled_from([1, 2]), ep=st.sampled_from([1, 8]),
        ),
        ttft=st.none() | st.floats(-1, 1),
        tpot=st.floats(-1, 1),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(RUNS, st.sampled_from(REGIONS))
def test_a_further_run_lowers_what_is_unknown_and_scale_is_all_the_same(runs, region):
    prior = prior_of(region)
    process = Process(runs, prior)
    fewer = Process(runs[:-1], prior)
    double = [Run(key=one.key, setting=one.setting, ttft=one.ttft and 2 * one.ttft, tpot=2 * one.tpot) for one in runs]
    all_read = (
        fewer,
        process,
        Process(double, prior),
    )  # a run that is read of its own setting alone leaves more unknown
    assume(all(abs(one.deviations) < ALONE for some in all_read for one in some.disagreements()))
    bare = [np.sqrt(np.diagonal(one.across([HERE, FAR]))) / np.repeat(one.width, 2) for one in (fewer, process)]
    assert (bare[1] <= bare[0] + 1e-9).all()
    assert np.linalg.eigvalsh(process.across([HERE, FAR, runs[0].setting])).min() > -1e-9
    # Predictions half as long everywhere: every factor, measured and told, is twice as large at a measured setting that
    # is all that is known. Here: values twice as far move means twice as far.
    assert Process(double, prior).at([HERE]).mean == pytest.approx(2 * process.at([HERE]).mean, abs=1e-9)


def test_limits_are_kept_together():
    # Half keep each limit; with a correlation r both are kept by 1/4 + asin(r) / (2 pi). r = 0.5: 1/4 + 1/12 = 1/3.
    covariance = np.array([[[0.04, 0.5 * 0.2 * 0.1], [0.5 * 0.2 * 0.1, 0.01]]])
    none = np.zeros(1, dtype=np.int64)
    found = Posterior(mean=np.zeros((1, 2)), covariance=covariance, near=none, nearest=none, measured=none == 1)
    predicted = np.array([[100.0, 10.0]])
    both = probability_of(found, predicted, Kept(ttft_ms=100.0, tpot_ms=10.0))
    assert both == pytest.approx([1 / 3], abs=1e-4)
    assert probability_of(found, predicted, Kept(ttft_ms=100.0)) == pytest.approx([0.5], abs=1e-4)
    assert probability_of(found, predicted, Kept()) == pytest.approx([1.0], abs=1e-4)
    # Certain predictions: 100 + 9 x 10 = 190 ms.
    sure = Posterior(mean=found.mean, covariance=covariance * 1e-10, near=none, nearest=none, measured=none == 1)
    assert probability_of(sure, predicted, Kept(e2e_ms=191.0, output_length=10)) == pytest.approx([1.0], abs=1e-4)
    assert probability_of(sure, predicted, Kept(e2e_ms=189.0, output_length=10)) == pytest.approx([0.0], abs=1e-4)
    # Of two such settings the one with 11 tokens takes 200 ms.
    lengths = Kept(e2e_ms=191.0, output_length=np.array([10.0, 11.0]))
    assert probability_of(sure.of([0, 0]), predicted[[0, 0]], lengths) == pytest.approx([1.0, 0.0], abs=1e-4)
