"""A serving engine is one YAML file; a serving model is one module: each is added to a copy of the program, and serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("store", "migrations", "evaluator", "queries", "sweepdb", "cli")
ENGINE = """name: mine
admission: prefill_first
note: An engine that somebody wrote.
start: {request_ms: 12.0, step_ms: 0.5}
fitted: [request_ms]
"""
MODEL = '''"""As waves, whatever it is called."""

from evaluator.serving.models.waves import MODELS as WAVES

MODELS = {"mine": WAVES["waves"]}
'''


@pytest.mark.parametrize(
    ("place", "text"),
    [("evaluator/inputs/engines/mine.yaml", ENGINE), ("evaluator/serving/models/mine.py", MODEL)],
    ids=["an engine", "a serving model"],
)
def test_it_is_one_file(tmp_path, place, text):
    for package in PACKAGES:
        copytree(ROOT / package, tmp_path / package, ignore=ignore_patterns("__pycache__"))
    (tmp_path / place).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SWEEPDB_STORE": f"sqlite:///{tmp_path}/store.sqlite"}

    def sweepdb(text):
        command = [sys.executable, "-m", "cli.main", *text.split()]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)

    asked = "Qwen/Qwen3-0.6B --device h100_sxm --num-devices 1 --input-length 100 --output-length 10 --batch-range 8"
    done = sweepdb(f"evaluate {asked} --serving-model mine")
    assert done.returncode == 0, done.stderr
    answer = sweepdb("query best --format csv --top 1").stdout
    assert ",mine," in answer
