"""Capture: exact affine operators, reported unknowns, content keys, and the same set after a round
trip."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from evaluator_cases import (
    BF16,
    DEEPSEEK_V3,
    GPT_OSS_20B,
    MODELS,
    OPT_125M,
    QWEN3_30B_A3B,
    QWEN3_32B,
    W4A8,
    W8A8,
    captured,
)

from evaluator.graph.capture import CaptureRequest
from evaluator.graph.capture.affine_fit import NotAffineError, fitted, trace_points
from evaluator.graph.capture.blocks import pointwise
from evaluator.graph.capture.capture_request import layers_of_stages
from evaluator.graph.capture.library import defined, made, operators
from evaluator.graph.capture.recorder import Recorder
from evaluator.graph.capture.shapes import Tensor, meta_tensor
from evaluator.graph.operators import Affine, operators_from_json, operators_to_json
from evaluator.graph.sums import BatchSums
from evaluator.inputs.formats import Format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp
from evaluator.inputs.models import load_model

PLANS = {
    "Qwen3-32B": [Plan(tp=8), Plan(tp=2, pp=4), Plan(dp=8), Plan(tp=16)],
    "Qwen3-30B-A3B": [Plan(dp=8, ep=8), Plan(tp=8, ep=8), Plan(tp=8, moe_tp=8), Plan(tp=4, dp=2, ep=2, moe_tp=2, moe_dp=2)],
    "Llama-3.1-8B": [Plan(), Plan(tp=4)],
    "Mixtral-8x7B": [Plan(tp=2, ep=2), Plan(dp=4, moe_tp=4)],
    "DeepSeek-V3": [Plan(tp=8, ep=8), Plan(tp=4, dp=4, ep=16), Plan(tp=4, pp=4, ep=4)],
    "gpt-oss-20b": [Plan(tp=2, ep=2), Plan(pp=3)],
    "opt-125m": [Plan(), Plan(tp=4)],
}  # fmt: skip
CASES = [(name, plan, compiled) for name, plans in PLANS.items() for plan in plans for compiled in (True, False)]


def operator(name, operators):
    found = [one for one in operators.operators if one.label == name]
    assert len(found) == 1, [one.label for one in operators.operators]
    return found[0]


@pytest.mark.parametrize(("name", "plan", "compiled"), CASES)
def test_every_model_is_captured_whole(name, plan, compiled):
    operators = captured(MODELS[name], plan, "prefill", linear=W8A8, compile=compiled)
    assert operators.unmodelled == ()
    assert operators.stages == plan.pp
    assert {len(one.counts) for one in operators.operators} == {plan.pp}
    assert operators_from_json(operators_to_json(operators)) == operators
    layers = sum(group.count for group in MODELS[name].layers)
    attention = [one for one in operators.operators if one.attention is not None]
    assert sum(one.count for one in attention) == layers


def test_a_norm_over_all_heads_sums_over_their_devices():
    model = load_model("MiniMaxAI/MiniMax-M2")[1]
    squares = operator("layers.query_key_norm_all_reduce", captured(model, Plan(tp=4, ep=4)))
    # Two 32-bit sums a token, one of its queries and one of its keys, in each of 62 layers.
    assert squares.collective.payload_bytes == Affine(tokens=8)
    assert (squares.kind, squares.collective.group_size, squares.counts) == ("all_reduce", 4, (62,))
    # Queries and keys of a device are read once more, in two bytes each: 48 / 4 and 8 / 4 heads of 128.
    reduced = [one for one in captured(model, Plan(tp=4, ep=4)).operators if "norm_squares" in one.label]
    assert [one.bytes_read.tokens for one in reduced] == [2 * 1536, 2 * 256]
    alone = captured(model, Plan())
    assert not [one for one in alone.operators if one.collective is not None]


def test_a_gated_linear_is_sharded_exactly():
    gate_up = operator("layers.mlp.gate_up_proj", captured(QWEN3_32B, Plan(tp=8), linear=W8A8))
    # 2 x 25600 / 8 columns of 5120: 2 x 5120 x 6400 FLOPs a token; one byte a weight; int8 in, two bytes out
    assert gate_up.matrix_flops == Affine(tokens=2 * 5120 * 6400)
    assert gate_up.bytes_read == Affine(constant=5120 * 6400, tokens=5120)
    assert gate_up.bytes_written == Affine(tokens=2 * 6400)
    assert gate_up.matrix_dtype == "int8"
    assert gate_up.weight_bytes == 5120 * 6400
    assert gate_up.counts == (64,)
    assert (gate_up.gemm.n, gate_up.gemm.k, gate_up.gemm.m) == (6400, 5120, Affine(tokens=1))


def test_four_bit_weights_are_widened_on_the_vector_unit():
    gate_up = operator("layers.mlp.gate_up_proj", captured(QWEN3_32B, Plan(tp=8), linear=W4A8))
    assert gate_up.bytes_read.constant == 5120 * 6400 // 2
    assert gate_up.vector_flops == Affine(constant=5120 * 6400)


def test_attention_depends_on_pairs_and_keys():
    attention = operator("layers.attention", captured(QWEN3_32B, Plan(tp=8), "decode"))
    # 8 heads of 128 on one KV head: 4 x 128 FLOPs a pair and head; K and V of 128 x 2 bytes a key; q in and out
    assert attention.matrix_flops == Affine(pairs=8 * 4 * 128)
    assert attention.vector_flops == Affine(pairs=8 * 4)
    assert attention.bytes_read == Affine(tokens=8 * 128 * 2, keys=2 * 128 * 2)
    assert attention.bytes_written == Affine(tokens=8 * 128 * 2)
    assert attention.driver == "attention"


def test_an_eight_bit_cache_is_widened_on_the_vector_unit():
    operators = captured(QWEN3_32B, Plan(tp=8), "decode", kv_bits=8)
    attention, write = operator("layers.attention", operators), operator("layers.kv_write", operators)
    # K and V of 128 one-byte numbers a key, one FLOP each to widen them; 4 FLOPs a score stay
    assert attention.bytes_read == Affine(tokens=8 * 128 * 2, keys=2 * 128)
    assert attention.vector_flops == Affine(pairs=8 * 4, keys=2 * 128)
    # 16-bit K and V and a slot index in, one byte each out
    assert write.bytes_read == Affine(tokens=2 * 128 * 2 + 8)
    assert write.bytes_written == Affine(tokens=2 * 128)


def test_formats_with_scales_count_them():
    nvfp4 = Format(name="NVFP4", compute="fp4", weight_bits=4, activation_bits=4, scale_bits_per_weight=0.5)
    gate_up = operator("layers.mlp.gate_up_proj", captured(QWEN3_32B, Plan(tp=8), linear=nvfp4))
    # 4.5 bits a weight; activations of half a byte
    assert gate_up.bytes_read == Affine(constant=5120 * 6400 * 9 // 16, tokens=5120 // 2)
    assert gate_up.weight_format == "NVFP4"
    assert gate_up.activation_dtype == "fp4"
    thirds = Format(name="odd", compute="bf16", weight_bits=16, activation_bits=16, scale_bits_per_weight=1 / 64)
    weights = operator("layers.mlp.down_proj", captured(QWEN3_32B, Plan(tp=8), linear=thirds)).weight_bytes
    assert weights == Fraction(5120 * 3200 * (16 * 64 + 1), 64 * 8)


def test_kv_heads_replicate_beyond_their_number():
    narrow = operator("layers.qkv_proj", captured(QWEN3_32B, Plan(tp=8)))
    wide = operator("layers.qkv_proj", captured(QWEN3_32B, Plan(tp=16)))
    assert narrow.gemm.n == (8 + 2) * 128
    assert wide.gemm.n == (4 + 2) * 128  # still one whole KV head


def test_latent_attention_is_absorbed_in_decode_and_expanded_in_prefill():
    decode = operator("layers0.attention", captured(DEEPSEEK_V3, Plan(tp=8, ep=8), "decode"))
    prefill = operator("layers0.attention", captured(DEEPSEEK_V3, Plan(tp=8, ep=8), "prefill"))
    # absorbed: 16 heads over one vector of 512 + 64, values are its first 512: 2 x (576 + 512) a pair; 576 x 2 bytes
    # a key
    assert decode.matrix_flops == Affine(pairs=16 * 2 * (576 + 512))
    assert decode.bytes_read.keys == 576 * 2
    # expanded: 16 heads with keys of 128 + 64 and values of 128
    assert prefill.matrix_flops == Affine(pairs=16 * 2 * (192 + 128))
    assert prefill.bytes_read.keys == 16 * (192 + 128) * 2


def test_both_latent_forms_hold_the_same_weights():
    weights = [
        sum(one.count * one.weight_bytes for one in captured(DEEPSEEK_V3, Plan(tp=8, ep=8), trace).operators)
        for trace in ("prefill", "decode")
    ]
    assert weights[0] == weights[1]


def test_an_exchange_moves_each_ranks_own_share():
    operators = captured(QWEN3_30B_A3B, Plan(tp=8, ep=8))
    exchanges = [one for one in operators.operators if one.kind == "all_to_all"]
    assert len(exchanges) == 2
    for exchange in exchanges:
        # T / 8 tokens of a rank x 8 experts each x 2048 x 2 bytes
        assert exchange.collective.payload_bytes == Affine(tokens=8 * 2048 * 2 // 8)
        assert (exchange.collective.group_size, exchange.collective.stride) == (8, 1)


def test_experts_split_by_tensor_share_their_rows():
    operators = captured(QWEN3_30B_A3B, Plan(tp=4, dp=2, ep=2, moe_tp=2, moe_dp=2))
    gate_up = next(one for one in operators.operators if one.experts is not None and one.experts.role == "gate_up")
    # A group of ep 2 x moe_tp 2 serves the tokens of 2 replicas over 2 groups: T tokens, 8 experts each, over 2 ranks
    assert gate_up.gemm.m == Affine(tokens=4)
    assert gate_up.experts.tokens == Affine(tokens=1)
    assert gate_up.experts.local_experts == 64
    assert gate_up.experts.intermediate_size == 384
    exchange = next(one for one in operators.operators if one.kind == "all_to_all")
    assert (exchange.collective.group_size, exchange.collective.stride) == (2, 2)


def test_eager_experts_are_those_of_one_expert():
    operators = captured(QWEN3_30B_A3B, Plan(dp=8, ep=8), compile=False)
    gate = operator("layers.mlp.experts.expert.gate_proj", operators)
    assert gate.per_expert
    assert gate.matrix_flops == Affine(tokens=2 * 2048 * 768)
    assert gate.experts.tokens == Affine(tokens=8)  # of all 8 replicas
    assert gate.experts.local_experts == 16


def test_windows_sinks_and_biases_are_kept():
    operators = captured(GPT_OSS_20B, Plan())
    assert operators.windows == (128,)
    sliding, full = operator("layers0.attention", operators), operator("layers1.attention", operators)
    assert (sliding.attention.window, full.attention.window) == (128, None)
    assert sliding.attention.sinks
    assert sliding.weight_bytes == 64 * 2
    projection = operator("layers0.output_proj", operators)
    assert projection.weight_bytes == 2 * (64 * 64 * 2880 + 2880)


def test_learned_positions_ties_and_plain_mlps():
    operators = captured(OPT_125M, Plan())
    labels = {one.label for one in operators.operators}
    assert operator("lm_head", operators).weight_bytes == 0
    assert operator("lm_head", captured(OPT_125M, Plan(pp=2))).weight_bytes == 2 * 50272 * 768
    assert "rope_table" not in labels
    # 125.2M parameters published (facebook/opt-125m): every weight once, two bytes each, the tied head inside the table
    bytes_ = sum(one.count * one.weight_bytes for one in operators.operators)
    assert bytes_ / 2 == pytest.approx(125_239_296, rel=0.001)


def test_stages_of_a_pipeline():
    assert layers_of_stages(QWEN3_32B, 4) == ((16, 16, 16, 16),)
    # 3 dense and 58 expert layers over 4: 16, 15, 15, 15
    assert layers_of_stages(DEEPSEEK_V3, 4) == ((3, 0, 0, 0), (13, 15, 15, 15))
    # sliding and full layers alternate, so each stage has as many of both
    assert layers_of_stages(GPT_OSS_20B, 3) == ((4, 4, 4), (4, 4, 4))
    transfer = operator("stage_transfer", captured(QWEN3_32B, Plan(tp=2, pp=4)))
    assert transfer.counts == (1, 1, 1, 0)
    assert transfer.collective.payload_bytes == Affine(tokens=2 * 5120)


def test_drafts_share_embedding_and_head():
    operators = captured(DEEPSEEK_V3, Plan(tp=8, ep=8), "decode", linear=W8A8)
    drafts = {one.label: one for one in operators.draft_operators}
    assert drafts["mtp.embedding"].weight_bytes == 0
    assert drafts["mtp.projection"].weight_bytes == 2 * 2 * 7168 * 7168
    assert any(one.experts is not None for one in operators.draft_operators)
    assert not captured(QWEN3_32B, Plan()).draft_operators


def test_an_operator_without_a_formula_is_reported(monkeypatch):
    def unpriced(x: Tensor) -> Tensor:
        return made(x, x.shape)

    monkeypatch.setattr(operators, "unpriced", None, raising=False)  # gone again once the test is over
    defined(unpriced)
    recorder = Recorder({})
    with recorder, recorder.within("block"):
        operators.unpriced(meta_tensor(4, 4))
    assert recorder.unmodelled == ["block: unpriced"]


def test_a_view_holds_what_it_is_a_view_of():
    recorder = Recorder({})
    with recorder:
        x = pointwise("add", meta_tensor(6, 100))  # 1200 bytes
        part = x.view(6, 20, 5).unsqueeze(1)[..., 2:]
        assert part.shape == (6, 1, 20, 3)
        del x
        _ = pointwise("add", part)  # 6 x 20 x 3 numbers: 720 more
        assert [piece.shape for piece in part.split([7, 13], 2)] == [(6, 1, 7, 3), (6, 1, 13, 3)]
        with pytest.raises(ValueError, match="is no"):
            part.view(6, 100)
    assert [record.alive for record in recorder.records] == [1200, 1920]


def test_what_is_alive_is_counted_until_it_is_dropped():
    recorder = Recorder({})
    with recorder:
        x = meta_tensor(1000)
        y = pointwise("add", x, x)  # 2000 bytes
        z = pointwise("multiply", y, y)  # 2000 more
        del y
        _ = pointwise("add", z, z)  # y is gone
    assert [record.alive for record in recorder.records] == [2000, 4000, 4000]


def test_a_form_that_is_not_affine_is_refused():
    points = trace_points(8)
    with pytest.raises(NotAffineError, match="squares is not affine"):
        fitted(points, [point.tokens**2 for point in points], "squares")
    thirds = [Fraction(point.tokens, 3) + 7 * point.keys for point in points]
    assert fitted(points, thirds, "thirds") == Affine(tokens=Fraction(1, 3), keys=7)


def test_affine_forms_evaluate_and_add():
    sums = BatchSums(
        tokens=np.asarray([2.0]), sequences=np.asarray([3.0]), pairs=np.asarray([5.0]), keys=np.asarray([7.0])
    )
    form = Affine(1, 10, 100, Fraction(1, 5), 0) + Affine(keys=2).scaled(3)
    assert form.at(sums) == pytest.approx([1 + 20 + 300 + 1 + 42])


def request(**changes):
    base = {
        "model": QWEN3_32B, "plan": Plan(tp=8), "linear": W8A8, "experts": W8A8, "kv_bits": 16, "trace": "prefill", "compile": True,
    }  # fmt: skip
    return CaptureRequest(**{**base, **changes})


CHANGES = {
    "model": replace(QWEN3_32B, layers=(replace(QWEN3_32B.layers[0], mlp=DenseMlp(intermediate_size=25601)),)),
    "plan": Plan(tp=4),
    "linear": BF16,
    "experts": BF16,
    "kv_bits": 8,
    "trace": "decode",
    "compile": False,
    "convention": "upstream",
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_the_key_follows_everything_that_decides_operators(name):
    assert request().key == request().key
    assert request(**{name: CHANGES[name]}).key != request().key
