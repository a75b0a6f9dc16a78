"""An option of `evaluate` is one field: the command line, Python, sweep files and the types for editors follow.

The test adds one to a copy of the program, and touches nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIELD = """    patience: tuple[int, ...] = option((), "steps that a user waits", unit="steps", keyword="wait_sizes")

    def __post_init__"""
PROGRAM = """
import io, pathlib
from contextlib import redirect_stdout
from cli.joined_arguments import joined
from cli.main import run
from sweepdb.evaluating.option_values import options_of
from sweepdb.evaluating.sweep_file import read_sweep_file
from tools.keyword_types import evaluate_keywords
import inspect, sweepdb
with redirect_stdout(io.StringIO()) as shown:
    run(["evaluate", "--help-all"])
assert "--wait-sizes" in shown.getvalue() and "steps that a user waits" in shown.getvalue()
assert joined(["--wait-sizes", "1", "2", "model"]) == ["--wait-sizes=1,2", "model"]
assert options_of({"wait_sizes": [1, 2]}).patience == (1, 2)
assert "wait_sizes: int | Sequence[int] | None" in evaluate_keywords()
assert "wait_sizes" in inspect.signature(sweepdb.evaluate).parameters
pathlib.Path("sweep.yaml").write_text("patience: 3")
assert read_sweep_file(pathlib.Path("sweep.yaml")) == [{"patience": (3,)}]
try:
    sweepdb.evaluate("m", wait_sizes="3")
except sweepdb.InputError as error:
    assert error.message == "`wait_sizes` must be a whole number or a list of them, not '3'"
else:
    raise AssertionError
"""


def test_an_option_of_evaluate_is_its_declaration(tmp_path):
    for name in ("cli", "evaluator", "migrations", "queries", "store", "sweepdb", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    options = tmp_path / "sweepdb" / "evaluating" / "sweep_options.py"
    options.write_text(options.read_text().replace("    def __post_init__", FIELD, 1))
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
