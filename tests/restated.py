"""Facts about models and another program's figures, read from the tables in tests/data (restate.py lays them down)."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

DATA = Path(__file__).parent / "data"

# Our name of a hyper-parameter -> the key that publishers write it under.
MODEL_COLUMNS = {
    "architecture": "model_type",
    "hidden": "hidden_size",
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_size": "head_dim",
    "inner": "intermediate_size",
    "positions": "max_position_embeddings",
    "window": "sliding_window",
    "attention_bias": "attention_bias",
    "tied": "tie_word_embeddings",
    "experts_per_token": "num_experts_per_tok",
    "expert_inner": "moe_intermediate_size",
    "shared_experts": "n_shared_experts",
    "dense_layers_first": "first_k_dense_replace",
    "draft_layers": "num_nextn_predict_layers",
    "routing": "topk_method",
    "query_rank": "q_lora_rank",
    "kv_rank": "kv_lora_rank",
    "head_size_without_position": "qk_nope_head_dim",
    "head_size_with_position": "qk_rope_head_dim",
    "value_head_size": "v_head_dim",
    "rotated": "rotary_dim",
    "indexed_tokens": "index_topk",
    "index_heads": "index_n_heads",
    "index_head_size": "index_head_dim",
    "linear_key_heads": "linear_num_key_heads",
    "linear_value_heads": "linear_num_value_heads",
    "linear_key_size": "linear_key_head_dim",
    "linear_value_size": "linear_value_head_dim",
    "convolution": "linear_conv_kernel_dim",
    "full_layer_every": "full_attention_interval",
    "shared_expert_inner": "shared_expert_intermediate_size",
    "draft_modules": "mtp_num_hidden_layers",
    "output_groups": "o_groups",
    "output_rank": "o_lora_rank",
    "streams": "hc_mult",
    "stream_rounds": "hc_sinkhorn_iters",
    "hashed_layers": "num_hash_layers",
    "format_of_experts": "expert_dtype",
}
EXPERTS = {
    "qwen3_moe": "num_experts",
    "qwen3_vl_moe": "num_experts",
    "kimi_k25": "n_routed_experts",
    "deepseek_v3": "n_routed_experts",
    "deepseek_v32": "n_routed_experts",
    "deepseek_v4": "n_routed_experts",
    "glm_moe_dsa": "n_routed_experts",
    "qwen3_5_moe": "num_experts",
    "kimi_k2": "n_routed_experts",
    "mixtral": "num_local_experts",
    "gpt_oss": "num_local_experts",
    "minimax_m2": "num_local_experts",
}
LANGUAGE_PARTS = {"kimi_k25": "kimi_k2"}  # where its name is not that of the whole with _text
WEIGHTS = {
    "fp8 in blocks of 128": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "fp8": {"quant_method": "fp8"},
    "mxfp4 experts": {"quant_method": "mxfp4"},
    "int4 experts in groups of 32": {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"input_activations": None, "weights": {"group_size": 32, "num_bits": 4, "type": "int"}}
        },
        "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    },
}
_WORDS = {"architecture", "routing", "format_of_experts"}
_FLAGS = {"attention_bias", "tied"}


@functools.cache
def rows(table: str) -> tuple[dict[str, str], ...]:
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def model_names() -> list[str]:
    return [row["model"] for row in rows("models")]


def config_of(name: str) -> dict[str, object]:
    """A model's hyper-parameters in the form of its publisher's config.json."""
    row = next(row for row in rows("models") if row["model"] == name)
    config = {key: _value(column, row[column]) for column, key in MODEL_COLUMNS.items() if row[column]}
    if row["experts"]:
        config[EXPERTS[row["architecture"]]] = int(row["experts"])
    if row["layers_in_window"]:
        config["layer_types"] = ["sliding_attention", "full_attention"] * int(row["layers_in_window"])
    if row["tokens_an_entry"]:
        config["compress_ratios"] = [int(tokens) for tokens in row["tokens_an_entry"].split()]
    if row["weights"]:
        config["quantization_config"] = dict(WEIGHTS[row["weights"]])
    if row["vision_layers"]:
        text = {**config, "model_type": LANGUAGE_PARTS.get(row["architecture"], f"{row['architecture']}_text")}
        return {
            "model_type": row["architecture"],
            "text_config": text,
            "vision_config": {"depth": int(row["vision_layers"])},
        }
    return config


def _value(column: str, cell: str) -> object:
    if column in _WORDS:
        return cell
    return cell == "1" if column in _FLAGS else int(cell)


def length_file(folder: Path) -> Path:
    """The example distribution of prompt lengths as a file that `--input-length` takes."""
    path = folder / "lengths.yaml"
    bins = (
        f"  - {{min_tokens: {row['above_tokens']}, max_tokens: {row['up_to_tokens']}, weight: {row['share']}}}\n"
        for row in rows("lengths")
    )
    path.write_text("bins:\n" + "".join(bins), encoding="utf-8")
    return path
