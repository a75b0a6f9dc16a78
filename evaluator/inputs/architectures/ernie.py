"""ERNIE-4.5: grouped queries; some layers with routed and shared experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec, require_gated
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp


def _attention(reader: ConfigReader) -> GroupedQueryAttention:
    require_gated(reader)
    if reader.flag("use_bias"):
        raise reader.refuse(f"{reader.word('model_type', '')} with biases (use_bias)")
    if not reader.flag("use_rmsnorm", default=True):
        raise reader.refuse("norms other than RMS (use_rmsnorm)")
    return grouped_queries(reader)


def _ernie(reader: ConfigReader) -> ModelSpec:
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    layers = [LayerGroup(count=reader.size("num_hidden_layers"), attention=_attention(reader), mlp=mlp)]
    return model_spec(reader, layers, **_tied(reader))


def _ernie_moe(reader: ConfigReader) -> ModelSpec:
    attention, total = _attention(reader), reader.size("num_hidden_layers")
    # How full experts may get when training, and the least sum of weights that is divided by.
    reader.ignore("moe_capacity", "moe_use_aux_free", "moe_norm_min", "moe_gate")
    first, last = reader.count("moe_layer_start_index"), reader.value("moe_layer_end_index")
    last = total - 1 if last in {None, -1} else reader.count("moe_layer_end_index")
    step = reader.size("moe_layer_interval", default=1)
    sparse = sum(1 for layer in range(total) if first <= layer <= last and (layer + 1) % step == 0)
    inner = reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("moe_num_experts"),
        experts_per_token=reader.size("moe_k"),
        intermediate_size=inner,
        shared_intermediate_size=inner * reader.count("moe_num_shared_experts"),
        router_bias=True,
    )
    layers = [
        LayerGroup(
            count=total - sparse,
            attention=attention,
            mlp=DenseMlp(intermediate_size=reader.size("intermediate_size")),
        ),
        LayerGroup(count=sparse, attention=attention, mlp=moe),
    ]
    return model_spec(reader, layers, mtp_layers=reader.count("num_nextn_predict_layers"), **_tied(reader))


def _tied(reader: ConfigReader) -> dict[str, bool]:
    return {"tie_word_embeddings": reader.flag("tie_word_embeddings", default=True)}


READERS = {"ernie4_5": _ernie, "ernie4_5_moe": _ernie_moe}
