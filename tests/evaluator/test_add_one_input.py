"""A serving engine and a device are one YAML file, a serving model is one module, an operator is its definition, formula and
call: each is added to a copy of the program, and answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

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


OPERATOR = """

@defined("mirror(Tensor x) -> Tensor")
def mirror(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)
"""
FORMULA = """

@formula("sweepdb::mirror")
def _mirror(call: Call) -> Work:
    \"\"\"Reads and writes every element once.\"\"\"
    size = size_bytes(call.result)
    return Work(kind="elementwise", label="mirror", bytes_read=size, bytes_written=size)
"""


@pytest.fixture
def program(tmp_path):
    """A copy of the program, and a function that runs its command over a store beside it."""
    for package in PACKAGES:
        copytree(ROOT / package, tmp_path / package)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SWEEPDB_STORE": f"sqlite:///{tmp_path}/store.sqlite"}

    def sweepdb(text):
        command = [sys.executable, "-m", "cli.main", *text.split()]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return tmp_path, sweepdb


ASKED = "Qwen/Qwen3-0.6B --num-devices 1 --input-length 100 --output-length 10 --batch-range 8"


@pytest.mark.survival
@pytest.mark.parametrize(
    ("place", "text"),
    [("evaluator/inputs/engines/mine.yaml", ENGINE), ("evaluator/serving/models/mine.py", MODEL)],
    ids=["an engine", "a serving model"],
)
def test_what_serves_is_one_file(program, place, text):
    folder, sweepdb = program
    (folder / place).write_text(text)
    sweepdb(f"evaluate {ASKED} --device h100_sxm --serving-model mine")
    assert ",mine," in sweepdb("query best --format csv --top 1")


def test_a_device_is_one_file(program):
    folder, sweepdb = program
    devices = folder / "evaluator/inputs/devices"
    lines = (devices / "l4.yaml").read_text().splitlines()
    mine = [line for line in lines if not line.startswith(("name:", "aliases:"))]
    (devices / "mine.yaml").write_text("\n".join(["name: mine", *mine]) + "\n")
    assert "mine" in sweepdb("devices --format csv")
    sweepdb(f"evaluate {ASKED} --device mine")
    assert ",mine," in sweepdb("query best --format csv --top 1")


@pytest.mark.survival
def test_an_operator_is_its_definition_its_formula_and_its_call(program):
    folder, sweepdb = program
    capture = folder / "evaluator/graph/capture"
    for name, text in (("library.py", OPERATOR), ("formulas.py", FORMULA)):
        with (capture / name).open("a") as file:
            file.write(text)
    decoder = (capture / "decoder.py").read_text()
    call = '    if model.position == "learned":\n'
    assert decoder.count(call) == 1
    (capture / "decoder.py").write_text(decoder.replace(call, f"    x = operators.mirror(x)\n{call}"))
    sweepdb(f"evaluate {ASKED} --device h100_sxm")
    probe = sweepdb("query best --format csv --top 1").splitlines()
    reference = dict(zip(probe[0].split(","), probe[1].split(","), strict=False))["probe"]
    assert "mirror" in sweepdb(f"explain {reference} --format csv")
