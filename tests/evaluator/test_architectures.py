"""Readers of architectures: every key is read, harmless or refused; a new architecture is one module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from evaluator.inputs.architectures import architectures, spec_from_config
from evaluator.inputs.parameters import parameter_count
from evaluator.pricing.kv_state import layer_bytes
from store.errors import InputError

ROOT = Path(__file__).parents[2]
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
}  # fmt: skip
MINE = '''"""Mine: Llama with half as many keys."""

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec


def _mine(reader: ConfigReader) -> ModelSpec:
    mlp = DenseMlp(intermediate_size=3 * reader.size("hidden_size"))
    return reader.model_spec([LayerGroup(count=reader.size("depth"), attention=reader.grouped_queries(), mlp=mlp)])


READERS = {"mine": _mine}
'''
READ = """
from evaluator.inputs.architectures import spec_from_config
spec = spec_from_config({"model_type": "mine", "hidden_size": 64, "vocab_size": 100, "depth": 3,
                         "num_attention_heads": 4}, "config.json")
print(spec.architecture, spec.layers[0].count, spec.layers[0].mlp.intermediate_size)
"""


@pytest.mark.parametrize("key", ["num_experts", "layer_types", "index_n_heads", "a_key_of_tomorrow"])
def test_a_key_that_nobody_reads_is_named_and_refused(key):
    assert spec_from_config(LLAMA, "config.json").hidden_size == 64
    with pytest.raises(InputError, match=rf"config.json: {key}: not read by the evaluator for model_type 'llama'"):
        spec_from_config({**LLAMA, key: [8]}, "config.json")
    assert spec_from_config({**LLAMA, key: None}, "config.json") == spec_from_config(LLAMA, "config.json")


def test_what_changes_no_shape_is_no_reason_to_refuse():
    said = {"prefix": "</s>", "activation_dropout": 0.1, "temperature": 0.6, "rms_norm_eps": 1e-6, "bos_token_id": 1}
    assert spec_from_config({**LLAMA, **said}, "config.json") == spec_from_config(LLAMA, "config.json")


def test_a_size_under_its_older_name_is_read():
    bloom = {"model_type": "bloom", "n_embed": 64, "vocab_size": 100, "n_layer": 2, "n_head": 4, "seq_length": 2048}
    assert spec_from_config(bloom, "config.json").hidden_size == 64


def test_layers_of_another_kind_than_the_window_says_are_refused():
    qwen = {**LLAMA, "model_type": "qwen3", "layer_types": ["full_attention"] * 2}
    assert len(spec_from_config(qwen, "config.json").layers) == 1
    with pytest.raises(InputError, match="layer_types other than its window says"):
        spec_from_config({**qwen, "layer_types": ["full_attention", "linear_attention"]}, "config.json")


def test_a_new_architecture_is_one_module(tmp_path):
    for package in ("evaluator", "store"):
        copytree(ROOT / package, tmp_path / package)
    (tmp_path / "evaluator/inputs/architectures/mine.py").write_text(MINE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.stdout.split() == ["mine", "3", "192"], done.stderr
    assert "mine" not in architectures()


def nas(*blocks):
    """A Llama-Nemotron whose layers are these pairs of (heads in a group, width), None where a part was taken out."""
    said = [
        {
            "attention": {"no_op": heads is None, "n_heads_in_group": heads},
            "ffn": {"no_op": wider is None, "ffn_mult": wider},
        }
        for heads, wider in blocks
    ]
    bare = {key: value for key, value in LLAMA.items() if key not in {"num_key_value_heads", "intermediate_size"}}
    return {
        **bare,
        "model_type": "nemotron-nas",
        "hidden_size": 768,
        "num_hidden_layers": len(blocks),
        "block_configs": said,
    }


def test_layers_of_a_search_are_groups_of_like_ones():
    spec = spec_from_config(nas((2, 1.5), (None, 1.5), (2, 1.5), (4, 0.25), (None, None), (2, None)), "config.json")
    parts = [
        (one.count, one.attention and one.attention.kv_heads, one.mlp and one.mlp.intermediate_size)
        for one in spec.layers
    ]
    # 2 x 1.5 x 768 / 3 = 768; 2 x 0.25 x 768 / 3 = 128, in whole multiples of 256
    assert parts == [(1, None, 768), (2, 2, 768), (1, 1, 256), (1, None, None), (1, 2, None)]
    norms = 768 * (2 * 3 + 1 + 1) + 768
    attention = 768 * (768 + 2 * 384) + 768 * 768, 768 * (768 + 2 * 192) + 768 * 768
    assert parameter_count(spec).total == 2 * 100 * 768 + norms + 3 * attention[0] + attention[1] + 3 * 768 * (
        3 * 768 + 256
    )


def test_a_block_that_is_not_known_is_refused():
    config = nas((2, 1.5), (2, 1.5))
    config["block_configs"][1]["attention"]["window_length"] = 512
    with pytest.raises(InputError, match="'window_length' of block_configs"):
        spec_from_config(config, "config.json")


def test_windows_may_have_other_heads_and_values_other_sizes_than_keys():
    # 9 full layers of 4 heads and 39 of 8, keys of 192 and values of 128: 23,040 bytes a token and 25.6 MB of windows
    pattern = [0, 1, 1, 1, 1, *[0, 1, 1, 1, 1, 1] * 7, 0]
    mimo = {
        **{key: value for key, value in LLAMA.items() if key != "num_key_value_heads"},
        "model_type": "mimo_v2_flash", "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 4,
        "swa_num_key_value_heads": 8, "head_dim": 192, "v_head_dim": 128, "sliding_window": 128,
        "hybrid_layer_pattern": pattern, "moe_layer_freq": [0] + [1] * 47, "n_routed_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    }  # fmt: skip
    spec = spec_from_config(mimo, "config.json")
    kept = sum(group.count * layer_bytes(group, 16, 1, 8192.0) for group in spec.layers)
    assert kept == 8192 * 9 * 4 * 320 * 2 + 39 * 128 * 8 * 320 * 2
    assert {group.attention.sinks for group in spec.layers if group.window} == {True}
