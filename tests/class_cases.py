"""Small configs of every architecture that is read and has a Hugging Face class: its model_type, and words for a variant."""

from __future__ import annotations

import functools

import pytest

TOKENS = 32
SMALL = {
    "vocab_size": 512, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_shared_experts": 2,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "num_key_value_heads": 4, "topk_method": "noaux_tc",
}  # fmt: skip
SPARSE = {**LATENT, "index_topk": 64, "index_n_heads": 4, "index_head_dim": 32}
HYBRID = {
    "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 32,
}  # fmt: skip
MAMBA = {
    "head_dim": 32, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 32, "chunk_size": 16,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 96,
}  # fmt: skip
GRANITE = {
    "mamba_n_heads": 8, "mamba_d_head": 32, "mamba_n_groups": 2, "mamba_d_state": 32, "mamba_chunk_size": 16,
    "shared_intermediate_size": 160, "num_local_experts": 0, "layer_types": ["mamba", "mamba", "attention", "mamba"],
}  # fmt: skip
FALCON = {
    "head_dim": 32, "mamba_d_ssm": 256, "mamba_n_heads": 8, "mamba_d_head": 32, "mamba_n_groups": 2, "mamba_d_state": 32,
    "mamba_chunk_size": 16,
}  # fmt: skip
GEMMA4 = {
    "head_dim": 32, "global_head_dim": 64, "num_global_key_value_heads": 1, "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0, "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2,
}  # fmt: skip
KIMI = {
    "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_key_value_heads": 4,
    "num_local_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 64, "num_shared_experts": 2,
    "linear_head_dim": 32, "linear_num_heads": 4,
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
}  # fmt: skip
LONGCAT = {
    "q_lora_rank": 48, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "head_dim": 8, "num_key_value_heads": 4, "num_hidden_layers": 4, "num_layers": 2, "intermediate_size": 160,
    "expert_ffn_hidden_size": 64, "n_routed_experts": 8, "zero_expert_num": 4, "moe_topk": 3,
}  # fmt: skip
CASES = {
    "cohere": {},
    "cohere with norms of heads": {"use_qk_norm": True},
    "cohere2": {"sliding_window": 64},
    "cohere2 in another order": {
        "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"],
    },
    "deepseek_v2": {**LATENT, "topk_method": "greedy"},
    "deepseek_v2 without compressed queries": {**LATENT, "topk_method": "greedy", "q_lora_rank": None},
    "deepseek_v3": LATENT,
    "deepseek_v32": SPARSE,
    "deepseek_v32 of chosen keys": {**SPARSE, "index_topk": TOKENS // 2},
    "glm_moe_dsa": SPARSE,
    "glm_moe_dsa with shared indexers": {**SPARSE, "indexer_types": ["full", "full", "shared", "full"]},
    "deepseek_v4": {
        "num_key_value_heads": 1, "head_dim": 32, "q_lora_rank": 48, "o_groups": 2, "o_lora_rank": 16,
        "intermediate_size": 64, "moe_intermediate_size": 64, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": 32, "index_topk": 64, "index_n_heads": 4, "index_head_dim": 16, "num_hash_layers": 1,
        "compress_ratios": [0, 4, 128, 4], "compress_rates": {"compressed_sparse_attention": 4,
        "heavily_compressed_attention": 8}, "partial_rotary_factor": 0.25, "num_nextn_predict_layers": 0,
    },
    "ernie4_5": {"head_dim": 32},
    "ernie4_5_moe": {
        "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 64, "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1, "moe_layer_end_index": 3,
    },
    "falcon_h1": FALCON,
    "falcon_h1 with a norm behind the gate": {**FALCON, "mamba_rms_norm": True},
    "granitemoehybrid": GRANITE,
    "granitemoehybrid with experts": {**GRANITE, "num_local_experts": 8, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 32},
    "hunyuan_v1_moe": {"head_dim": 32, "num_experts": 8, "moe_topk": 2},
    "kimi_linear": KIMI,
    "kimi_linear with compressed queries": {**KIMI, "q_lora_rank": 48},
    "llama": {},
    "llama4_text": {
        "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 1, "intermediate_size_mlp": 160,
        "interleave_moe_layer_step": 2, "attention_chunk_size": 64,
    },
    "bloom": {"n_layer": 4, "n_head": 4, "intermediate_size": None, "num_key_value_heads": None},
    "gemma3_text": {"head_dim": 32, "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "gemma4_text": GEMMA4,
    "gemma4_text with experts": {
        **GEMMA4, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 64,
    },
    "glm4_moe": {
        "head_dim": 32, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "use_qk_norm": True,
    },
    "glm4_moe_lite": {**{name: size for name, size in LATENT.items() if name != "first_k_dense_replace"}, "n_shared_experts": 1},
    "gpt_oss": {
        "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "minimax_m2": {"head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "rotary_dim": 16},
    "minimax_m3_vl_text": {
        "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "rotary_dim": 16, "dense_intermediate_size": 160,
        "shared_intermediate_size": 96, "index_n_heads": 2, "index_head_dim": 16, "index_block_size": 8,
        "index_topk_blocks": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse"],
    },
    "longcat_flash": LONGCAT,
    "mimo_v2_flash": {
        "head_dim": 48, "v_head_dim": 32, "num_key_value_heads": 1, "sliding_window": 64, "n_routed_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 64, "n_group": 1, "topk_group": 1,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
    },
    "mistral": {"head_dim": 32, "sliding_window": None},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "nemotron_h": {**MAMBA, "layers_block_type": ["mamba", "moe", "attention", "mlp"]},
    "nemotron_h with experts in fewer dimensions": {
        **MAMBA, "layers_block_type": ["mamba", "moe", "attention", "moe"], "moe_latent_size": 48
    },
    "opt": {"ffn_dim": 192, "word_embed_proj_dim": 128, "intermediate_size": None, "num_key_value_heads": None},
    "phi3": {},
    "qwen2": {},
    "qwen2_moe": {
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 96,
    },
    "qwen3": {"head_dim": 32},
    "qwen3_moe": {"head_dim": 32, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    "qwen3_5_moe_text": {**HYBRID, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                         "shared_expert_intermediate_size": 96},
    "qwen3_5_text": HYBRID,
    "qwen3_next": {**HYBRID, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                   "shared_expert_intermediate_size": 96, "decoder_sparse_step": 2},
    "smollm3": {},
}  # fmt: skip


@functools.cache
def of_the_class(case, device="meta"):
    """(the class's config, its model on the meta device or another) of a small config."""
    transformers = pytest.importorskip("transformers", minversion="5.0")
    torch = pytest.importorskip("torch")
    parsed = transformers.AutoConfig.for_model(case.partition(" ")[0], **{**SMALL, **CASES[case]})
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(
            parsed, attn_implementation="eager", dtype=torch.bfloat16, experts_implementation="batched_mm"
        )
    return parsed, model.eval()
