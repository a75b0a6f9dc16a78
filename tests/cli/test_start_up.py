"""What a command imports: reading starts in milliseconds only as long as nothing heavy is imported for it.

Each case runs in a process of its own, since this one has imported everything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from cli.main import run
with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
    code = run(sys.argv[1:])
print(json.dumps([code, said.getvalue(), sorted({name.partition(".")[0] for name in sys.modules})]))
"""
HEAVY = {"sqlalchemy", "alembic", "pandas", "torch", "transformers", "pyarrow"}


def imported_by(*arguments):
    """Return the packages a command imported, once it has succeeded."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, said, packages = json.loads(finished.stdout)
    assert code == 0, said
    return set(packages)


@pytest.mark.parametrize("command", [[], ["evaluate"], ["query"], ["sql"], ["db"], ["prices"]], ids=str)
def test_help_imports_nothing_but_the_parser(command):
    assert not imported_by(*command, "--help") & (HEAVY | {"duckdb", "numpy", "yaml", "rich"})


@pytest.mark.parametrize(
    "command",
    [
        ["query", "best", "--tpot-limits", "50"],
        ["query", "pd-ratio", "--num-devices", "16"],
        ["query", "best", "--tpot-limits", "0.001"],
        ["sql", "SELECT count(*) FROM probe"],
        ["sweeps"],
    ],
    ids=" ".join,
)
def test_reading_imports_no_writer_and_no_numerics(example_store, command):
    # numpy too: every row of the example is sealed.
    # pydantic too: plain values are read without it.
    assert not imported_by(*command, "--store", example_store) & (HEAVY | {"numpy", "evaluator", "pydantic"})


def test_listing_sweeps_needs_no_duckdb(example_store):
    assert "duckdb" not in imported_by("sweeps", "--store", example_store)


def test_a_second_evaluation_needs_no_torch(example_copy):
    arguments = (
        "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500"
        " --quantize-linear-action W8A8_DYNAMIC"
    )
    assert "torch" not in imported_by(*arguments.split(), "--batch-range", "260", "--store", example_copy)
    again = arguments.replace("3500", "2000")
    assert "torch" not in imported_by(*again.split(), "--batch-range", "4", "--store", example_copy)


def test_reading_makes_no_records(example_store):
    program = PROGRAM.replace('name.partition(".")[0]', "name")
    asked = [sys.executable, "-c", program, "query", "best", "--tpot-limits", "50", "--store", example_store]
    code, said, modules = json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert code == 0, said
    assert "queries.session" in modules
    assert not {"store.records", "queries.composition"} & set(modules)


@pytest.mark.parametrize(
    "command",
    [["sql", "SELECT count(*) FROM probe"], ["sql", "SELECT nothing"], ["query", "best"], ["evaluate"]],
    ids=" ".join,
)
def test_a_process_ends_without_a_word_of_its_libraries(example_store, command):
    # DuckDB's binding writes down what is still there when Python ends.
    process = [sys.executable, "-c", "from cli.main import main; main()", *command, "--store", example_store]
    said = subprocess.run(process, cwd=ROOT, capture_output=True, text=True, check=False).stderr
    assert "leaked" not in said
