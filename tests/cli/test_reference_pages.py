"""The reference pages name all there is: commands, options, reports, columns, settings of a sweep file."""

from __future__ import annotations

import re

import yaml

from cli.help.commands import examples_of_commands
from queries.asking import reports
from queries.dictionary import dictionary, schema_markdown
from sweepdb.catalogue import support_table
from sweepdb.evaluating import options_by_keyword
from sweepdb.evaluating.sweep_file import sweep_keys
from tools.command_reference import command_page
from tools.reference_pages import REFERENCE_PAGES, write_pages
from tools.report_reference import reference_page
from tools.support_page import support_page
from tools.sweep_file_page import sweep_page


def test_the_page_of_commands_has_every_command_and_option_once():
    page = command_page()
    assert sorted(re.findall(r"^### (?:db )?([\w-]+)$", page, re.MULTILINE)) == sorted(examples_of_commands())
    (evaluate,) = re.findall(r"^### evaluate\n.*?(?=^### )", page, re.DOTALL | re.MULTILINE)
    for keyword, item in options_by_keyword().items():
        flag = (item.option.flag or f"--{keyword.replace('_', '-')}").partition("/")[0]
        assert keyword == "model" or evaluate.count(f"`{flag}`") == 1, keyword


def test_the_page_of_reports_has_every_report_with_its_columns():
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", reference_page(), re.DOTALL | re.MULTILINE))
    assert set(sections) == set(reports())
    for name, report in reports().items():
        assert {column.name for column in report.columns} <= set(re.findall(r"`(\w+)`", sections[name])), name


def test_the_page_of_columns_has_every_column_of_every_view():
    page = schema_markdown()
    for relation in dictionary():
        assert f"\n## {relation.name}\n" in page
        assert all(f"| `{column.name}` |" in page for column in relation.columns), relation.name


def test_the_page_of_sweep_files_has_every_key():
    page = sweep_page()
    assert [keyword for keyword in options_by_keyword() if page.count(f"| `{keyword}` |") != 1] == []


def test_the_page_of_support_has_every_part_with_its_state():
    page = support_page()
    assert [(name, part.state) for _, name, part in support_table() if f"| {name} | {part.state} |" not in page] == []


def test_pages_are_written_into_a_folder(tmp_path):
    write_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(REFERENCE_PAGES)


def test_the_example_of_a_sweep_file_is_one():
    (example,) = re.findall(r"```yaml\n(.*?)```", sweep_page(), re.DOTALL)
    sweep_keys().model_validate(yaml.safe_load(example))
