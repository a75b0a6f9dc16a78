"""The how-to for request logs, command by command as it stands, with the logs it names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from document_commands import commands_in, section
from shared_data import shared_data

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "plan-for-requests.md"
COMMANDS = commands_in(section(PAGE, "Lengths of a log"))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What every command of the page prints, in a folder of its own."""
    folder = tmp_path_factory.mktemp("trace")
    for name in ("AzureLLMInferenceTrace_2023_conv.csv", "AzureLLMInferenceTrace_2023_code.csv"):
        (folder / name).symlink_to(shared_data("traces", name).resolve())
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.delenv("SWEEPDB_STORE", raising=False)
    outcomes = [(line.strip(), sweepdb(shlex.split(line)[1:])) for line in COMMANDS]
    patch.undo()
    return outcomes


def test_every_command_of_the_page_answers(printed):
    assert len(printed) == 9
    for line, outcome in printed:
        assert outcome.code == 0, f"{line}\n{outcome.err}"


def said(printed, beginning):
    """What the first command that begins so printed, screen and messages."""
    outcome = next(outcome for line, outcome in printed if line.startswith(beginning))
    return " ".join((outcome.out + outcome.err).split())


def test_what_the_page_says_of_the_log_is_what_is_printed(printed):
    added = said(printed, "sweepdb workloads add conversation")
    assert "~1155/211 (64 bins), mean prompt 1155 tokens, from a trace of 19,366 requests, sha256 2f1e5b66" in added
    plan = said(printed, "sweepdb query pd-ratio")
    first = re.search(r" 1 +4 +tp1pp1dp4 +[\d.]+ +4 +tp4pp1dp1 +[\d.]+ +0 +(8[78]\.\d+) ", plan)
    assert first, plan
    assert "(-32%): too small to hold every bin" in plan
    assert " 12.11 " in plan
    composition = said(printed, "sweepdb query prefill")
    assert re.search(r"tp1pp1dp4 all - - 1\.00 24 24 6 ", composition), composition


def test_what_the_page_says_of_two_logs_is_what_is_printed(printed):
    lines = said(printed, "sweepdb query by-length")
    assert re.search(r"conversation 1154\.7 211\.1 [a-z ]+ tp1pp1dp4 tp4pp1dp1 1\.2\d ", lines), lines
    assert re.search(r"code 2047\.8 27\.83 [a-z ]+ tp1pp1dp4 tp4pp1dp1 12\.\d+ ", lines), lines
    assert said(printed, "sweepdb query mix").count(" conversation 0.7000 ") == 2
