"""Points of others beside what their sources say of them: points.csv in the same folder."""

import csv

import pytest

from evaluator.ledger.deployments import deployment_of
from tools.compared_page import _as_sent

POINT = {
    "id": "one", "model": "Qwen/Qwen3-32B", "device": "h100_sxm", "engine": "vllm", "precision": "bf16",
    "mode": "aggregated", "num_devices": "2", "tp": "2", "concurrency": "1", "input_length": "100",
    "output_length": "100", "tpot_exclusive_ms_mean": "20",
}  # fmt: skip


def written(file, row):
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(row))
        writer.writeheader()
        writer.writerow(row)
    return file


@pytest.mark.parametrize(("commit", "engine"), [("2025-05", "vllm_sync"), ("8959cf64", "vllm"), ("20255cf6", "vllm")])
def test_a_thread_without_a_version_is_of_the_engine_of_its_year(commit, engine, tmp_path):
    """vLLM of 2025 schedules a step when the one before has ended; a repository's commit says no year."""
    written(
        tmp_path / "points.csv", {"config": "one", "commit": commit, "num_prompts": "10", "plan_note": "", "kv": ""}
    )
    (sent,) = _as_sent(written(tmp_path / "closed.csv", POINT))
    assert deployment_of(sent).engine == engine
