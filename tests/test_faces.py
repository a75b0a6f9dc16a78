"""Packages import each other's faces only: a package, a module at its top, or a folder, never a module inside one."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from test_import_direction import MAY_IMPORT, ROOT, imported

import evaluator

FACES = sorted(
    ".".join(face.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in MAY_IMPORT
    for face in (ROOT / package).rglob("*.py")
    if "lazy_face(__name__)" in face.read_text()
)
PUBLIC = [
    "DeviceProfile", "NamedModel", "Plan", "Precision", "ProbeBlock", "Progress", "Scenario", "SweepReport",
    "SweepRequest", "Workload", "capture_operators", "capture_requests", "evaluate_scenario", "explain_step",
    "list_devices", "list_models", "load_device", "load_model", "planned_scenarios", "run_sweep",
]  # fmt: skip


def reached_into(path):
    """Modules of other packages that a module imports from inside their folders."""
    own = path.relative_to(ROOT).parts[0]
    for name in imported(path):
        package, *inner = name.split(".")
        if package in MAY_IMPORT and package != own and len(inner) > 1 and (ROOT / package / inner[0]).is_dir():
            yield name


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_faces_of_others(package):
    found = {str(path.relative_to(ROOT)): [*reached_into(path)] for path in (ROOT / package).rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_public_face_of_the_evaluator():
    assert sorted(evaluator.__all__) == PUBLIC
    assert len(PUBLIC) <= 20


@pytest.mark.parametrize("name", FACES)
def test_no_name_of_a_face_is_a_module_beside_it(name):
    # Importing the module would put it in the name's place, for whoever asks the face later.
    beside = {path.stem for path in Path(import_module(name).__file__).parent.glob("*") if path.stem != "__init__"}
    if Path(import_module(name).__file__).name == "__init__.py":
        assert set(import_module(name).__all__) & beside == set()


@pytest.mark.parametrize("name", FACES)
def test_every_name_of_a_face_is_there(name):
    face = import_module(name)
    for each in face.__all__:
        assert getattr(face, each) is not None
    block = next(node for node in ast.parse(Path(face.__file__).read_text()).body if isinstance(node, ast.If))
    assert sorted(alias.name for node in block.body for alias in node.names) == sorted(face.__all__)
    assert set(face.__all__) <= set(dir(face))
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        _ = face.nonsense


def test_importing_every_face_imports_nothing_heavy():
    heavy = "{'numpy', 'sqlalchemy', 'duckdb', 'torch', 'pandas'}"
    code = f"import sys, {', '.join(FACES)}; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_a_scenario_is_evaluated_by_the_public_face():
    model = evaluator.load_model("Qwen/Qwen3-0.6B")[1]
    scenario = evaluator.Scenario(
        model=model,
        device=evaluator.load_device("h100_sxm"),
        precision=evaluator.Precision(linear="BF16"),
        plan=evaluator.Plan(tp=1),
        workload=evaluator.Workload(input_length=100, output_length=10.0),
        phase="aggregated",
    )
    sets = {
        name: evaluator.capture_operators(request) for name, request in evaluator.capture_requests(scenario).items()
    }
    block = evaluator.evaluate_scenario(scenario, np.asarray([1, 2, 4]), sets)
    assert isinstance(block, evaluator.ProbeBlock)
    assert (np.diff(block.e2e_ms) > 0).all()
