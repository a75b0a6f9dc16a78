"""Options of the seeds' program of today: they work as there, or say what to use instead."""

from __future__ import annotations

import pytest

from cli.inference.parser import REFUSED, parse
from store.errors import InputError

ASKED = "Qwen/Qwen3-32B --input-length 3500 --output-length 1500"
VALUES = {
    "--dcp-sizes": "2", "--performance-model": "profiling", "--compilation-config": "a b", "--image-height": "64",
    "--speculative-method": "eagle", "--image-batch-size": "1", "--image-width": "64", "--word-embedding-tp": "col",
    "--enable-shared-expert-tp": "", "--chrome-trace-file": "trace.json",
    "--concurrency-search-strategy": "linear_exponential",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_evaluated_is_refused_by_what_to_use_instead(name):
    with pytest.raises(InputError, match=f"^{name} is not available: ") as caught:
        parse(f"{ASKED} {name} {VALUES[name]}".split())
    assert caught.value.hint


def test_values_that_change_nothing_are_accepted():
    harmless = [f"{name} {refused.harmless[0]}" for name, refused in REFUSED.items() if refused.harmless]
    assert len(harmless) == 3
    assert parse(f"{ASKED} {' '.join(harmless)}".split()) == parse(ASKED.split())


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("--devices TEST_DEVICE ATLAS_800_A2_376T_64G", "devices", ("TEST_DEVICE", "ATLAS_800_A2_376T_64G")),
        ("--mtp-acceptance-rates 0.8 0.5", "mtp_acceptance", (0.8, 0.5)),
        ("--num-mtp-tokens 0 1", "mtp_tokens", (0, 1)),
        ("--max-search-combinations 4", "most_combinations", 4),
        ("-q", "log_level", "critical"),
        ("-v", "log_level", "info"),
        ("-vv", "log_level", "debug"),
    ],
)
def test_options_of_today_are_read(text, field, value):
    assert getattr(parse(f"{ASKED} {text}".split()), field) == value


def test_linears_beside_experts_may_have_a_format_of_their_own():
    options = parse(f"{ASKED} --quantize-linear-action W4A8_DYNAMIC --quantize-non-expert-linear-action FP8".split())
    assert (options.linear, options.experts) == ("FP8", "W4A8_DYNAMIC")


def test_the_model_may_be_named_by_an_option():
    named = ASKED.replace("Qwen/Qwen3-32B", "--model-id Qwen/Qwen3-32B")
    assert parse(named.split()) == parse(ASKED.split())
    with pytest.raises(InputError, match="two models are given"):
        parse(f"{ASKED} --model-id Qwen/Qwen3-30B-A3B".split())
    with pytest.raises(InputError, match="no model is given"):
        parse(["--input-length", "1", "--output-length", "1"])


@pytest.mark.parametrize(
    ("text", "budgets"), [("", (14000, 7000, 3500)), ("--max-batched-tokens 9000", (9000,))], ids=["automatic", "given"]
)
def test_the_token_budget_is_four_times_the_prompt_or_what_memory_leaves(text, budgets):
    assert parse(f"{ASKED} {text}".split()).budgets() == budgets
