"""An architecture is added to a copy of the program: its reader, and a model of it in the catalogue.

The third file is a small config in tests/class_cases.py, by which the class of an architecture is its oracle; one that no
class holds has none. A part of layers that no architecture has yet is an operator (tests/evaluator/test_add_one_input.py)."""

from __future__ import annotations

import csv
import io
import json

import pytest
from added import changed_files, copied

READER = '''"""Models of Mine: Llama's shape with biases, whose parts of a layer read one norm."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec


def _mine(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.ignore("colour")
    attention = reader.grouped_queries(qkv_bias=reader.flag("biased"))
    mlp = reader.dense()
    layers = LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=mlp, parallel_mlp=True)
    return reader.model_spec([layers])


READERS = {"mine": _mine}
'''
MODEL = """somebody/Mine-2M:
  architecture: mine
  hidden_size: 256
  vocab_size: 1000
  layers:
  - {count: 2, mlp: {intermediate_size: 512}, parallel_mlp: true}
  max_positions: 2048
  attention: {query_heads: 4, kv_heads: 2, head_dim: 64, qkv_bias: true}
"""
CONFIG = {
    "model_type": "mine", "hidden_size": 256, "vocab_size": 1000, "num_hidden_layers": 2, "intermediate_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "biased": True, "colour": "green",
    "max_position_embeddings": 2048,
}  # fmt: skip
EDITS = {
    "evaluator/inputs/architectures/layered/mine.py": READER,
    "evaluator/inputs/catalogue/mine.yaml": MODEL,
}


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.survival
def test_an_architecture_is_two_files_and_a_case(tmp_path):
    copy = copied(tmp_path, EDITS)
    assert changed_files(tmp_path) == sorted(EDITS)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(json.dumps(CONFIG))
    asked = "--device h100_sxm --num-devices 1 --input-length 100 --output-length 10 --batch-range 8"
    known, own, _, _, best = copy.sweepdb(
        "models somebody/Mine-2M --format csv", "models ./own --format csv", f"evaluate somebody/Mine-2M {asked}",
        f"evaluate ./own {asked}", "query best --format csv",
    )  # fmt: skip
    # Embedding and head 2 x 256,000; of 2 layers 3 x 65,536 + 512 of attention, 393,216 of the MLP and one norm of 256; a norm.
    assert [rows(text)[0]["parameters"] for text in (known, own)] == ["1693440", "1693440"]
    assert len(rows(best)) == 1  # both are one model, known by its hyper-parameters
