"""BLOOM: layer norms, ALiBi, a norm after the embedding."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, model_spec
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec


def _bloom(reader: ConfigReader) -> ModelSpec:
    hidden = reader.size("hidden_size", "n_embed")
    heads = reader.size("n_head", "num_attention_heads")
    attention = GroupedQueryAttention(
        query_heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True, output_bias=True
    )
    mlp = DenseMlp(intermediate_size=4 * hidden, gated=False, bias=True)
    # Where a residual is taken from; whether softmax is written out; masks of padding: no operator.
    reader.ignore(
        "apply_residual_connection_post_layernorm", "masked_softmax_fusion", "attention_softmax_in_fp32",
        "offset_alibi", "slow_but_exact", "skip_bias_add", "skip_bias_add_qkv", "bias_dropout_fusion",
        "seq_length",
    )  # fmt: skip
    return model_spec(
        reader,
        [LayerGroup(count=reader.size("n_layer", "num_hidden_layers"), attention=attention, mlp=mlp)],
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        embedding_norm=True,
        position="alibi",
    )


READERS = {"bloom": _bloom}
