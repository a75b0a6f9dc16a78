"""Formats of linear states and of an index' keys, stated behind that of the cache: bytes, keys, launches, refusals."""

from types import SimpleNamespace

import pytest

import sweepdb
from evaluator.inputs.cache_parts import kept_parts, stated_format, with_parts
from evaluator.inputs.formats import Precision
from evaluator.inputs.models import load_model
from evaluator.pricing.memory import transfer_bytes
from store.errors import InputError
from sweepdb.launching.reading.command_lines import read_words
from sweepdb.launching.server_command import kv_format, state_format

NANO, V32, V4, M3 = (
    load_model(name)[1]
    for name in (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "deepseek-ai/DeepSeek-V3.2",
        "deepseek-ai/DeepSeek-V4-Pro",
        "MiniMaxAI/MiniMax-M3",
    )
)


def test_states_of_half_the_bits_take_half_the_bytes():
    # 23 layers of 64 heads of 64 x 128 numbers; the tokens that wait for the next convolution stay in 16 bits.
    saved = transfer_bytes(NANO, 16, 1000.0) - transfer_bytes(with_parts(NANO, "DISABLED+states=BF16"), 16, 1000.0)
    assert saved == 23 * 64 * 64 * 128 * 2


@pytest.mark.parametrize(
    ("model", "said", "more"),
    [
        # Keys of 128 numbers: FP8 with a scale of four bytes, FP4 without one; DeepSeek-V4 has one for four tokens.
        (V32, "BF16", 61 * (256 - 132)),
        (V4, "FP8", 30 * (132 - 64) / 4),
        (M3, "FP8", 57 * (132 - 256)),
    ],
)
def test_keys_of_an_index_take_their_formats_bytes(model, said, more):
    stated = with_parts(model, f"FP8+index={said}")
    moved = transfer_bytes(stated, 8, 8192.0) - transfer_bytes(model, 8, 8192.0)
    assert moved == more * 8192
    assert kept_parts(stated) == f"+index={said}"


def test_what_is_usual_is_not_said_and_moves_no_key():
    assert with_parts(NANO, "FP8+states=FP32") == NANO
    assert with_parts(V32, "FP8+index=FP8") == V32
    assert with_parts(NANO, "FP8") is NANO


@pytest.mark.parametrize(
    ("model", "said", "error"),
    [
        (V32, "FP8+states=BF16", "no layer keeps a linear state"),
        (NANO, "FP8+index=FP8", "no layer has an indexer"),
        (NANO, "FP8+states=FP8", "unknown format of states 'FP8'"),
        (NANO, "FP8+latents=FP8", "unknown part of the cache 'latents'"),
    ],
)
def test_parts_that_are_not_there_are_refused(model, said, error):
    with pytest.raises(InputError, match=error):
        with_parts(model, said)


def test_stated_states_are_stored_with_their_rows_and_told_apart(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    asked = {"device": "h200_sxm", "num_devices": 1, "input_length": 1000, "output_length": 100, "mode": "decode",
             "batch_range": (64, 64), "serving_model": "waves", "store": url}  # fmt: skip
    name = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    sweepdb.evaluate(name, **asked)
    sweepdb.evaluate(name, **asked, kv_cache_quantization="NATIVE+states=BF16")
    assert sweepdb.evaluate(name, **asked, kv_cache_quantization="native+states=FP32").probes_stored == 0
    with sweepdb.open(url) as store:
        rows = store.sql("SELECT attention_quantization, kv_cache_bytes, tpot_exclusive_ms FROM probe"
                         " WHERE batch_size = 64 ORDER BY 1").rows  # fmt: skip
    (wide, wide_bytes, slow), (narrow, narrow_bytes, fast) = rows
    assert (wide, narrow) == ("DISABLED", "DISABLED+states=BF16")
    assert wide_bytes - narrow_bytes == 64 * 23 * 64 * 64 * 128 * 2
    assert fast < slow  # an update of a state is its bytes


def kept(attention):
    return SimpleNamespace(precision=Precision(attention=attention), engine="vllm")


def test_launched_servers_are_told_of_states_and_of_no_index():
    names = {"BF16": "bfloat16"}
    assert state_format(kept("FP8+states=BF16"), names) == "bfloat16"
    assert state_format(kept("FP8"), names) is None
    with pytest.raises(InputError, match="vllm has no flag for states in BF16"):
        state_format(kept("FP8+states=BF16"), {})
    with pytest.raises(InputError, match="no engine has a flag"):
        state_format(kept("FP8+index=FP8"), names)
    assert kv_format(kept("FP8+states=BF16"), {"FP8": "fp8"}) == "fp8"


@pytest.mark.parametrize(
    ("engine", "words", "attention", "not_mapped"),
    [
        ("vllm", "--kv-cache-dtype fp8 --mamba-ssm-cache-dtype float32", "FP8+states=FP32", []),
        ("vllm", "--mamba-ssm-cache-dtype auto", None, ["--mamba-ssm-cache-dtype"]),
        ("sglang", "--mamba-ssm-dtype bfloat16", "NATIVE+states=BF16", []),
        ("sglang", "--mamba-ssm-dtype float16", None, ["--mamba-ssm-dtype"]),
        ("sglang", "--kv-cache-dtype fp8_e5m2", "FP8", []),
    ],
)
def test_flags_of_servers_say_states(engine, words, attention, not_mapped):
    server = read_words(["a/model", *words.split()], engine, "here", {}.get)
    assert (server.attention, server.not_mapped) == (attention, not_mapped)


def test_a_stated_format_is_found_behind_the_caches():
    assert stated_format("FP8+states=BF16", "states") == "BF16"
