"""A Hugging Face style config.json as a ModelSpec. What is not understood is an error that names the part.

Not here: where the file comes from (evaluator.inputs.models), and the formats of its weights
(evaluator.inputs.native_formats)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.native_formats import native_formats, native_kv_cache
from store.errors import InputError

Config = Mapping[str, Any]

# Settings that change what is computed, in models we do not cover. A value that is false-like leaves the model plain.
_UNCOVERED = {
    "index_topk": "sparse attention with a token indexer",
    "linear_num_value_heads": "gated delta net (linear attention) layers",
    "linear_key_head_dim": "gated delta net (linear attention) layers",
    "hybrid_override_pattern": "Mamba layers",
    "mamba_num_heads": "Mamba layers",
    "ssm_state_size": "state space layers",
    "vision_config": "a vision tower",
    "attention_chunk_size": "chunked attention",
    "block_configs": "layers that differ one by one (a pruned architecture)",
    "compress_ratios": "compressed attention",
    "num_kv_shared_layers": "KV caches shared between layers",
}
_GATED_ACTIVATIONS = {"silu", "swish", "swiglu"}


class _Reader:
    """Typed access to a config that names the file and the key when something is missing or impossible."""

    def __init__(self, config: Config, where: str) -> None:
        self.config = config
        self.where = where

    def size(self, *names: str, default: int | None = None) -> int:
        """A positive whole number under the first of `names` that is there."""
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{self.where}: {name} must be a whole number of at least 1, not {value!r}")
            return value
        if default is None:
            raise InputError(
                f"{self.where}: {names[0]} is missing", hint="is this the config.json of a language model?"
            )
        return default

    def count(self, name: str, default: int = 0) -> int:
        """A whole number of at least 0."""
        value = self.config.get(name, default)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"{self.where}: {name} must be a whole number of at least 0, not {value!r}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean."""
        value = self.config.get(name, default)
        return default if value is None else bool(value)

    def refuse(self, part: str) -> InputError:
        """The error for an architecture that is not covered."""
        return InputError(
            f"{self.where}: {part} is not covered by the evaluator, and it is never approximated silently",
            hint="sweepdb models lists what is; docs/howto/add-a-model.md says how to add an architecture",
        )


def spec_from_config(config: Config, where: str) -> ModelSpec:
    """The model that `config` describes; `where` names the file in errors."""
    reader = _Reader(config, where)
    architecture = config.get("model_type")
    if not isinstance(architecture, str):
        raise InputError(f"{where}: model_type is missing", hint="is this the config.json of a language model?")
    for key, part in _UNCOVERED.items():
        if config.get(key):
            raise reader.refuse(f"{part} ({key} of model_type {architecture!r})")
    build = _ARCHITECTURES.get(architecture)
    if build is None:
        raise reader.refuse(f"model_type {architecture!r}")
    return build(reader)


def _gqa(reader: _Reader, **options: Any) -> GroupedQueryAttention:  # noqa: ANN401  fields of the record
    heads = reader.size("num_attention_heads")
    kv_heads = reader.size("num_key_value_heads", default=heads)
    hidden = reader.size("hidden_size")
    if heads % kv_heads:
        raise InputError(
            f"{reader.where}: num_key_value_heads ({kv_heads}) does not divide num_attention_heads ({heads})"
        )
    if reader.config.get("head_dim") is None and hidden % heads:
        raise InputError(f"{reader.where}: num_attention_heads ({heads}) does not divide hidden_size ({hidden})")
    head_dim = reader.size("head_dim", default=max(1, hidden // heads))
    return GroupedQueryAttention(query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, **options)


def _gated(reader: _Reader) -> None:
    activation = reader.config.get("hidden_act", "silu")
    if activation not in _GATED_ACTIVATIONS:
        raise reader.refuse(f"activation {activation!r}")


def _spec(reader: _Reader, layers: list[LayerGroup], **options: Any) -> ModelSpec:  # noqa: ANN401  fields of the record
    linear, experts = native_formats(reader.config.get("quantization_config"))
    maximum = reader.config.get("max_position_embeddings")
    return ModelSpec(
        architecture=str(reader.config["model_type"]),
        hidden_size=reader.size("hidden_size"),
        vocab_size=reader.size("vocab_size"),
        layers=tuple(group for group in layers if group.count),
        native_linear=linear,
        native_experts=experts,
        native_kv_cache=native_kv_cache(reader.config.get("quantization_config")),
        max_positions=maximum if isinstance(maximum, int) else None,
        **{"tie_word_embeddings": reader.flag("tie_word_embeddings"), **options},
    )


def _windowed(reader: _Reader, attention: GroupedQueryAttention, mlp: DenseMlp | MoeMlp) -> list[LayerGroup]:
    """Layer groups by `layer_types`, or one group under the sliding window where it is switched on."""
    total = reader.size("num_hidden_layers")
    window = reader.config.get("sliding_window")
    types = reader.config.get("layer_types")
    if not isinstance(window, int):
        return [LayerGroup(count=total, attention=attention, mlp=mlp)]
    if isinstance(types, list) and types:
        unknown = set(types) - {"full_attention", "sliding_attention"}
        if unknown or len(types) != total:
            raise reader.refuse(f"layer_types with {sorted(unknown) or len(types)}")
        sliding = types.count("sliding_attention")
    else:
        sliding = total
    return [
        LayerGroup(count=sliding, attention=attention, mlp=mlp, window=window),
        LayerGroup(count=total - sliding, attention=attention, mlp=mlp),
    ]


def _llama(reader: _Reader) -> ModelSpec:
    _gated(reader)
    bias = reader.flag("attention_bias")
    attention = _gqa(reader, qkv_bias=bias, output_bias=bias)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"), bias=reader.flag("mlp_bias"))
    return _spec(reader, [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=mlp)])


def _mistral(reader: _Reader) -> ModelSpec:
    _gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return _spec(reader, _windowed(reader, _gqa(reader), mlp))


def _qwen_window(reader: _Reader, attention: GroupedQueryAttention, mlp: DenseMlp) -> list[LayerGroup]:
    total = reader.size("num_hidden_layers")
    if not reader.flag("use_sliding_window"):
        return [LayerGroup(count=total, attention=attention, mlp=mlp)]
    full = min(total, reader.count("max_window_layers", total))
    window = reader.size("sliding_window")
    return [
        LayerGroup(count=full, attention=attention, mlp=mlp),
        LayerGroup(count=total - full, attention=attention, mlp=mlp, window=window),
    ]


def _qwen2(reader: _Reader) -> ModelSpec:
    _gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return _spec(reader, _qwen_window(reader, _gqa(reader, qkv_bias=True), mlp))


def _qwen3(reader: _Reader) -> ModelSpec:
    _gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    attention = _gqa(reader, qk_norm="per_head", qkv_bias=reader.flag("attention_bias"))
    return _spec(reader, _qwen_window(reader, attention, mlp))


def _qwen3_moe(reader: _Reader) -> ModelSpec:
    _gated(reader)
    attention = _gqa(reader, qk_norm="per_head", qkv_bias=reader.flag("attention_bias"))
    total = reader.size("num_hidden_layers")
    step = reader.size("decoder_sparse_step", default=1)
    only_dense = set(reader.config.get("mlp_only_layers") or [])
    sparse = sum(1 for layer in range(total) if layer not in only_dense and (layer + 1) % step == 0)
    moe = MoeMlp(
        experts=reader.size("num_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("moe_intermediate_size"),
    )
    dense = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    layers = [
        LayerGroup(count=total - sparse, attention=attention, mlp=dense),
        LayerGroup(count=sparse, attention=attention, mlp=moe),
    ]
    return _spec(reader, layers)


def _mixtral(reader: _Reader) -> ModelSpec:
    _gated(reader)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("intermediate_size"),
    )
    return _spec(reader, _windowed(reader, _gqa(reader), moe))


def _deepseek_v3(reader: _Reader) -> ModelSpec:
    _gated(reader)
    if reader.size("moe_layer_freq", default=1) != 1:
        raise reader.refuse("moe_layer_freq other than 1")
    attention = LatentAttention(
        query_heads=reader.size("num_attention_heads"),
        query_lora_rank=reader.size("q_lora_rank") if reader.config.get("q_lora_rank") else None,
        kv_lora_rank=reader.size("kv_lora_rank"),
        nope_head_dim=reader.size("qk_nope_head_dim"),
        rope_head_dim=reader.size("qk_rope_head_dim"),
        value_head_dim=reader.size("v_head_dim"),
    )
    moe_size = reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=moe_size,
        shared_intermediate_size=moe_size * reader.count("n_shared_experts"),
        router_bias=reader.config.get("topk_method") == "noaux_tc",
    )
    return _spec(reader, _first_dense(reader, attention, moe), mtp_layers=reader.count("num_nextn_predict_layers"))


def _first_dense(reader: _Reader, attention: GroupedQueryAttention | LatentAttention, moe: MoeMlp) -> list[LayerGroup]:
    total = reader.size("num_hidden_layers")
    first = min(total, reader.count("first_k_dense_replace"))
    dense = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return [
        LayerGroup(count=first, attention=attention, mlp=dense),
        LayerGroup(count=total - first, attention=attention, mlp=moe),
    ]


def _glm4_moe(reader: _Reader) -> ModelSpec:
    _gated(reader)
    attention = _gqa(
        reader,
        qkv_bias=reader.flag("attention_bias"),
        qk_norm="per_head" if reader.flag("use_qk_norm") else "none",
    )
    moe_size = reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=moe_size,
        shared_intermediate_size=moe_size * reader.count("n_shared_experts"),
        router_bias=True,
    )
    return _spec(
        reader,
        _first_dense(reader, attention, moe),
        rope_fraction=float(reader.config.get("partial_rotary_factor", 0.5)),
        mtp_layers=reader.count("num_nextn_predict_layers"),
    )


def _gpt_oss(reader: _Reader) -> ModelSpec:
    _gated(reader)
    bias = reader.flag("attention_bias", default=True)
    attention = _gqa(reader, qkv_bias=bias, output_bias=bias, sinks=True)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok", "experts_per_token"),
        intermediate_size=reader.size("intermediate_size"),
        expert_bias=True,
        router_bias=True,
    )
    return _spec(reader, _windowed(reader, attention, moe))


def _minimax_m2(reader: _Reader) -> ModelSpec:
    _gated(reader)
    if set(reader.config.get("attn_type_list") or [1]) != {1}:
        raise reader.refuse("attn_type_list with other than full attention")
    if reader.count("shared_intermediate_size"):
        raise reader.refuse("shared experts of minimax_m2")
    norm = reader.config.get("qk_norm_type", "per_layer") if reader.flag("use_qk_norm", default=True) else "none"
    attention = _gqa(reader, qk_norm=norm)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("intermediate_size"),
        router_bias=reader.flag("use_routing_bias", default=True),
    )
    rotated = reader.config.get("rotary_dim") or reader.config.get("partial_rotary_factor", 0.5) * attention.head_dim
    # The published weights hold no MTP module, whatever num_mtp_modules says.
    layers = [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=moe)]
    return _spec(reader, layers, rope_fraction=float(rotated) / attention.head_dim)


def _opt(reader: _Reader) -> ModelSpec:
    if reader.config.get("activation_function", "relu") not in {"relu", "gelu"}:
        raise reader.refuse(f"activation {reader.config['activation_function']!r}")
    if reader.config.get("word_embed_proj_dim", reader.config.get("hidden_size")) != reader.config.get("hidden_size"):
        raise reader.refuse("an embedding narrower than the hidden size (word_embed_proj_dim)")
    if not reader.flag("enable_bias", default=True) or not reader.flag("layer_norm_elementwise_affine", default=True):
        raise reader.refuse("OPT without biases (enable_bias, layer_norm_elementwise_affine)")
    attention = _gqa(reader, qkv_bias=True, output_bias=True)
    mlp = DenseMlp(intermediate_size=reader.size("ffn_dim"), gated=False, bias=True)
    return _spec(
        reader,
        [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=mlp)],
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        position="learned",
        learned_positions=reader.size("max_position_embeddings") + 2,  # OPT offsets positions by two rows
    )


def _bloom(reader: _Reader) -> ModelSpec:
    hidden = reader.size("hidden_size", "n_embed")
    heads = reader.size("n_head", "num_attention_heads")
    attention = GroupedQueryAttention(
        query_heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True, output_bias=True
    )
    mlp = DenseMlp(intermediate_size=4 * hidden, gated=False, bias=True)
    named = _Reader({**reader.config, "hidden_size": hidden}, reader.where)
    return _spec(
        named,
        [LayerGroup(count=reader.size("n_layer", "num_hidden_layers"), attention=attention, mlp=mlp)],
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        embedding_norm=True,
        position="alibi",
    )


_ARCHITECTURES: dict[str, Callable[[_Reader], ModelSpec]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v3": _deepseek_v3,
    "kimi_k2": _deepseek_v3,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "minimax_m2": _minimax_m2,
    "opt": _opt,
    "bloom": _bloom,
}
