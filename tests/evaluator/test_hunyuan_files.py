"""Files of Hunyuan as they are published: a number a layer, and leftovers of pooling and of images."""

from __future__ import annotations

import pytest

from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from store.errors import InputError

LEFT_OVER = {
    "add_classification_head": False, "anyres_pooling_size": 2, "attention_head_dim": 128, "cla_share_factor": 2,
    "class_num": 0, "dense_list": [4096, 0], "im_end_id": 6, "im_newline_id": 12, "im_start_id": 5, "mask_init_id": 13,
    "norm_type": "rms", "num_media_embeds": 257, "org_vocab_size": 128167, "pad_id": 127961, "pool_type": "last",
    "sep_token_id": 127962, "text_end_id": 8, "text_start_id": 7, "use_cla": False, "use_mla": False,
    "use_qk_norm": True, "use_rotary_pos_emb": True, "position_embedding_xdrope": False, "eod_token_id": 127967,
}  # fmt: skip
SHARED = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 128167, "tie_word_embeddings": True, "max_position_embeddings": 32768, **LEFT_OVER,
}  # fmt: skip
EXPERTS = {
    **SHARED, "model_type": "hunyuan_v1_moe", "intermediate_size": 3072, "moe_intermediate_size": [3072] * 32,
    "moe_topk": [8] * 32, "num_experts": 64, "num_shared_expert": [1] * 32, "use_mixed_mlp_moe": True,
    "moe_layer_num_skipped": 0,
}  # fmt: skip
DENSE = {**SHARED, "model_type": "hunyuan_v1_dense", "intermediate_size": 14336}


def test_they_are_read():
    assert spec_from_config(EXPERTS, "config.json") == load_model("tencent/Hunyuan-A13B-Instruct")[1]
    assert parameter_count(spec_from_config(DENSE, "config.json")).total == 7_504_568_320


@pytest.mark.parametrize(
    "key, value",
    [
        ("norm_type", "layer"),
        ("use_rotary_pos_emb", False),
        ("attention_head_dim", 64),
        ("use_mixed_mlp_moe", False),
        ("use_mla", True),
        ("moe_topk", [8] * 31 + [4]),
    ],
)
def test_what_would_change_an_operator_is_refused(key, value):
    with pytest.raises(InputError, match=key):
        spec_from_config({**EXPERTS, key: value}, "config.json")
