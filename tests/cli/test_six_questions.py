"""The six questions that people come with, from nothing: every command of the page answers. A minute or two of plans."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from client_files import VLLM
from conftest_cli import sweepdb
from document_commands import ROOT, commands_in, section


def lay_down_runs(folder: Path) -> None:
    """Twelve results of a client: times that grow with users."""
    folder.mkdir()
    for users in (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 26, 34):
        tpot, ttft = 7.0 + 0.25 * users, 60.0 + 3.0 * users
        whole = ttft + 99.0 * tpot
        run = {name: value for name, value in VLLM.items() if name not in {"device", "tensor_parallel_size"}}
        run |= {
            "model_id": "Qwen/Qwen3-8B", "max_concurrency": users, "num_prompts": 10 * users, "completed": 10 * users,
            "total_input_tokens": 10_000 * users, "total_output_tokens": 1_000 * users,
            "duration": 10.0 * whole / 1000.0, "request_throughput": 1000.0 * users / whole,
            "output_throughput": 100_000.0 * users / whole, "mean_ttft_ms": ttft, "mean_tpot_ms": tpot,
            "mean_e2el_ms": whole, "mean_itl_ms": tpot,
        }  # fmt: skip
        kept = {name: value for name, value in run.items() if not name.startswith(("median_", "std_", "p99", "probe_"))}
        (folder / f"{users}.json").write_text(json.dumps(kept), encoding="utf-8")


@pytest.mark.long
def test_every_question_is_answered_from_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    shutil.copy(ROOT / "tests" / "data" / "arrival_trace.csv", tmp_path)
    lay_down_runs(tmp_path / "runs")
    said = []
    page = ROOT / "docs" / "howto" / "plan-a-deployment.md"
    for command in commands_in(section(page, "Six questions, from nothing"), ["bash"]):
        words = shlex.split(command)[1:]
        if "SWEEP" in words:
            newest = json.loads(sweepdb("sweeps --format json").out)
            (sweep,) = (one["sweep"] for one in newest if "Qwen3-235B" in one["asked"])
            words = [sweep if word == "SWEEP" else word for word in words]
        outcome = sweepdb(words)
        assert outcome.code == 0, f"{command}\n{outcome.err}"
        said.append(outcome.out + outcome.err)
    whole = "\n".join(said)
    assert "carries most" in said[0]
    assert "sweepdb launch" in said[0]
    assert "room for the expected error of steps" in " ".join(said[2].split())  # with more devices, or those
    assert "USD an hour" in said[2]
    assert "on your own servers" in whole  # errors held out of the fit
    assert "Rows of both sweeps" in whole
    assert "<svg" in (tmp_path / "frontier.html").read_text(encoding="utf-8")
