"""The reference pages of commands and of sweep files are what their tools write, and name all there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from cli.help.examples import EXAMPLES
from sweepdb.evaluating import options_by_keyword
from sweepdb.evaluating.sweep_file import sweep_keys
from tools.command_reference import command_page
from tools.sweep_file_page import FILES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_page_of_commands_is_current():
    assert (REFERENCE / "commands.md").read_text(encoding="utf-8") == command_page()


def test_the_page_of_commands_has_every_command_and_option_once():
    page = command_page()
    assert sorted(re.findall(r"^### (?:db )?([\w-]+)$", page, re.MULTILINE)) == sorted(EXAMPLES)
    (evaluate,) = re.findall(r"^### evaluate\n.*?(?=^### )", page, re.DOTALL | re.MULTILINE)
    for keyword, item in options_by_keyword().items():
        flag = (item.option.flag or f"--{keyword.replace('_', '-')}").partition("/")[0]
        assert keyword == "model" or evaluate.count(f"`{flag}`") == 1, keyword


def test_the_page_and_the_schema_of_sweep_files_are_current():
    for name, text in FILES.items():
        assert (REFERENCE / name).read_text(encoding="utf-8") == text(), name


def test_the_example_of_a_sweep_file_is_one():
    (example,) = re.findall(r"```yaml\n(.*?)```", (REFERENCE / "sweep-files.md").read_text(encoding="utf-8"), re.DOTALL)
    sweep_keys().model_validate(yaml.safe_load(example))
