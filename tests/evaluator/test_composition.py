"""Largest remainder against the acceptance case and its defining properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.serving.waves.packing import largest_remainder, realised_mean


@pytest.mark.parametrize(
    "batch_size, weights, ties, expected",
    [
        (10, [0.5, 0.3, 0.2], "first", [5, 3, 2]),
        # 8 x (.5 .3 .2) = 4, 2.4, 1.6: one is left for the largest remainder, 0.6
        (8, [0.5, 0.3, 0.2], "first", [4, 2, 2]),
        # 7/3 each: three equal remainders, one request left
        (7, [1, 1, 1], "first", [3, 2, 2]),
        (7, [1, 1, 1], "last", [2, 2, 3]),
    ],
)
def test_s30_largest_remainder(batch_size, weights, ties, expected):
    samples = largest_remainder(np.array([batch_size]), np.array(weights, dtype=float), ties=ties)
    assert samples.tolist() == [expected]


@given(
    st.lists(st.floats(0.001, 100), min_size=1, max_size=40),
    st.lists(st.integers(1, 8192), min_size=1, max_size=20),
    st.sampled_from(["first", "last"]),
)
def test_every_request_is_placed_within_one_of_its_share(weights, batch_sizes, ties):
    weights, batch_sizes = np.array(weights), np.array(batch_sizes)
    samples = largest_remainder(batch_sizes, weights, ties=ties)
    assert (samples.sum(axis=1) == batch_sizes).all()
    share = batch_sizes[:, None] * weights / weights.sum()
    assert (np.abs(samples - share) < 1 + 1e-6).all()
    assert (samples >= 0).all()


@given(
    st.lists(st.floats(0.001, 100), min_size=1, max_size=40),
    st.integers(0, 39),
    st.lists(st.integers(1, 8192), min_size=1, max_size=20),
    st.sampled_from(["first", "last"]),
)
def test_splitting_a_bin_in_two_equal_halves_changes_samples_by_rounding_alone(weights, split, batch_sizes, ties):
    weights, batch_sizes = np.array(weights), np.array(batch_sizes)
    split %= weights.size
    halves = np.insert(weights, split, weights[split] / 2)
    halves[split + 1] /= 2
    whole = largest_remainder(batch_sizes, weights, ties=ties)
    apart = largest_remainder(batch_sizes, halves, ties=ties)
    merged = np.delete(apart, split, axis=1)
    merged[:, split] += apart[:, split]
    # Each count is within one of its share: two halves within two of theirs, so that no bin moves by three.
    assert (np.abs(merged - whole) <= 2).all()
    assert (merged.sum(axis=1) == batch_sizes).all()


def test_rare_bins_vanish_at_small_batches_and_the_realised_mean_says_so():
    # 8 requests over 9 bins: the ninth, long and rare (2 %), gets none; 0.1225 x 8 = 0.98 each for the others
    weights = np.array([0.1225] * 8 + [0.02])
    lengths = np.array([100.0] * 8 + [100_000.0])
    samples = largest_remainder(np.array([8]), weights)
    assert samples.tolist() == [[1] * 8 + [0]]
    assert realised_mean(samples, lengths).tolist() == [100.0]
