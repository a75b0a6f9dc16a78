"""DeepSeek-V4: attention to compressed tokens by layer, several residual streams, experts in FP4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import CompressedAttention, LayerGroup, ModelSpec, MoeMlp, TokenIndexer
from evaluator.inputs.yaml_file import shortened

_SLIDING, _SPARSE, _HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
_RATIOS = {_SPARSE: 4, _HEAVY: 128}


def _deepseek_v4(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.forbid("deepseek_v4 with biases", "attention_bias", "mlp_bias")
    if reader.size("num_key_value_heads", default=1) != 1:
        raise reader.refuse("compressed attention with more than one head of keys (num_key_value_heads)")
    # Scales, where outputs of gates end, and a width that experts have, too.
    reader.ignore("swiglu_limit", "compress_rope_theta", "hc_eps", "intermediate_size", "num_local_experts")
    total, window = reader.size("num_hidden_layers"), reader.size("sliding_window", default=128)
    ratios = _ratios(reader, total)
    bare = _attention(reader)
    indexer = TokenIndexer(heads=reader.size("index_n_heads"), head_dim=reader.size("index_head_dim"))
    chosen = reader.size("index_topk")
    # The indexer is of layers whose entries are of few tokens; where there are many a token, all are read.
    kinds = {
        ratio: replace(bare, ratio=ratio, chosen_entries=chosen, indexer=indexer)
        if ratio == _few(ratios)
        else replace(bare, ratio=ratio)
        for ratio in {*ratios, 1}
    }
    moe, hashed = _experts(reader), _hashed_layers(reader, total)
    layers = [
        LayerGroup(count=1, attention=kinds[ratio], mlp=replace(moe, router_bias=not by_hash), window=window)
        for ratio, by_hash in zip(ratios, hashed, strict=True)
    ]
    drafts = reader.count("num_nextn_predict_layers")
    spec = reader.model_spec(
        layers,
        mtp_layers=drafts,
        draft_layer=LayerGroup(count=1, attention=kinds[1], mlp=moe, window=window) if drafts else None,
        residual_streams=reader.size("hc_mult", default=4),
        stream_rounds=reader.count("hc_sinkhorn_iters", 20),
    )
    return _with_experts_in_fp4(reader, spec)


def _attention(reader: ConfigReader) -> CompressedAttention:
    head_dim, share = reader.size("head_dim"), reader.share("partial_rotary_factor", 0.125)
    return CompressedAttention(
        query_heads=reader.size("num_attention_heads"),
        query_lora_rank=reader.size("q_lora_rank"),
        head_dim=head_dim,
        rope_head_dim=reader.size("qk_rope_head_dim", default=max(1, int(head_dim * share))),
        output_groups=reader.size("o_groups"),
        output_rank=reader.size("o_lora_rank"),
    )


def _few(ratios: list[int]) -> int:
    """0 where there is only one ratio, which is the higher."""
    found = sorted({ratio for ratio in ratios if ratio > 1})
    return found[0] if found and (len(found) > 1 or found[0] < _RATIOS[_HEAVY]) else 0


def _ratios(reader: ConfigReader, total: int) -> list[int]:
    """1 where there is a window alone. A list may go on with the draft layers."""
    said, rates = reader.numbers("compress_ratios"), reader.value("compress_rates") or {}
    known = {_SLIDING: 1, **_RATIOS, **(rates if isinstance(rates, Mapping) else {})}
    kinds = reader.kinds("layer_types", total, known)
    ratios = [known[kind] for kind in kinds] or [max(1, ratio) for ratio in said[:total]]
    if len(ratios) != total or not all(isinstance(ratio, int) and 1 <= ratio <= 2**16 for ratio in ratios):
        raise reader.refuse(f"compress_ratios {shortened(said or rates)} of {total} layers")
    if len(set(ratios) - {1}) > 2:
        raise reader.refuse("entries compressed by more than two ratios (compress_ratios)")
    return ratios


def _hashed_layers(reader: ConfigReader, total: int) -> list[bool]:
    if kinds := reader.kinds("mlp_layer_types", total, ("hash_moe", "moe")):
        return [kind == "hash_moe" for kind in kinds]
    first = reader.count("num_hash_layers", 3)
    return [layer < first for layer in range(total)]


def _experts(reader: ConfigReader) -> MoeMlp:
    corrected = reader.word("topk_method", "noaux_tc") == "noaux_tc"
    return reader.experts("n_routed_experts", shared=reader.count("n_shared_experts", 1), router_bias=corrected)


def _with_experts_in_fp4(reader: ConfigReader, spec: ModelSpec) -> ModelSpec:
    said = reader.one_of("expert_dtype", "", "fp4", "fp8")
    plain = said == "fp4" and spec.native_experts == spec.native_linear == "FP8_BLOCK"
    return replace(spec, native_experts="MXFP4") if plain else spec


READERS = {"deepseek_ref": _deepseek_v4, "deepseek_v4": _deepseek_v4}
