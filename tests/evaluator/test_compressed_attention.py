"""DeepSeek-V4: entries of several tokens, a window beside them, residual streams, and what caches hold of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import captured
from hypothesis import given
from hypothesis import strategies as st

from evaluator.canonical import canonical
from evaluator.evaluate import assumptions_of, capture_requests, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import CompressedAttention, LayerGroup, ModelSpec, MoeMlp, TokenIndexer
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.plan_search import illegality
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import kv_states
from evaluator.pricing.memory import kv_bytes
from evaluator.restore import restored
from evaluator.scenario import Scenario

WINDOW = CompressedAttention(
    query_heads=128, query_lora_rank=1536, head_dim=512, rope_head_dim=64, output_groups=16, output_rank=1024
)
HEAVY = replace(WINDOW, ratio=128)
SPARSE = replace(WINDOW, ratio=4, chosen_entries=1024, indexer=TokenIndexer(heads=64, head_dim=128))
MOE = MoeMlp(experts=384, experts_per_token=6, intermediate_size=3072, shared_intermediate_size=3072, router_bias=True)
HASHED = replace(MOE, router_bias=False)
# The published shapes of DeepSeek-V4-Pro.
PRO = ModelSpec(
    architecture="deepseek_v4",
    hidden_size=7168,
    vocab_size=129280,
    layers=(
        LayerGroup(count=2, attention=HEAVY, mlp=HASHED, window=128),
        LayerGroup(count=1, attention=SPARSE, mlp=HASHED, window=128),
        LayerGroup(count=29, attention=HEAVY, mlp=MOE, window=128),
        LayerGroup(count=29, attention=SPARSE, mlp=MOE, window=128),
    ),
    mtp_layers=1,
    draft_layer=LayerGroup(count=1, attention=WINDOW, mlp=MOE, window=128),
    residual_streams=4,
    stream_rounds=20,
    max_positions=2**20,
)


def attended(trace, new, cached, part):
    """(matrix FLOPs, bytes read) of an operator of attention, by the layer and the end of its label."""
    sums = repeated(request_sums(float(new), float(cached), windows=PRO.windows), 1.0)
    one = next(one for one in captured(PRO, Plan(), trace).operators if one.label == part)
    seen = sums if one.attention is None else sums.within(one.attention.window)
    return float(one.matrix_flops.at(seen)), float(one.bytes_read.at(seen))


def test_the_weights_are_those_of_the_class():
    assert parameter_count(PRO).total == 1_572_997_201_763
    held = sum(one.count * one.weight_bytes for one in captured(PRO, Plan()).operators)
    assert held == 2 * parameter_count(PRO).total


def test_a_decode_reads_its_window_and_its_entries():
    # 2 x 128 heads x (512 + 512) an entry of 1,024 bytes: 128 of the window, 1,024 chosen of 25,000, and 781.25
    entry, query = 2 * 128 * 1024, 128 * 512 * 2
    assert attended("decode", 1, 99_999, "layers1.attention") == (128 * entry, 128 * 1024 + query)
    assert attended("decode", 1, 99_999, "layers1.attention_to_entries") == (1024 * entry, 1024 * 1024)
    assert attended("decode", 1, 99_999, "layers0.attention_to_entries") == (781.25 * entry, 781.25 * 1024)
    assert attended("decode", 1, 99_999, "layers1.indexer.scores")[0] == 2 * 64 * 128 * 25_000
    assert attended("decode", 1, 99_999, "layers1.indexer.scores")[1] == 64 * 128 + 25_000 * 64


@given(cached=st.integers(4096, 900_000), more=st.integers(1, 100_000))
def test_beyond_the_chosen_entries_sparse_layers_do_not_grow(cached, more):
    for part in ("layers1.attention", "layers1.attention_to_entries"):
        assert attended("decode", 1, cached, part) == attended("decode", 1, cached + more, part)
    assert attended("decode", 1, cached, "layers0.attention_to_entries") < attended(
        "decode", 1, cached + more, "layers0.attention_to_entries"
    )


@pytest.mark.parametrize(("tokens", "a_token"), [(2**13, 9_384), (2**17, 8_469), (2**20, 8_416)])
def test_state_of_a_token(tokens, a_token):
    # 31 layers of an entry of 1,024 bytes for 128 tokens, 30 for 4 with an index key of 64 bytes, and 61 windows
    kept = sum(
        group.count * sum(replace(state, request_bytes=0.0).at(float(tokens)) for state in kv_states(group, 16, 8))
        for group in PRO.layers
    )
    assert kept == tokens * (31 * 1024 / 128 + 30 * (1024 + 64) / 4) + 61 * 128 * 1024
    assert kept / tokens == pytest.approx(a_token, abs=0.5)


def test_tokens_that_are_no_entry_yet_are_kept_in_32_bits():
    # Of 128 tokens 512 numbers and as many shares; of 8, overlapping, 1,024 of each, and 256 for the index
    heavy = sum(state.request_bytes for state in kv_states(PRO.layers[0], 16, 1))
    assert heavy == 2 * 128 * 512 * 4
    assert sum(state.request_bytes for state in kv_states(PRO.layers[1], 16, 1)) == 2 * 8 * (1024 + 256) * 4


def test_a_draft_keeps_a_window_alone():
    def cache(drafting):
        return float(kv_bytes(PRO, Plan(), 16, np.asarray(9999.0), np.asarray(1.0), paging="pooled", drafting=drafting))

    assert cache(True) - cache(False) == 128 * 1024


def test_residual_streams_are_read_twice_and_written_once_a_block():
    sums = repeated(request_sums(1024.0, 0.0, windows=PRO.windows), 1.0)
    found = {one.label: one for one in captured(PRO, Plan(), "prefill").operators if one.kind.startswith("stream")}
    first, mixed = found["layers0.attention_streams"], found["layers0.attention_streams_mixed"]
    wide = 1024 * 4 * 7168 * 2
    assert float(first.bytes_read.at(sums)) == 2 * wide + (24 * 4 * 7168 + 27) * 2
    assert float(first.matrix_flops.at(sums)) == 2 * 1024 * 24 * 4 * 7168
    assert float((mixed.bytes_read + mixed.bytes_written).at(sums)) == 2 * wide + wide / 4
    assert sum(one.count for one in found.values()) == 4 * 61 + 1


def test_groups_of_the_output_are_split_too():
    assert illegality(PRO, Plan(tp=32, ep=32), 32) == "tp 32 does not divide the 16 output heads"
    assert illegality(PRO, Plan(tp=16, ep=16), 16) is None


@pytest.mark.parametrize("serving_model", ["sglang", "waves"])
def test_it_is_served_with_drafts(serving_model):
    scenario = Scenario(
        model=PRO,
        device=load_device("b200_sxm", family="calibrated"),
        precision=Precision(linear="FP8_BLOCK", experts="MXFP4", attention="FP8"),
        plan=Plan(tp=8, ep=8),
        workload=Workload(input_length=8000, output_length=400.0, mtp_tokens=1, mtp_acceptance=(0.8,)),
        phase="aggregated",
        serving_model=serving_model,
    )
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    block = evaluate_scenario(scenario, np.asarray([1, 16, 64]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    assert any(
        "paged_scores, stream_collapse, stream_expand: rooflines" in said for said in assumptions_of(scenario, sets)
    )
    assert not any(one.unmodelled for one in sets.values())


def test_a_stored_model_of_it_is_the_same():
    assert restored(canonical(PRO)) == PRO
