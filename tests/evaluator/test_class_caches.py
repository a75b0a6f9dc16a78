"""What is kept of a prompt by every architecture that is read, small, against the cache of its Hugging Face class."""

from __future__ import annotations

import collections

import pytest
import torch
from class_cases import CASES, TOKENS, of_the_class

from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.model import CompressedAttention, GatedDeltaNet, LatentAttention, StateSpace
from evaluator.pricing.kv_state import kv_states

POSITIONS = {"bloom", "opt"}  # which make positions of a mask


@pytest.mark.parametrize("case", CASES)
def test_a_cache_holds_what_that_of_the_class_holds(case):
    device = "cpu" if case == "longcat_flash" else "meta"  # which looks for its experts
    parsed, model = of_the_class(case, device)
    spec = spec_from_config(parsed.to_dict(), case)
    shape = (1, TOKENS) if case in POSITIONS else (1, 1, TOKENS, TOKENS)
    mask = torch.ones(shape, dtype=torch.long if case in POSITIONS else torch.bfloat16, device=device)
    with torch.no_grad():
        cache = model(
            input_ids=torch.zeros(1, TOKENS, dtype=torch.long, device=device),
            attention_mask=None if device == "cpu" else mask,
            use_cache=True,
        ).past_key_values
    held = numbers(cache)
    mixers = {type(mixer): mixer for group in spec.layers for mixer in group.mixers}
    expected = 2.0 * (held["keys"] + held["values"])
    if CompressedAttention in mixers:
        # A layer of tokens alone has its one vector twice, and a window of w keeps w - 1; an index is in FP4
        expected = 2.0 * held["keys"] * TOKENS / (TOKENS - 1)
        expected += 2.0 * held["compressed_kv[compressor]"] + 0.5 * held["compressed_kv[indexer]"]
    elif LatentAttention in mixers and (indexer := mixers[LatentAttention].indexer):  # in FP8, a scale each
        expected += held["indexer_keys"] * (1 + 4 / indexer.head_dim)
    else:
        expected += 2.0 * held["idx_keys"]
    for one in (mixers.get(GatedDeltaNet), mixers.get(StateSpace)):
        if one is not None:  # the class keeps a column that the next token pushes out
            expected += 4.0 * held["recurrent_states[0]"]
            expected += 2.0 * held["conv_states[0]"] * (one.convolution - 1) / one.convolution
    assert kept(spec) == expected


def kept(spec):
    """Ours; tokens that are no entry yet are test_compressed_attention's, as the class keeps fewer of them."""
    return sum(
        group.count * (state.at(TOKENS) if state.ratio == 1 else state.entry_bytes * TOKENS / state.ratio)
        for group in spec.layers
        for state in kv_states(group, 16, 1)
    )


def numbers(cache):
    """How many numbers the class keeps, by name."""
    found = collections.Counter()
    for layer in cache.layers:
        for name, value in vars(layer).items():
            parts = value.items() if isinstance(value, dict) else [(None, value)]
            for key, part in parts:
                if isinstance(part, torch.Tensor) and not name.startswith("_"):
                    found[name if key is None else f"{name}[{key}]"] += part.numel()
    return found
