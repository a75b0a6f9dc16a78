"""Forty wrong inputs of new users: each is answered before anything is evaluated, by what an expert beside them would say.

Expected are the words that an answer cannot do without: the name that is meant, the limit that is passed, the value to type."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from conftest_cli import sweepdb

import sweepdb as application
from cli.field_words import WORDS
from cli.main import _program
from cli.output import sentence

LENGTHS = "--input-length 2000 --output-length 300"
EVALUATE = f"evaluate Qwen/Qwen3-32B --dry-run --device h100 --num-devices 4 {LENGTHS}"
PLAN = f"plan Qwen/Qwen3-32B --device h100 --total-devices 8 {LENGTHS}"
NAMED = f"--dry-run --device h100 --num-devices 4 {LENGTHS}"

REFUSED = {
    # parts of a model's name that leave open which is meant, or that none has
    f"evaluate llama-70b {NAMED}": ["Nearest known: meta-llama/Llama-3.1-70B"],
    f"evaluate Qwen3-32b-instruct {NAMED}": ["Nearest known: Qwen/Qwen3-32B,"],
    # devices
    f"evaluate Qwen/Qwen3-32B --dry-run --device h10 {LENGTHS}": ["Nearest known: h100_sxm"],
    f"evaluate Qwen/Qwen3-32B --dry-run --device H1000 {LENGTHS}": ["Nearest known: h100_sxm"],
    # limits
    f"{PLAN} --tpot-limit fifty": ["--tpot-limit must be a number of ms", "50ms or 0.05s"],
    f"{PLAN} --tpot-limit -50": ["--tpot-limit must be a number above 0, not -50."],
    f"{PLAN} --tpot-limit 10,20": ["It takes one value", "sweepdb query sensitivity --vary tpot"],
    f"{PLAN} --tpot-limit 50 --tpot-limits 40": ["--tpot-limit 50 and --tpot-limits 40 contradict each other."],
    f"{PLAN} --kv-transfer-gb-per-s fast": ["--kv-transfer-gb-per-s must be a number of GB/s", "Such as 50, which is in GB/s"],
    f"{PLAN} --rate 5rps": ["--rate must be a number of requests/s", "Such as 50"],
    # what ranks: other words for it, and money without a price
    f"{PLAN} --rank-by qps": ["--rank-by qps is not one of cost, rate, devices, latency: did you mean rate?"],
    f"{PLAN} --rank-by Cost": ["did you mean cost?"],
    f"{PLAN} --rank-by cost": [
        "--rank-by cost needs a price, and none of h100_sxm is stored", "sweepdb prices set h100_sxm USD",
    ],
    f"plan Qwen/Qwen3-32B --device h100 --total-devices 2000000 {LENGTHS}": ["--total-devices must be at most 1,000,000"],
    f"{PLAN} --engine tgi": ["--engine tgi is not one of", "vllm: vLLM from"],
    # lengths
    "evaluate Qwen/Qwen3-32B --dry-run --device h100 --input-length 4k --output-length 300": ["4000 or 4096"],
    "evaluate Qwen/Qwen3-32B --dry-run --device h100 --input-length 100000 --output-length 300": [
        "has 40,960 positions, and 100,300 tokens", "Ask for shorter lengths",
    ],
    "plan Qwen/Qwen3-32B --device h100 --total-devices 8 --input-length 40900 --output-length 61": ["40,961 tokens"],
    "evaluate Qwen/Qwen3-32B --dry-run --device h100 --input-length 2000 --output-length -300": ["--output-length"],
    # options of other programs
    "plan Qwen/Qwen3-32B --gpus 8": ["Type --total-devices"],
    "plan Qwen/Qwen3-32B --isl 2000": ["Type --input-length"],
    "plan Qwen/Qwen3-32B --osl 300": ["Type --output-length"],
    "plan Qwen/Qwen3-32B --tpot 50": ["Type --tpot-limit"],
    "plan Qwen/Qwen3-32B --num-devices 4": ["Type --total-devices"],
    "plan --model Qwen/Qwen3-32B": ["sweepdb plan MODEL"],
    "evaluate Qwen/Qwen3-32B --tp 4": ["Type --tp-sizes"],
    "evaluate Qwen/Qwen3-32B --tensor-parallel-size 4": ["Type --tp-sizes"],
    "evaluate Qwen/Qwen3-32B --quant fp8": ["Type --quantization"],
    "evaluate Qwen/Qwen3-32B --max-running-requests 100": ["Type --max-num-seqs"],
    "query best --users 100": ["Type --concurrency"],
    "query best --tpt 100": ["--tpot-limit"],
    "query best --tpot-limit-ms 100": ["Do you mean --tpot-limit"],
    # two that exclude each other
    f"{PLAN} --rate 5 --concurrency 10": ["--rate and --concurrency are two questions."],
    f"{EVALUATE} --total-devices 8": ["not both"],
    f"{EVALUATE} --compile --eager": ["--compile and --eager contradict each other."],
    f"{EVALUATE} --search tp --dp-sizes 2": ["--search tp takes tensor parallel plans alone", "--search every"],
    # engines and formats
    f"{EVALUATE} --engine tgi": ["is not one of", "vllm: vLLM from 0.14.", "waves: formulas, no engine."],
    f"{EVALUATE} --quantization fp7": ["Nearest known: FP8"],
    f"evaluate Qwen/Qwen3-32B --dry-run --device a100 --engine trtllm {LENGTHS} --quantization FP8": [
        "a100_sxm has no FP8 arithmetic", "W8A16",
    ],
    f"evaluate Qwen/Qwen3-32B --dry-run --device gaudi3 --engine vllm {LENGTHS} --quantization w8a8": [
        "gaudi3 has no INT8 arithmetic",
    ],
    # shares
    f"{EVALUATE} --prefix-cache-hit-rate 90": ["must lie in [0, 1), not 90.", "Did you mean 0.9?"],
    f"{PLAN} --tpot-limit 50 --confidence 80": ["did you mean 0.8?"],
    "query best --attainment 95": ["did you mean 0.95?"],
    # numbers
    f"{PLAN} --reserved-memory-gb 100": ["h100_sxm has 80 GiB."],
    f"plan Qwen/Qwen3-32B --device h100 --total-devices 0 {LENGTHS}": ["--total-devices"],
    f"plan Qwen/Qwen3-32B --device h100 --total-devices eight {LENGTHS}": ["must be a whole number of devices, not 'eight'."],
    f"{EVALUATE} --max-num-batched-tokens 0": ["--max-num-batched-tokens must lie between 1"],
    # measurements
    "measurements import x.json --set device=h100_xsm": ["unknown device 'h100_xsm'", "h100_sxm"],
    # commands and reports
    "query beest": ["Nearest: best"],
    "evalute": ["evaluate"],
}  # fmt: skip


@pytest.mark.parametrize("typed", REFUSED)
def test_a_wrong_input_is_answered_as_an_expert_would_before_anything_is_stored(typed, tmp_path):
    store = tmp_path / "store.sqlite"
    outcome = sweepdb(shlex.split(typed), f"sqlite:///{store}")
    assert outcome.code in {2, 3}, outcome
    assert outcome.out == ""
    for words in REFUSED[typed]:
        assert words in outcome.err
    assert "Input should be" not in outcome.err
    assert "unable to parse" not in outcome.err
    assert not store.exists()


def test_a_dry_run_says_why_nothing_is_legal():
    asked = f"evaluate Qwen/Qwen3-32B --dry-run --device h100 --num-devices 3 --tp-sizes 2 {LENGTHS}"
    told = sweepdb(asked).err
    assert "3 scenarios (3 illegal), 0 probes" in told
    assert "illegal: tp 2 x pp 1 x dp 1 is 2, not 3 devices" in told
    assert "No plan is legal: widen the sizes, or change --num-devices." in told


def test_a_reserve_as_large_as_the_device_is_answered_by_one_sentence(example_store):
    told = sweepdb("query best --reserved-memory-gb 400", example_store)  # more than any device has
    assert told.code == 0
    assert "Nothing fits beside a reserve of 400 GiB: " in " ".join(told.out.split())
    assert "binding_limit" not in told.out


READ = {  # what is meant although it is written otherwise
    f"{EVALUATE} --engine vLLM": "vllm launches",
    f"{EVALUATE} --engine TensorRT-LLM": "trtllm launches",
    f"{EVALUATE} --quantization awq": "scenarios",
    f"{EVALUATE} --quantization int4": "scenarios",
    f"{EVALUATE} --quantization fp8": "scenarios",
    f"{EVALUATE} --prefix-cache-hit-rate 90%": "scenarios",
    # vLLM and SGLang run FP8 weights on Ampere by Marlin kernels: allowed, and said
    f"evaluate Qwen/Qwen3-32B --dry-run --device a100 {LENGTHS} --quantization FP8": (
        "a100_sxm has no FP8 arithmetic: vLLM and SGLang keep FP8 weights there and multiply in 16 bits"
    ),
    # AMD's devices have no Marlin kernels, so nothing promises that an engine starts.
    f"evaluate Qwen/Qwen3-32B --dry-run --device mi300x {LENGTHS} --quantization NVFP4": (
        "mi300x has no FP4 arithmetic: times are of NVFP4 weights that are multiplied in 16 bits, and kernels for that"
        " (Marlin) run on NVIDIA alone"
    ),
}


@pytest.mark.parametrize("typed", READ)
def test_other_spellings_are_read(typed):
    outcome = sweepdb(typed)
    assert (outcome.code, outcome.out) == (0, "")
    assert READ[typed] in " ".join(outcome.err.split())


@pytest.mark.parametrize(("typed", "limit"), [("20ms", 20.0), ("0.02s", 20.0), ("20", 20.0), ("20000us", 20.0)])
def test_a_limit_has_its_unit_behind_it(typed, limit, example_store):
    asked = sweepdb(f"query best --tpot-limit {typed} --format json", example_store)
    assert json.loads(asked.out) == json.loads(
        sweepdb(f"query best --tpot-limit {limit} --format json", example_store).out
    )
    assert asked.code == 0


def test_a_limit_that_no_device_keeps_may_be_meant_in_seconds(example_store):
    told = sweepdb("query best --tpot-limit 0.05", example_store).out
    assert "limits are in ms: for 0.05 s, type --tpot-limit 50, or 0.05s" in " ".join(told.split())
    assert "limits are in ms" not in sweepdb("query best --tpot-limit 1.5", example_store).out


def test_a_file_of_no_client_stores_nothing_and_says_so(tmp_path):
    file = tmp_path / "server.sh"
    file.write_text("vllm serve Qwen/Qwen3-32B -tp 4\n", encoding="utf-8")
    outcome = sweepdb(f"measurements import {file}", f"sqlite:///{tmp_path}/s.sqlite")
    assert outcome.code == 2
    assert "server.sh is a launch script, not a result." in outcome.err


def test_awq_is_the_format_that_engines_run_it_as():
    with pytest.raises(application.SweepdbError, match="W4A16"):
        application.evaluate("Qwen/Qwen3-0.6B", device="gaudi3", serving_model="vllm", input_length=100,
                             output_length=10, quantization="INT8")  # fmt: skip


def test_every_word_of_the_table_means_an_option_of_a_command():
    """A renamed option leaves no word behind that leads nowhere."""
    known = {
        name.lstrip("-")
        for command in _program().commands.values()
        for each in command.params
        for name in (*each.opts, *each.secondary_opts)
    }
    assert {word: meant for word, meant in WORDS.items() if not known & set(meant)} == {}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("unknown model 'x'", "Unknown model 'x'."),
        ("--tpot-limit must be above 0", "--tpot-limit must be above 0."),
        ("evaluate first; then: sweepdb query best --top 3", "Evaluate first; then: sweepdb query best --top 3"),
        ("There is no store at sqlite:///a.sqlite", "There is no store at sqlite:///a.sqlite"),
        ("server.sh:1: no result", "server.sh:1: no result."),
        ("tp 3 is not 4 devices", "tp 3 is not 4 devices."),
        ("did you mean 0.9?", "Did you mean 0.9?"),
        ("nothing fits", "Nothing fits."),
        ("sweepdb prices set h100 2.5 h200 3.5", "sweepdb prices set h100 2.5 h200 3.5"),
        ("evaluate --output-length 211.125", "Evaluate --output-length 211.125"),
    ],
)
def test_messages_are_sentences_but_for_what_is_copied(told, said):
    assert sentence(told) == said
    assert re.match(r"[A-Z0-9-]|[a-z0-9_]+[ .:]", said)


def test_a_folder_called_as_any_word_is_named_as_it_was_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "started").mkdir()
    assert sentence("started is not empty") == "started is not empty."
    assert sentence("nothing is there") == "Nothing is there."
    assert sentence(f"{'long' * 99} is no model") == f"L{'ong' + 'long' * 98} is no model."
