"""OPT: layer norms, learned positions, biases everywhere."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec


def _opt(reader: ConfigReader) -> ModelSpec:
    if reader.word("activation_function", "relu") not in {"relu", "gelu"}:
        raise reader.refuse(f"activation {reader.word('activation_function', '')[:80]!r}")
    if reader.value("word_embed_proj_dim", reader.value("hidden_size")) != reader.value("hidden_size"):
        raise reader.refuse("an embedding narrower than the hidden size (word_embed_proj_dim)")
    if not reader.flag("enable_bias", default=True) or not reader.flag("layer_norm_elementwise_affine", default=True):
        raise reader.refuse("OPT without biases (enable_bias, layer_norm_elementwise_affine)")
    attention = grouped_queries(reader, qkv_bias=True, output_bias=True)
    reader.ignore("do_layer_norm_before")  # where a norm stands, not whether
    mlp = DenseMlp(intermediate_size=reader.size("ffn_dim"), gated=False, bias=True)
    return model_spec(
        reader,
        [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=mlp)],
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        position="learned",
        learned_positions=reader.size("max_position_embeddings") + 2,  # OPT offsets positions by two rows
    )


READERS = {"opt": _opt}
