"""A plan of pipeline stages from a row to launch files of each engine, and from these back to the row."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb

MODEL, LENGTHS = "Qwen/Qwen3-0.6B", "--device h100_sxm --input-length 1000 --output-length 100 --mode aggregated"


def row(url):
    """The row of as many users as the server takes; a deployment is evaluated for fewer, too."""
    asked = (
        "SELECT batch_size, concurrency, plan, max_batched_tokens, ttft_ms, tpot_exclusive_ms, probe FROM aggregated"
        " WHERE concurrency = 12"
    )
    (found,) = json.loads(sweepdb("sql --format json", url, stdin=asked).out)
    return found


@pytest.mark.parametrize(
    ("engine", "file", "flags"),
    [
        # 6 requests in each of two micro-batches: vLLM and SGLang limit both together, TensorRT-LLM each.
        ("vllm", "server.sh", ["--pipeline-parallel-size 2", "--max-num-seqs 12"]),
        ("sglang", "server.sh", ["--pp-size 2", "--max-running-requests 12"]),
        ("trtllm", "server-engine.yaml", ["pipeline_parallel_size: 2", "max_batch_size: 6"]),
    ],
)
def test_stages_of_an_engine_are_written_and_read(engine, file, flags, tmp_path, sqlite_url):
    plans = f"--num-devices 4 --tp-sizes 2 --pp-sizes 2 --serving-model {engine} --batch-range 6 6"
    assert sweepdb(f"evaluate {MODEL} {LENGTHS} {plans}", sqlite_url).code == 0
    stored = row(sqlite_url)
    assert (stored["plan"], stored["concurrency"]) == ("tp2pp2dp1", 12)
    folder = tmp_path / "launched"
    assert sweepdb(f"launch {stored['probe']} --output {folder}", sqlite_url).code == 0
    text = (folder / file).read_text(encoding="utf-8")
    assert all(flag in text for flag in flags), text
    other = f"sqlite:///{tmp_path}/other.sqlite"
    named = MODEL if engine == "trtllm" else ""
    assert sweepdb(f"evaluate {named} {LENGTHS} --from-deployment {folder / file}", other).code == 0
    assert {**row(other), "probe": ""} == {**stored, "probe": ""}
