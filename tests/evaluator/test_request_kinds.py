"""Requests of several lengths: what kinds there are, and that every beginning of their order is like the whole."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.serving.engine.request_kinds import (
    SEED,
    SHUFFLED_TOGETHER,
    RequestKind,
    even_order,
    merged,
    requests_of,
    shuffled_order,
    weights_of,
)

one_kind = st.builds(
    RequestKind,
    new_tokens=st.integers(1, 20_000),
    cached=st.sampled_from([0, 0, 64, 5000]),
    output_length=st.integers(1, 2000).map(float),
    weight=st.floats(0.01, 10.0),
)
some_kinds = st.lists(one_kind, min_size=2, max_size=12).map(merged)


def test_three_to_one_by_hand():
    kinds = (RequestKind(new_tokens=10, weight=0.75), RequestKind(new_tokens=50, weight=0.25))
    # Means 20 tokens, deviations -10 and +30, variance 300. Products of (count, tokens): both nearer to the mean is the
    # short one; after three of them e is 3 x (0.25, -0.25 | -10 / sqrt(300)) and the long one cancels it, and so on.
    assert even_order(kinds, 8).tolist() == [0, 0, 1, 0, 0, 0, 1, 0]
    assert [kind.new_tokens for kind in kinds] == [10, 50]


def test_equal_kinds_are_one_and_their_order_is_that_of_their_lengths():
    short, long = RequestKind(new_tokens=5, weight=2.0), RequestKind(new_tokens=9, weight=1.0)
    half = RequestKind(new_tokens=5, weight=1.0)
    expected = (RequestKind(new_tokens=5, weight=0.666666666667), RequestKind(new_tokens=9, weight=0.333333333333))
    assert merged([long, short]) == merged([half, long, half]) == expected


@settings(max_examples=examples(60))
@given(kinds=some_kinds, count=st.integers(1, 1500))
def test_every_beginning_is_like_the_whole(kinds, count):
    """Counts of kinds stay within a step of the rarest kind of their share, sums of tokens within a few requests of the
    mean. A step is the length of what one request adds to the error: 1 of its count, 1 / weight of each variance."""
    order, weights = even_order(kinds, count), weights_of(kinds)
    counts = np.bincount(order, minlength=len(kinds))
    assert np.abs(counts - count * weights).max() < max(4.0, float(np.sqrt(1.0 + 2.0 / weights.min())))
    for values in ([kind.new_tokens + kind.cached for kind in kinds], [kind.output_length for kind in kinds]):
        away = np.asarray(values) - (weights * values).sum()
        assert abs(float((counts * away).sum())) <= 6.0 * np.abs(away).max() + 1e-6


@settings(max_examples=examples(30))
@given(kinds=some_kinds, few=st.integers(1, 200), many=st.integers(200, 5000))
def test_more_requests_begin_with_the_same_ones(kinds, few, many):
    assert even_order(kinds, few).tolist() == even_order(kinds, many)[:few].tolist()
    assert shuffled_order(kinds, few).tolist() == shuffled_order(kinds, many)[:few].tolist()
    whole = many // SHUFFLED_TOGETHER * SHUFFLED_TOGETHER
    assert Counter(shuffled_order(kinds, many)[:whole].tolist()) == Counter(even_order(kinds, many)[:whole].tolist())


@settings(max_examples=examples(30))
@given(kinds=some_kinds, shortest=st.sampled_from([1.0, 0.99, 0.5]))
def test_drawn_lengths_are_those_of_their_kind_or_shorter(kinds, shortest):
    asked = requests_of(kinds, shortest, 400)
    prompts = np.asarray([kind.new_tokens for kind in kinds])[asked.kind]
    outputs = np.asarray([kind.output_length for kind in kinds])[asked.kind]
    assert (asked.new_tokens <= prompts).all()
    assert (asked.output_length <= outputs).all()
    assert (asked.new_tokens >= np.maximum(1.0, shortest * prompts - 0.5)).all()
    if shortest == 1.0:
        assert (asked.new_tokens == prompts).all()
        assert (asked.output_length == outputs).all()


def test_one_kind_needs_no_order():
    asked = requests_of((RequestKind(new_tokens=7, output_length=3.0),), 1.0, 3)
    assert (asked.kind.tolist(), asked.new_tokens.tolist(), asked.output_length.tolist()) == ([0] * 3, [7] * 3, [3] * 3)


def test_the_drawn_lengths_are_these_on_every_machine():
    kinds = merged(
        [RequestKind(new_tokens=1000, output_length=100.0), RequestKind(new_tokens=3000, output_length=20.0)]
    )
    asked = requests_of(kinds, 0.9, 6)
    # Lengths are 0.9 to 1 of nominal: the generator's first numbers are 0.118, 0.420, 0.785, 0.584, 0.853, 0.424, and
    # from the seventh on, for outputs, 0.202, 0.435, 0.378, 0.077, 0.975, 0.893.
    assert asked.kind.tolist() == [0, 0, 1, 1, 0, 0]
    assert asked.new_tokens.tolist() == [912, 942, 2935, 2875, 985, 942]
    assert asked.output_length.tolist() == [92, 94, 19, 18, 100, 99]


def test_lengths_are_drawn_from_the_stream_of_python():
    kinds = (RequestKind(new_tokens=1000, output_length=1000.0),)
    draw = Random(SEED)
    numbers = [draw.random() for _ in range(1400)]
    drawn = requests_of(kinds, 0.5, 700)
    lengths = [*drawn.new_tokens.tolist(), *drawn.output_length.tolist()]
    # A random 0.25: 1,000 x (0.5 + 0.5 x 0.25) = 625 tokens.
    assert lengths == [round(1000 * (0.5 + 0.5 * number)) for number in numbers]
