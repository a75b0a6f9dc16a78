"""When fetching a prefix beats computing it: the examples of the seeds, and what is asked wrongly."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb

from evaluator.inputs.models import load_model
from sweepdb.evaluating.bandwidth import least_bytes_per_s, prefix_transfer


def asked(options: str) -> dict[str, object]:
    (found,) = json.loads(sweepdb(f"query bandwidth {options} --format json").out)
    return found


@pytest.mark.parametrize(("operations_per_s", "gb_per_s"), [(8 * 312e12, 5.86), (8 * 989e12, 18.57)])
def test_the_condition_of_the_seeds(operations_per_s, gb_per_s):
    least = least_bytes_per_s(hidden=8192, heads_a_key=8, prompt=8192, operations_per_s=operations_per_s)
    # 2 x 8192 x 2 / (8 x (4 x 8192 x 8192 + 22 x 8192^2)) bytes an operation
    assert 1e-9 * least == pytest.approx(gb_per_s, abs=0.006)


@pytest.mark.parametrize(("device", "gb_per_s"), [("a100_sxm", 5.86), ("h100_sxm", 18.57)])
def test_the_command_gives_the_figures_of_the_seeds(device, gb_per_s):
    found = asked(f"--model meta-llama/Meta-Llama-3-70B --device {device} --input-length 8192")
    assert found["least_gb_per_s_paper"] == pytest.approx(gb_per_s, abs=0.006)
    # Its own layers have 2 x 855.6M operations a token and layer, b = 25.5 instead of 22.
    assert found["least_gb_per_s"] == pytest.approx(gb_per_s * 26 / 29.5, rel=1e-3)


@pytest.mark.parametrize(("link", "ms"), [(512, 18.87), (600, 16.11)])
def test_the_transfer_of_a_prompt_of_the_seeds(link, ms):
    found = asked(f"--model facebook/opt-175b --device a100_sxm --input-length 2048 --kv-transfer-gb-per-s {link}")
    assert found["kv_bytes_per_token"] == 4_718_592  # 2 x 96 layers x 96 heads x 128 x 2 bytes
    assert found["transfer_ms"] == pytest.approx(ms, abs=0.006)
    assert found["fetching_pays"] is True


def test_at_the_least_bandwidth_both_take_as_long():
    found = prefix_transfer("Qwen/Qwen3-32B", "h100_sxm", input_length=4096, num_devices=4)
    at = prefix_transfer(
        "Qwen/Qwen3-32B", "h100_sxm", input_length=4096, num_devices=4, kv_transfer_gb_per_s=found.least_gb_per_s
    )
    assert at.transfer_ms == pytest.approx(found.prompt_ms)
    for share, pays in ((0.99, False), (1.01, True)):
        beside = prefix_transfer(
            "Qwen/Qwen3-32B",
            "h100_sxm",
            input_length=4096,
            num_devices=4,
            kv_transfer_gb_per_s=share * found.least_gb_per_s,
        )
        assert beside.fetching_pays is pays


def test_latent_keys_are_few():
    found = prefix_transfer("deepseek-ai/DeepSeek-V3", "h200_sxm", input_length=8192)
    assert found.kv_bytes_per_token == 61 * (512 + 64) * 2
    assert found.least_gb_per_s_paper is None
    assert load_model("deepseek-ai/DeepSeek-V3")[1].hidden_size == 7168


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "Report bandwidth needs --model, --device and --input-length, in tokens"),
        ("--model Qwen/Qwen3-32B --device h100_sxm --input-length 0", "must be at least 1"),
        ("--model Qwen/Qwen3-32B --device h100_sxm --input-length 9 --kv-transfer-gb-per-s nan", "above 0, not nan"),
        ("--model Qwen/Qwen3-32B --device h100_sxm --input-length 9 --ttft-limit 9", "does not take --ttft-limit"),
        ("--model Qwen/Qwen3-32B --device no_such --input-length 9", "Unknown device"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(options, said):
    refused = sweepdb(f"query bandwidth {options}")
    assert refused.code == 2
    assert said in refused.err
