"""Packing prompts into steps of a token budget against one token at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.inputs.model import Short
from evaluator.inputs.workloads.workload import LengthBin
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.packing import PromptKind, largest_remainder, pack

SUMMED = ("tokens", "sequences", "pairs", "keys", "wpairs", "wkeys", "done", "few", "fpairs", "fkeys")


def one_by_one(samples, kinds, budget, window, *, square):
    """Sums of each step of one batch, token by token."""
    steps, room = [], 0
    for count, kind in zip(samples, kinds, strict=True):
        for _ in range(count):
            position = 0
            while position < kind.new_tokens:
                if room == 0:
                    steps.append(dict.fromkeys(SUMMED, 0))
                    room = budget
                take = min(room, kind.new_tokens - position)
                before = kind.cached + position
                step = steps[-1]
                step["tokens"] += take
                step["sequences"] += 1
                step["keys"] += before + take
                step["wkeys"] += min(before + take, take + window - 1)
                short = before + take <= 2 * window
                step["few"] += short * take
                step["fkeys"] += short * (before + take)
                for token in range(take):
                    step["fpairs"] += short * (before + token + 1)
                    seen = before + take if square else before + token + 1
                    step["pairs"] += seen
                    step["wpairs"] += min(seen, window)
                position += take
                room -= take
                step["done"] += position == kind.new_tokens
    return steps


@st.composite
def batches(draw):
    kinds = tuple(
        PromptKind(new_tokens=length, cached=draw(st.integers(0, 20)))
        for length in sorted(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True)))
    )
    row = st.lists(st.integers(0, 6), min_size=len(kinds), max_size=len(kinds)).filter(any)
    return (
        np.array(draw(st.lists(row, min_size=1, max_size=4))),
        kinds,
        draw(st.integers(1, 60)),
        draw(st.integers(1, 30)),
    )


@given(batches(), st.booleans())
def test_every_step_holds_what_one_token_at_a_time_gives(case, square):
    samples, kinds, budget, window = case
    packed = pack(samples, kinds, budget, windows=(window, Short(2 * window)), square=square)
    (_, window_pairs, window_keys) = packed.sums.windows[0]
    few = packed.sums.only(Short(2 * window))
    for batch, row in enumerate(samples.tolist()):
        expected = one_by_one(row, kinds, budget, window, square=square)
        own = slice(packed.first[batch], packed.first[batch] + packed.count[batch])
        for name, values in (
            ("tokens", packed.sums.tokens),
            ("sequences", packed.sums.sequences),
            ("pairs", packed.sums.pairs),
            ("keys", packed.sums.keys),
            ("wpairs", window_pairs),
            ("wkeys", window_keys),
            ("done", packed.finished),
            ("few", few.tokens),
            ("fpairs", few.pairs),
            ("fkeys", few.keys),
        ):
            assert values[own].tolist() == [step[name] for step in expected], name


@given(batches(), st.booleans())
def test_the_first_step_alone_is_the_first_of_all(case, square):
    samples, kinds, budget, window = case
    every = pack(samples, kinds, budget, windows=(window,), square=square)
    first = pack(samples, kinds, budget, windows=(window,), square=square, first_only=True)
    assert first.count.tolist() == [1] * len(samples)
    for name in ("tokens", "sequences", "pairs", "keys"):
        assert getattr(first.sums, name).tolist() == getattr(every.sums, name)[every.first].tolist()
    assert first.finished.tolist() == every.finished[every.first].tolist()
    assert every.sums.tokens.max() == first.sums.tokens.max()


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 60)), min_size=1, max_size=6),
    st.booleans(),
)
def test_what_is_kept_of_earlier_questions_changes_no_answer(questions, short):
    bins = tuple(
        LengthBin(input_length=length, output_length=10, weight=weight, min_input_length=1, max_input_length=length)
        for length, weight in ((50, 3), (700, 2), (5000, 1))
    )
    kept = MixedLengths(bins=bins, hit_rate=0.3, token_budget=512 if short else 8192, windows=(128,))
    for stride, first, size in questions:
        requests = stride * np.arange(first, first + size, dtype=np.int64)
        fresh = MixedLengths(bins=bins, hit_rate=0.3, token_budget=kept.token_budget, windows=(128,))
        one = kept.packed(requests)
        others = [fresh.packed(requests[i : i + 1]) for i in range(size)]  # one batch at a time is never kept
        assert one.count.tolist() == [other.count[0] for other in others]
        assert one.first.tolist() == [0, *np.cumsum(one.count)[:-1]]
        assert one.finished.tolist() == [number for other in others for number in other.finished]
        for name in ("tokens", "sequences", "pairs", "keys"):
            expected = [number for other in others for number in getattr(other.sums, name)]
            assert getattr(one.sums, name).tolist() == expected, name
        assert kept.composition(requests).tolist() == largest_remainder(requests, kept.weights).tolist()


def test_blocks_of_batches_cover_every_batch_once():
    bins = (LengthBin(input_length=4000, output_length=10, weight=1, min_input_length=1, max_input_length=4000),)
    source = MixedLengths(bins=bins, hit_rate=0.0, token_budget=8192)
    assert source.blocks(np.arange(1, 900)) == [slice(0, 899)]
    # 1 to 4096 requests of 4000 tokens are about 4096^2 / 2 x 4000 / 8192 = 4.1 million steps: 63 blocks
    blocks = source.blocks(np.arange(1, 4097))
    assert 50 < len(blocks) < 70
    assert [i for block in blocks for i in range(4096)[block]] == list(range(4096))
    # the largest batches have 2000 steps each: about 33 of them make one block
    assert {block.stop - block.start for block in blocks[-5:-1]} <= {32, 33, 34}
