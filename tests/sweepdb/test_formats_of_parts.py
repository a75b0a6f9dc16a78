"""Formats of what mixes tokens, the head and drafts: from options and published files to weights, columns and titles."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb as command

import sweepdb
from store.errors import InputError

HIDDEN, WIDE, LAYERS, WORDS = 1024, 4096, 4, 32_000
CONFIG = {
    "model_type": "llama", "hidden_size": HIDDEN, "vocab_size": WORDS, "num_hidden_layers": LAYERS,
    "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": WIDE, "tie_word_embeddings": False,
}  # fmt: skip
MIXERS, MLPS, HEAD = LAYERS * 4 * HIDDEN * HIDDEN, LAYERS * 3 * HIDDEN * WIDE, HIDDEN * WORDS
ASKED = {"device": "TEST_DEVICE", "num_devices": 1, "input_length": 64, "output_length": 8, "mode": "decode",
         "batch_range": (1, 1), "serving_model": "waves"}  # fmt: skip
SHOWN = "linear_quantization, mixers_quantization, head_quantization, drafts_quantization, weight_bytes"


def model(folder, quantisation=None):
    folder.mkdir()
    section = {} if quantisation is None else {"quantization_config": quantisation}
    (folder / "config.json").write_text(json.dumps({**CONFIG, **section}), encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Rows by (linears, mixers, head), and the store."""
    folder = tmp_path_factory.mktemp("formats")
    url = f"sqlite:///{folder}/store.sqlite"
    plain = model(folder / "plain")
    sweepdb.evaluate(plain, **ASKED, store=url)
    sweepdb.evaluate(plain, **ASKED, quantization="FP8", store=url)
    sweepdb.evaluate(plain, **ASKED, mixers_quantization="FP8", store=url)
    sweepdb.evaluate(plain, **ASKED, head_quantization="FP8", store=url)
    sweepdb.evaluate(plain, **ASKED, drafts_quantization="FP8", store=url)
    spared = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    sweepdb.evaluate(model(folder / "spared", spared), **ASKED, store=url)
    with sweepdb.open(url) as store:
        rows = store.sql(f"SELECT {SHOWN} FROM probe").rows
    return {row[:4]: row[4] for row in rows}, url, plain


def test_each_part_holds_its_weights_in_its_own_format(stored):
    rows, _, _ = stored
    whole = rows["BF16", None, None, None]
    assert whole - rows["FP8", None, None, None] == MIXERS + MLPS
    assert whole - rows["BF16", "FP8", None, None] == MIXERS
    assert whole - rows["BF16", None, "FP8", None] == HEAD
    assert rows["BF16", None, None, "FP8"] == whole  # it has no layer that drafts
    assert whole - rows["FP8", "BF16", None, None] == MLPS  # as the file says


def test_titles_and_comparisons_name_the_part(stored):
    _, url, _ = stored
    answer = command("query decode --all --top 9", url)
    assert "FP8, mixers BF16" in answer.out + answer.err
    assert "BF16, head FP8" in answer.out + answer.err
    with sweepdb.open(url) as store:
        found = store.sql("SELECT probe FROM probe WHERE mixers_quantization = 'FP8' OR (linear_quantization = 'BF16'"
                          " AND coalesce(mixers_quantization, head_quantization, drafts_quantization) IS NULL)")  # fmt: skip
    first, second = (row[0] for row in found.rows)
    compared = command(f"query why {first} {second} --format json", url)
    assert "mixers_quantization" in {row["name"] for row in json.loads(compared.out)}


def test_a_format_that_is_the_usual_one_is_not_another_row(stored):
    _, url, plain = stored
    again = sweepdb.evaluate(plain, **ASKED, mixers_quantization="BF16", head_quantization="bf16", store=url)
    assert (again.probes_stored, again.probes_known) == (0, 1)
    assert sweepdb.evaluate(plain, **ASKED, mixers_quantization="NATIVE", store=url).probes_stored == 0


def test_what_is_no_format_or_not_upstreams_is_refused(stored):
    _, url, plain = stored
    with pytest.raises(InputError, match="unknown linear quantization 'FP9'"):
        sweepdb.evaluate(plain, **ASKED, head_quantization="FP9", store=url)
    with pytest.raises(InputError, match="one format of all linears"):
        sweepdb.evaluate(plain, **ASKED, convention="upstream", mixers_quantization="FP8", store=url)
