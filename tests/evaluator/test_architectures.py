"""Readers of architectures: every key is read, harmless or refused; a new architecture is one module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from evaluator.inputs.architectures import architectures, spec_from_config
from store.errors import InputError

ROOT = Path(__file__).parents[2]
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
}  # fmt: skip
MINE = '''"""Mine: Llama with half as many keys."""

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec


def _mine(reader: ConfigReader) -> ModelSpec:
    mlp = DenseMlp(intermediate_size=3 * reader.size("hidden_size"))
    return model_spec(reader, [LayerGroup(count=reader.size("depth"), attention=grouped_queries(reader), mlp=mlp)])


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
