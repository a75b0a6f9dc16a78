"""What `make bench` prints beside the figures: which of their aims are met, and which benchmark failed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent / "benchmark"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def runner(monkeypatch, tmp_path):
    module = loaded("run")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


@pytest.mark.parametrize(("value", "aim", "met"), [(9.9, "<= 10", True), (10.1, "<= 10", False), (1.8, ">= 1.8", True)])
def test_an_aim_says_its_direction(runner, value, aim, met) -> None:
    assert runner.is_met({"name": "one", "value": value, "unit": "s", "aim": aim}) is met
    with pytest.raises(ValueError, match="no aim"):
        runner.is_met({"name": "one", "value": value, "unit": "s", "aim": aim.replace("=", "")})


def test_aims_are_counted_last_and_a_benchmark_that_fails_stops_no_other(runner, monkeypatch, tmp_path, capfd) -> None:
    figures = [
        {"name": "quick", "value": 2.0, "unit": "s", "aim": "<= 3"},
        {"name": "slow", "value": 4.0, "unit": "s", "aim": "<= 3"},
        {"name": "plain", "value": 1.0, "unit": "s"},
    ]
    lines = "\n".join(json.dumps(figure) for figure in figures)
    (tmp_path / "bench_a.py").write_text("raise SystemExit(2)")
    (tmp_path / "bench_b.py").write_text(f"print({lines!r})\nprint('chatter')")
    monkeypatch.setattr("sys.argv", ["run.py"])
    assert runner.main() == 1
    printed = capfd.readouterr()
    told = [json.loads(line) for line in printed.out.splitlines()]
    assert [one["name"] for one in told[1:4]] == ["quick", "slow", "plain"]
    assert told[-1] == {
        "name": "aims that are met", "value": 1, "unit": "of 2", "missed": ["slow: 4.0 s, aim <= 3"],
    }  # fmt: skip
    assert printed.err.splitlines() == ["chatter", "bench_a.py failed"]


def test_every_benchmark_finds_what_it_imports() -> None:
    names = sorted(path.stem for path in BENCHMARKS.glob("bench_*.py"))
    said = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import {', '.join(names)}"
    ended = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("ladders", [False, True])
def test_the_benchmark_of_decisions_decides(ladders) -> None:
    """Eight users at most keep TPOT within 20 ms, of two servers alike; predictions are half of it."""
    deciding = loaded("bench_deciding")
    rows = [
        {"key": f"{plan}{users}", "model": "m", "device": "d", "engine": "vllm", "precision": "bf16", "users": users,
         "input": 1024, "output": 256, "devices": 1, "tp": 1, "pp": 1, "dp": 1, "ep": 1, "plan": plan,
         "ttft_ms_measured": 200.0, "ttft_ms_predicted": 100.0, "tpot_ms_measured": 12.0 + users,
         "tpot_ms_predicted": 6.0 + users / 2}
        for plan in "ab" for users in (2, 4, 8, 16)
    ]  # fmt: skip
    (choice,) = deciding.choices(rows)
    bench = deciding.Bench(choice, deciding.prior_of("foreign"))
    asked = deciding.drawn(bench, np.random.default_rng(1))
    wanted = replace(asked, limits=deciding.Limits(ttft_ms=300.0, tpot_ms=20.0))
    *_, (starts, broken, nothing, lost) = bench.decide(wanted, ladders, 8)
    assert (starts, broken, nothing, lost) == (8, False, False, 0.0)
