"""Help texts: every option under a heading of its own, every report with what it takes, examples that are accepted."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import typer.main
from conftest_cli import sweepdb

from cli.derived import OLD_FLAGS
from cli.help.commands import COMMANDS, examples_of_commands
from cli.help.headings import FEW, HEADINGS, OTHERS, heading_of
from cli.joined_arguments import joined
from cli.main import build_app
from sweepdb.asking import asked_reports, keywords_of, option_table


@pytest.fixture(scope="module")
def program():
    return typer.main.get_command(build_app())


def leaves(program):
    for name, command in program.commands.items():
        yield from ([(name, command)] if not hasattr(command, "commands") else leaves(command))


def test_every_command_has_two_examples_that_its_parser_accepts(program):
    assert {name for name, _ in leaves(program)} == set(examples_of_commands())
    for name, examples in examples_of_commands().items():
        for example in examples:
            command, words = program, joined(shlex.split(example))
            while hasattr(command, "commands"):
                command, words = command.commands[words[0]], words[1:]
            assert command.name == name
            command.make_context(name, words)
        assert all(
            line in sweepdb([*words_of(name), "-h"]).out for line in ("Examples:\n", f"  sweepdb {examples[0][:20]}")
        )


def words_of(name):
    return ["db", name] if name not in {word for names in COMMANDS.values() for word in names} else [name]


def test_every_command_stands_under_a_heading(program):
    assert sorted(name for names in COMMANDS.values() for name in names) == sorted(program.commands)
    assert "\nCommands:" not in sweepdb("--help").out


@pytest.mark.parametrize("command", HEADINGS)
def test_every_option_of_a_long_command_stands_under_a_heading(program, command):
    for parameter in program.commands[command].params:
        if parameter.param_type_name == "option" and parameter.name != "help" and not parameter.hidden:
            assert heading_of(command, parameter.name) != OTHERS, parameter.name


def test_h_and_help_are_the_same():
    for command in ("", "query", "db", "db init", "query sensitivity"):
        assert sweepdb(f"{command} -h").out == sweepdb(f"{command} --help").out


@pytest.mark.parametrize("report", [item.name for item in asked_reports().values()])
def test_the_help_of_a_report_has_its_options_alone(report):
    told = sweepdb(f"query {report} --help-all").out
    taken = {one.name for one in keywords_of(asked_reports()[report.replace("-", "_")])}
    for keyword, item in option_table().items():
        flag = (item.option.flag or f"--{keyword.replace('_', '-')}").partition("/")[0]
        assert bool(re.search(rf"^  {flag}(?![\w-])", told, re.MULTILINE)) == (keyword in taken), keyword
    assert f"sweepdb query {report}" in told


@pytest.mark.parametrize("command", FEW)
def test_help_shows_what_matters_and_help_all_every_option(program, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    options = {
        one.name: next((flag for flag in reversed(one.opts) if flag not in OLD_FLAGS), one.opts[-1])
        for one in program.commands[command].params
        if one.param_type_name == "option" and not one.hidden and one.name != "help"
    }
    few, all_ = (sweepdb(f"{command} {flag}").out for flag in ("--help", "--help-all"))
    shown = {name for name, flag in options.items() if re.search(rf"^  {flag}(?![\w-])", few, re.MULTILINE)}
    assert shown == FEW[command] & options.keys()
    assert all(flag in all_ for flag in options.values())
    assert f"{len(options) - len(shown)} more options: sweepdb {command} --help-all\n" in few
    assert len(few.partition("Reports:")[0].splitlines()) <= 56  # a screen
    assert max(map(len, few.splitlines())) <= 80


def test_an_option_of_few_reports_names_them():
    told = " ".join(sweepdb("query --help-all").out.split())
    assert "requests in flight to serve (concurrency, cost, deployments)" in told
    assert (
        "rows a group [default: 10; 40 of curves and steps] --"
        not in told.partition("Output:")[0].partition("--top")[2]
    )


def test_reports_that_are_parts_of_others_are_not_listed():
    listed = {row["report"] for row in json.loads(sweepdb("query reports --format json").out)}
    assert {"best", "pd-ratio", "conforming"} <= listed
    assert not {"sensitivity-grid", "pd-counts-served"} & listed


def test_the_version_for_programs():
    shown = json.loads(sweepdb("--version --json").out)
    assert shown == json.loads(sweepdb("--json --version").out)
    assert shown["sweepdb"] == sweepdb("--version").out.split()[1]
    assert set(shown) >= {"formula_version", "store_revision", "python", "duckdb", "torch"}
    refused = sweepdb("--json sweeps")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "error: --json belongs to --version")
    assert sweepdb("--wait 3").code == 2


def test_quiet_leaves_answers_and_errors(example_copy):
    told = sweepdb("query best --tpot-limit 50 --format csv", example_copy)
    silent = sweepdb("query best --tpot-limit 50 --format csv -q", example_copy)
    assert told.err.startswith("expected error")
    assert (silent.out, silent.err) == (told.out, "")
    assert sweepdb("--quiet void nothing --reason x", example_copy).err.startswith("error: ")
    assert sweepdb("db seal --quiet", example_copy).err == ""
    assert sweepdb("db seal", example_copy).err
