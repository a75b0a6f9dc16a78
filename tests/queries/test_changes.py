"""What `diff` says of two sweeps beside their rows: winners, profiles, formulas, prices, rows of one alone."""

from __future__ import annotations

import re

import pytest
import yaml

import sweepdb

PROFILE = {
    "name": "my_device", "vendor": "example", "matrix_flops_per_s": {"bf16": 3.12e14},
    "vector_flops_per_s": {"fp32": 1.95e13}, "memory_bytes": 85899345920, "memory_bandwidth_bytes_per_s": 2.039e12,
    "grid": [16, 8], "compute_efficiency": 0.7, "memory_efficiency": 0.8, "matrix_static_s": 5e-6,
    "vector_static_s": 2e-6, "communication_static_s": 0.0, "source": "made up",
    "links": [{"bandwidth_bytes_per_s": 2.5e10, "latency_s": 1e-5, "efficiency": 0.7},
              {"bandwidth_bytes_per_s": 3e11, "latency_s": 2e-6, "efficiency": 0.7}],
}  # fmt: skip
ASKED = {"model": "Qwen/Qwen3-8B", "input_length": 1000, "output_length": 100}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two sweeps: a device that became faster, more instance sizes and batch sizes, and another engine."""
    folder = tmp_path_factory.mktemp("changes")
    url = f"sqlite:///{folder}/store.sqlite"
    device = folder / "my_device.yaml"
    for label, change, more in (
        ("march", {}, {"num_devices": 1, "batch_range": (6, 8)}),
        ("april", {"compute_efficiency": 0.8, "links": PROFILE["links"][:1] * 2}, {"num_devices": (1, 2), "batch_range": (6, 9)}),
    ):  # fmt: skip
        device.write_text(yaml.safe_dump(PROFILE | change), encoding="utf-8")
        sweepdb.evaluate(**ASKED, device=device, label=label, store=url, **more)
    for label, engine in (("vllm", "vllm"), ("both", "vllm,sglang")):
        sweepdb.evaluate(
            **ASKED, device="h100_sxm", mode="decode", num_devices=1, batch_range=(6, 6), label=label, store=url,
            serving_model=engine,
        )  # fmt: skip
    return url


def lines_of(url, first, second, **options):
    with sweepdb.open(url) as store:
        return list(store.diff(sweeps=(first, second), **options).verdict)


def test_changed_fields_of_a_profile_are_named_with_both_values(url):
    lines = lines_of(url, "march", "april")
    assert "my_device: compute_efficiency 0.7 -> 0.8." in lines
    assert any(re.fullmatch(r"my_device: links\.1\.bandwidth_bytes_per_s 3e\+11 -> 2\.5e\+10\.", one) for one in lines)
    assert not any("memory_efficiency" in one or "Formula" in one or "Served" in one for one in lines)


def test_winners_are_the_best_of_each_sweep(url):
    lines = [one for one in lines_of(url, "march", "april", tpot_limit=40.0) if one.startswith("Best ")]
    with sweepdb.open(url) as store:
        for phase, found in (("decode", store.decode), ("aggregated", store.best)):
            before, after = (
                found(sweep=name, tpot_limit=40.0, rank_by="throughput", top=1).dicts()[0] for name in ("march", "april")
            )  # fmt: skip
            (line,) = (one for one in lines if f" {phase} " in one)
            assert (
                f"{before['plan']} at {before['batch_size']} on my_device, {before['output_tokens_per_s']:,.0f}" in line
            )
            assert (
                f"-> {after['plan']} at {after['batch_size']} on my_device, {after['output_tokens_per_s']:,.0f}" in line
            )
            gain = 100 * (after["output_tokens_per_s"] / before["output_tokens_per_s"] - 1)
            assert f"({gain:+.1f} %)" in line


def test_rows_of_one_sweep_alone_are_counted(url):
    (line,) = (one for one in lines_of(url, "march", "april") if one.startswith("Rows "))
    with sweepdb.open(url) as store:
        counted = store.sql(
            "SELECT count(DISTINCT (subject, batch_size)) AS rows FROM probe WHERE device = 'my_device' AND num_devices = 1"
            " AND batch_size <= 8"
        ).dicts()[0]["rows"]
    assert line.startswith(f"Rows of both sweeps: {counted:,}; of the first alone: 0; of the second alone: ")


def test_engines_of_one_sweep_alone_are_named(url):
    assert "Served by: vllm -> sglang, vllm." in lines_of(url, "vllm", "both")
    assert not [one for one in lines_of(url, "vllm", "vllm") if "->" in one]
