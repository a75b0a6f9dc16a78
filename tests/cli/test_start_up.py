"""What a command imports: reading starts in milliseconds only as long as nothing heavy is imported for it.

Commands run in another process, since this one has imported everything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from cli.main import build_app, run

ROOT = Path(__file__).parents[2]
PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from cli.main import run
for arguments in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        code = run(arguments)
    print(json.dumps([code, said.getvalue(), sorted({name.partition(".")[0] for name in sys.modules})]))
"""
HEAVY = {"sqlalchemy", "alembic", "pandas", "torch", "transformers", "pyarrow"}


def run_by(program, commands):
    """The code, the messages and the modules after each of some commands that one process runs in turn."""
    finished = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def imported_by(*commands):
    """The packages that commands imported, once each has succeeded."""
    ran = run_by(PROGRAM, commands)
    assert [(code, said) for code, said, _ in ran if code != 0] == []
    return [set(packages) for _, _, packages in ran]


def needless(commands, packages):
    """Of some packages, those that were there after each command, by command."""
    imported = zip(commands, imported_by(*commands), strict=True)
    return {" ".join(command): found for command, there in imported if (found := there & packages)}


def test_help_imports_nothing_but_the_parser():
    commands = [[*words, "--help"] for words in ([], ["evaluate"], ["query"], ["sql"], ["db"], ["prices"])]
    assert needless(commands, HEAVY | {"duckdb", "numpy", "yaml", "rich"}) == {}


def test_reading_imports_no_writer_and_no_numerics(example_store):
    # numpy too: every row of the example is sealed.
    # pydantic too: plain values are read without it.
    asked = (
        ["query", "best", "--tpot-limit", "50"],
        ["query", "pd-ratio", "--num-devices", "16"],
        ["query", "best", "--tpot-limit", "0.001"],
        ["sql", "SELECT count(*) FROM probe"],
        ["sweeps"],
    )
    commands = [[*words, "--store", example_store] for words in asked]
    assert needless(commands, HEAVY | {"numpy", "evaluator", "pydantic"}) == {}


def test_a_plan_asked_again_needs_no_arrays_and_no_writer(example_copy):
    plan = f"plan Qwen/Qwen3-8B --device TEST_DEVICE --total-devices 2 --input-length 100 --output-length 10 --store {example_copy}"
    assert run_by(PROGRAM, [plan.split()])[0][0] == 0
    assert needless([plan.split()], HEAVY | {"numpy", "pydantic"}) == {}


def test_listing_sweeps_needs_no_duckdb(example_store):
    assert needless([["sweeps", "--store", example_store]], {"duckdb"}) == {}


def test_a_second_evaluation_needs_no_torch(example_copy):
    arguments = (
        "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500"
        " --quantization W8A8_DYNAMIC"
    )
    again = arguments.replace("3500", "2000")
    asked = ([*arguments.split(), "--batch-range", "260"], [*again.split(), "--batch-range", "4"])
    # pydantic neither: a shipped device is read without its declaration, which took 0.1 s.
    assert needless([[*words, "--store", example_copy] for words in asked], {"torch", "pydantic"}) == {}


def test_reading_makes_no_records(example_store):
    program = PROGRAM.replace('name.partition(".")[0]', "name")
    ((code, said, modules),) = run_by(program, [["query", "best", "--tpot-limit", "50", "--store", example_store]])
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


def test_a_list_of_commands_is_the_same_without_their_options(capsys):
    # What builds no option of any command prints what the whole program does.
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    typer.main.get_command(build_app()).main(["--help"], prog_name="sweepdb", standalone_mode=False)
    assert listed == capsys.readouterr().out
    assert run([]) == 0
    assert listed == capsys.readouterr().out


LISTING = PROGRAM.replace(
    'name.partition(".")[0] for name in sys.modules',
    'module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)',
)


def _ours(command):
    """Files of packages that may import `store`, as a process of its own leaves them loaded."""
    ((code, said, files),) = run_by(LISTING, [command.split()])
    assert code == 0, said
    folders = [ROOT / name for name in ("store", "evaluator", "queries", "sweepdb")]
    return [Path(file) for file in files if any(Path(file).is_relative_to(folder) for folder in folders)]


def _declare_by(pattern, files):
    standard = re.compile(pattern, re.MULTILINE)
    return [str(file) for file in files if standard.search(file.read_text()) and file.name != "light_dataclass.py"]


def test_classes_of_an_answer_are_declared_without_compiling(example_copy):
    """`store.light_dataclass`, by which evaluating and asking take a sixth less; the command line may not import it."""
    plan = "plan Qwen/Qwen3-8B --device TEST_DEVICE --total-devices 2 --input-length 100 --output-length 10"
    ours = _ours(f"{plan} --store {example_copy}")
    assert len(ours) > 200
    assert _declare_by(r"^from dataclasses import .*\bdataclass\b", ours) == []


def test_named_tuples_of_a_question_are_declared_without_compiling(example_store):
    ours = _ours(f"query best --store {example_store}")
    assert len(ours) > 80
    assert _declare_by(r"^from typing import .*\bNamedTuple\b", ours) == []
