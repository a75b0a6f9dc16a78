"""What a shell offers while a command is typed: words of the program and names of the store, quickly and in silence."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from conftest_cli import sweepdb

from cli.completion import SHELLS, VARIABLE, completion_script
from cli.completion.offers import complete, offers
from cli.main import build_app
from sweepdb.catalogue import catalogue_ids, list_models
from sweepdb.stores import list_sweeps, parse_url

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program():
    import typer.main

    return typer.main.get_command(build_app())


@pytest.fixture
def offered(program, example_store, monkeypatch):
    """The words offered for the last word of a line; `|` marks an empty one."""
    monkeypatch.setenv("SWEEPDB_STORE", example_store)

    def words(line):
        return [one.word for one in offers(program, line.removesuffix("|").split(" "))]

    return words


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("qu", ["query"]),
        ("--wait 3 qu", ["query"]),
        ("db c", ["current", "check", "compact"]),
        ("query pd-r", ["pd-ratio"]),
        ("query best --tpot-d", ["--tpot-definition"]),
        ("query best --tpot-definition |", ["inclusive", "exclusive"]),
        ("query best --tpot-definition=e", ["--tpot-definition=exclusive"]),
        ("query best --device h100_sxm,h200_s", ["h100_sxm,h200_sxm"]),
        ("evaluate X --device h100_sxm h200_s", ["h200_sxm"]),
        ("evaluate X --num-devices 4 8 --device h200_s", ["h200_sxm"]),
        ("evaluate X --search l", ["launchable"]),
        ("evaluate qwen/qwen3-32b-f", ["Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-FP8-Static-PerTensor"]),
        ("evaluate X --quantization FP8_", ["FP8_BLOCK"]),
        ("launch x --target k", ["k8s", "kserve"]),
        ("query best --format json", ["json", "jsonl", "json-full"]),
        ("export somewhere --format |", ["parquet", "csv"]),
        ("prices |", ["list", "set", "import"]),
        ("prices set TEST", ["TEST_DEVICE"]),
        ("query best --tpot-limit |", []),
        ("evaluate --sweep |", []),
        ("nonsense |", []),
        ("query best X Y --nonsense |", []),
    ],
)
def test_words_of_the_program_are_offered(offered, line, found):
    assert offered(line) == found


def test_names_of_the_store_are_offered(offered, example_store):
    (sweep,) = list_sweeps(parse_url(example_store))
    assert sweep.key[:12] in offered("query best --sweep |")
    assert offered("void " + sweep.key[:3]) == [sweep.key[:12]]
    scenarios = offered("explain |")
    assert scenarios
    assert all(one.endswith(":") for one in scenarios)
    assert offered(f"explain {scenarios[0]}")[:3] == [f"{scenarios[0]}{batch}" for batch in (1, 2, 3)]
    assert f"{scenarios[0]}17" in offered(f"query why {scenarios[0]}1 {scenarios[0]}1")
    assert set(scenarios) < set(offered("show |"))
    assert offered("query diff |") == offered("void |")


@pytest.mark.parametrize("store", ["sqlite:///nowhere/at/all.sqlite", "nonsense://x", f"sqlite:///{__file__}"])
def test_a_store_that_cannot_be_read_is_passed_over(program, store, capsys, monkeypatch):
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    assert complete("bash", ["explain", "--store", store, ""], lambda: program) == 0
    assert complete("bash", ["query", "best", "--store", store, "--device", "TEST"], lambda: program) == 0
    assert capsys.readouterr() == ("TEST_DEVICE\n", "")


def test_nothing_is_written(offered, example_store):
    def kept():
        """Every file of the store but those that SQLite shares between readers."""
        files = Path(example_store.removeprefix("sqlite:///")).parent.rglob("*")
        return {path: path.stat().st_mtime_ns for path in files if path.suffix not in {".sqlite-shm", ".sqlite-wal"}}

    before = kept()
    offered("explain |")
    offered("query best --workload |")
    assert kept() == before


def test_a_failure_is_silent(capsys):
    def failing():
        raise RuntimeError

    assert complete("fish", ["x"], failing) == 0
    assert capsys.readouterr() == ("", "")


def test_ids_of_the_catalogue_are_read_without_parsing_it():
    assert sorted(catalogue_ids()) == sorted(list_models())


def test_completing_imports_nothing_heavy(example_store):
    told = (
        "import sys; from cli.main import main\n"
        "try: main(['explain', '--store', sys.argv[1], ''])\n"
        "except SystemExit: pass\n"
        "print({'duckdb', 'numpy', 'yaml', 'rich', 'pydantic', 'sqlalchemy', 'pandas'} & {*sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", told, example_store], cwd=ROOT, env={**os.environ, VARIABLE: "zsh"}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ":\tQwen/Qwen3-32B TEST_DEVICE " in done.stdout
    assert done.stderr.strip() == "set()"


def test_bash_completes_what_it_takes_apart(tmp_path, example_store):
    """A probe's colon and an option's equals sign end words of bash, which then holds only what follows them."""
    command = tmp_path / "sweepdb"
    started = f"cd {quote(str(ROOT))} && exec {quote(sys.executable)} -m cli.main"
    command.write_text(f'#!/bin/sh\n{started} "$@"\n', encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IEXEC)
    script = (
        f"{completion_script('bash')}\n"
        "try() { COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDBREAKS=$' =:'; COMPREPLY=(); _sweepdb_offers \"$0\"\n"
        ' echo "${COMPREPLY[*]}"; }\n'
        'try "sweepdb query best --mode=p"; try "sweepdb explain $1:24"'
    )
    (best,) = json.loads(sweepdb("query best --top 1 --format json", example_store).out)
    key = best["probe"].partition(":")[0]
    done = subprocess.run(
        ["bash", "--norc", "-c", script, str(command), key], env={**os.environ, "SWEEPDB_STORE": example_store},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["prefill pd", "24 240 241 242 243 244 245 246 247 248 249"]


def test_the_scripts_are_printed():
    for shell in SHELLS:
        script = completion_script(shell)
        assert sweepdb(f"--show-completion {shell}").out == script
        assert VARIABLE in script
    refused = sweepdb("--show-completion tcsh")
    assert (refused.code, refused.err) == (2, "error: --show-completion tcsh is not one of bash, zsh, fish.\n")
