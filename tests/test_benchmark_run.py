"""What `make bench` prints beside the figures: which of their aims are met, and which benchmark failed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest


@pytest.fixture
def runner(monkeypatch, tmp_path):
    path = Path(__file__).parent / "benchmark" / "run.py"
    spec = importlib.util.spec_from_file_location("benchmark_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
