"""What is installed: the wheel asks a question in an empty environment, torch is wanted by timing kernels alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from document_commands import commands_of
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

from tools import release

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "evaluator", "migrations", "queries", "store", "sweepdb")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITHOUT_TORCH = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
sys.modules["torch"] = None
from cli.main import run
done = []
for command in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(command)
    done.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""
ASKED = """
import sys
sys.modules["torch"] = None
import sweepdb
assert "face-wheel" in sweepdb.__file__, sweepdb.__file__
with sweepdb.open(sys.argv[1]) as store:
    print(len(store.best(tpot_limit=1e6).dicts()), store.sql("SELECT count(*) AS n FROM probe").dicts()[0]["n"])
"""
EXTRAS = ["torch", "pandas", "polars", "pyarrow", "huggingface_hub", "starlette", "vl_convert", "transformers"]
# Each on one node: two batch sizes of every plan that vLLM launches. What does not fit there is stored all the same, and
# a checkpoint whose files state no format of their weights has to be told it.
EVERY_MODEL = """
import importlib.util, json, sys
import sweepdb
assert importlib.util.find_spec("torch") is None
asked = {"device": "B300_SXM", "input_length": 100, "output_length": 10, "batch_range": 2, "store": sys.argv[1]}
told = {}
for name in sys.argv[2:]:
    try:
        done = sweepdb.evaluate(name, **asked)
        told[name] = [done.probes_stored + done.probes_known, done.operators_captured]
    except sweepdb.InputError as error:
        told[name] = str(error)
with sweepdb.open(sys.argv[1]) as store:
    ((answered,),) = store.sql("SELECT count(DISTINCT model) FROM probe").rows
print(json.dumps([told, answered]))
"""


def without_torch(*commands):
    """Run commands in one process that has no torch; returns (exit code, stdout, stderr) of each."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    import sweepdb

    url = f"sqlite:///{tmp_path_factory.mktemp('packaging')}/store.sqlite"
    sweepdb.evaluate(
        "Qwen/Qwen3-0.6B",
        device="TEST_DEVICE",
        input_length=100,
        output_length=10,
        batch_range=2,
        mode="decode",
        store=url,
    )
    return url


def test_torch_pandas_and_the_hub_are_extras():
    required = {re.split(r"[<>=]", line)[0] for line in PROJECT["dependencies"]}
    assert not required & {"torch", "pandas", "huggingface_hub", "transformers"}
    extras = {
        extra: [re.split(r"[<>=]", line)[0] for line in lines]
        for extra, lines in PROJECT["optional-dependencies"].items()
    }
    assert extras["measure"] == ["torch"]
    assert extras["dataframe"] == ["pandas"]
    assert extras["hub"] == ["huggingface_hub"]
    assert "'.[measure,dataframe,hub," in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_no_numpy_is_admitted_that_rounds_by_the_processor():
    """1.26 takes powers from AVX-512: then stores of two machines differ in a last digit, and are not merged."""
    floors = [re.search(r">=(\d+)", line)[1] for line in PROJECT["dependencies"] if line.startswith("numpy")]
    assert [int(floor) >= 2 for floor in floors] == [True, True]


def test_the_hub_is_asked_by_public_names():
    text = (ROOT / "evaluator" / "inputs" / "models.py").read_text(encoding="utf-8")
    assert re.findall(r"from huggingface_hub(\S*) import (.*)", text) == [("", "get_token, hf_hub_url")]


def test_asking_reading_and_explaining_need_no_torch(evaluated, tmp_path):
    import sweepdb

    with sweepdb.open(evaluated) as store:
        probe = store.sql("SELECT probe FROM probe LIMIT 1").rows[0][0]
    here, other, bundle = (
        ["--store", evaluated],
        ["--store", f"sqlite:///{tmp_path}/new.sqlite"],
        str(tmp_path / "bundle"),
    )
    commands = [
        ["query", "decode", "--tpot-limit", "1000", *here],
        ["sql", "SELECT count(*) FROM probe", *here],
        ["explain", probe, *here],
        ["sweeps", *here],
        ["db", "check", *here],
        ["export", bundle, *here],
        ["db", "init", *other],
        ["import", bundle, *other],
    ]
    for command, (code, out, err) in zip(commands, without_torch(*commands), strict=True):
        assert (code, bool(out or err)) == (0, True), f"{command}: {err}"


def test_evaluating_needs_no_torch_even_of_a_model_that_no_catalogue_has(tmp_path):
    config = {"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 5, "num_attention_heads": 16,
              "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 1000,
              "tie_word_embeddings": True}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    asked = [
        "--device",
        "H200_SXM",
        "--input-length",
        "200",
        "--output-length",
        "10",
        "--mode",
        "decode",
        "--batch-range",
        "3",
    ]
    store = ["--store", f"sqlite:///{tmp_path}/new.sqlite"]
    commands = [["evaluate", model, *asked, *store] for model in (str(tmp_path / "config.json"), "Qwen/Qwen3-0.6B")]
    for command, (code, _, err) in zip(commands, without_torch(*commands), strict=True):
        assert (code, "3 probes stored" in err) == (0, True), f"{command}: {err}"


def test_timing_kernels_says_what_to_install(tmp_path):
    ((code, _, err),) = without_torch(["calibrate", "--measure", "cpu", "--output", str(tmp_path / "mine.yaml")])
    assert code == 2
    assert err.splitlines()[-2:] == [
        "error: Kernels are timed with torch, which is not installed.",
        "hint: pip install 'sweepdb[measure]'.",
    ]


def test_the_containerfile_copies_what_is_there():
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert set(PACKAGES) <= set(copied)
    assert all((ROOT / name).exists() for name in copied)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, "tools", "tests/sweepdb", "docs/howto"):
        shutil.copytree(ROOT / name, copy / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out), str(copy)]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True, capture_output=True, text=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.survival
def test_the_wheel_holds_the_program_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    here = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert set(here) <= set(names), set(here) - set(names)


@pytest.mark.survival
def test_a_release_is_the_same_bytes_for_the_same_commit_and_its_sums_hold(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        release.main(str(folder))
    first, second = ((folder / "SHA256SUMS").read_text(encoding="utf-8") for folder in folders)
    assert first == second
    assert len(first.splitlines()) == 2  # the archive and its wheel
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folders[0], check=True)
    with tarfile.open(next(folders[0].glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    assert {*PACKAGES, "CITATION.cff", "LICENSE", "constraints.txt"} <= held
    assert "tests" not in held


def test_the_bill_of_materials_names_each_package_with_its_licence_once():
    listed = [
        {"name": "sweepdb", "version": "1.2", "license": "Apache-2.0"},
        {"name": "PyYAML", "version": "6.0.3", "license": "MIT"},
        {"name": "typing_extensions", "version": "4.1", "license": ""},
        {"name": "pip", "version": "26.0", "license": "MIT"},  # brought by the environment, not by sweepdb
    ]
    bill = release.bill_of_materials(listed)
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/sweepdb@1.2"
    assert bill["components"] == [
        {"type": "library", "name": "PyYAML", "version": "6.0.3", "purl": "pkg:pypi/pyyaml@6.0.3"}
        | {"licenses": [{"license": {"name": "MIT"}}]},
        {"type": "library", "name": "typing_extensions", "version": "4.1", "purl": "pkg:pypi/typing-extensions@4.1"}
        | {"licenses": []},
    ]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a program of an environment that has the wheel and what it depends on, without any extra, in an empty folder."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWEEPDB"))}
    environment = tmp_path_factory.mktemp("wheel") / "face-wheel"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    folder = Path(
        subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, *install], check=True, capture_output=True, env=outside)
    # What it depends on is taken from this environment, whose own sweepdb stands behind the one just installed; what
    # only extras bring is not to be had.
    (folder / "dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    (folder / "extras.pth").write_text(f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n", encoding="utf-8")
    empty = tmp_path_factory.mktemp("empty")

    def run(program, *arguments):
        command = [environment / "bin" / program, *arguments]
        done = subprocess.run(command, cwd=empty, capture_output=True, text=True, env=outside, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    return run


@pytest.mark.survival
def test_the_wheel_answers_a_question_in_an_empty_environment(installed, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:4]), key="a", sizes=20)
    rows, probes = map(int, installed("python", "-c", ASKED, url).split())
    assert rows > 0
    assert probes == 4 * 2 * 3 * 20  # plans, devices, phases, batch sizes
    assert "best:" in installed("sweepdb", "query", "best", "--store", url)
    assert "created" not in installed("sweepdb", "models")
    assert installed("python", "-c", "import os; print(os.listdir())") == "[]\n"


@pytest.mark.survival
def test_the_wheel_alone_runs_what_the_readme_shows(installed, tmp_path):
    store = ["--store", f"sqlite:///{tmp_path}/store.sqlite"]
    for command in commands_of(ROOT / "README.md"):
        _, *arguments = shlex.split(command, comments=True)
        assert installed("sweepdb", *arguments, *store) or arguments[0] == "evaluate"


def evaluated_alone(installed, tmp_path, every=1):
    """What the wheel says of each of so many models of the catalogue, and how many its store has then."""
    models = [row["model"] for row in json.loads(installed("sweepdb", "models", "--format", "json"))]
    assert len(models) > 100
    chosen = models[::every]
    told, answered = json.loads(installed("python", "-c", EVERY_MODEL, f"sqlite:///{tmp_path}/store.sqlite", *chosen))
    assert list(told) == chosen
    # Both batch sizes of prefill, decode and aggregated; nothing is traced.
    fitting = [found for found in told.values() if found == [6, 0]]
    unsaid = ("not fit", "files state no format of their weights")
    assert all(found == [6, 0] or any(one in found for one in unsaid) for found in told.values())
    return len(fitting), answered


@pytest.mark.survival
def test_the_wheel_alone_evaluates_some_models_of_the_catalogue(installed, tmp_path):
    fitting, answered = evaluated_alone(installed, tmp_path, every=8)
    assert fitting > 10
    assert answered > 10


@pytest.mark.long
def test_the_wheel_alone_evaluates_every_model_of_the_catalogue(installed, tmp_path):
    fitting, answered = evaluated_alone(installed, tmp_path)
    assert fitting > 100
    assert answered > 90  # some models have two names
