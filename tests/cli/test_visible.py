"""Control characters in names reach no terminal: shown escaped, wherever text is written."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from conftest_cli import sweepdb

from cli.output import say, write_rows, write_text
from cli.visible import visible

RED = "\x1b[31mred"
ROOT = Path(__file__).parents[2]
# Who writes to a stream: the two functions of cli.output and those that pass text through `visible` on the same line.
# A terminal's tables are captured, of cells that `visible` has been through. Progress lines write controls on purpose, and numbers; a drawn curve has its own colours on a terminal.
WRITERS = {"cli/output.py", "cli/render/progress.py", "cli/inference/throughput_optimizer.py", "cli/commands/calibrating.py",
           "cli/render/screen.py"}  # fmt: skip
FIXED = re.compile(r'write\(f?"(error: this is a bug|sweepdb \{version)')


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (RED, r"\x1b[31mred"),
        ("a\rb\x07\x7f\x9b", r"a\x0db\x07\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("tab\tand\nline, Grüße, 模型", "tab\tand\nline, Grüße, 模型"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text, shown):
    assert visible(text) == shown


def test_a_cell_is_one_line_of_its_table(capsys):
    write_rows(["name\x1b", "b"], [[f"{RED}\nnext", 1], ["plain", 2]], "table")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.splitlines()[2].split() == [r"\x1b[31mred", "next", "1"]
    assert len({line.rindex(digit) for line, digit in zip(shown.splitlines()[2:], "12", strict=True)}) == 1


def test_csv_is_exact_for_programs_and_escaped_for_a_terminal(capsys, monkeypatch, tmp_path):
    write_rows(["name"], [[RED]], "csv")
    assert capsys.readouterr().out == f"name\n{RED}\n"
    write_rows(["name"], [[RED]], "csv", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == f"name\n{RED}\n"
    monkeypatch.setattr(sys, "stdout", Terminal())
    write_rows(["name"], [[RED]], "csv")
    assert sys.stdout.getvalue() == "name\n\\x1b[31mred\n"


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_json_escapes_every_control_and_keeps_the_value(capsys, format_):
    text = "\x1b\x7f\x9b\ud800 é"
    write_rows(["name"], [[text]], format_)
    shown = capsys.readouterr().out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800]", shown)
    found = json.loads(shown)
    assert (found[0] if format_ == "json" else found) == {"name": text}


def test_text_and_notes_are_escaped(capsys):
    write_text([f"{RED}\n"])
    say(RED)
    assert capsys.readouterr() == ("\\x1b[31mred\n", "\\x1b[31mred\n")


def test_names_of_the_user_are_shown_escaped(example_copy):
    unknown = sweepdb(["evaluate", RED, "--device", RED], example_copy)
    assert unknown.code == 2
    labelled = sweepdb(["query", "best", "--tpot-limit", "50", "--workload", RED], example_copy)
    cell = sweepdb(["sql", "SELECT chr(27) || 'x' AS a, 'y' AS \"b\x1b\""], example_copy)
    assert "\\x1bx" in cell.out
    for outcome in (unknown, labelled, cell):
        assert "\x1b" not in outcome.out + outcome.err


def test_every_writer_to_a_stream_is_known():
    for path in (ROOT / "cli").rglob("*.py"):
        name = str(path.relative_to(ROOT))
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"\bprint\(|typer\.echo|std(out|err)\.write", line):
                assert name in WRITERS or "visible(" in line or FIXED.search(line), f"{name}: {line.strip()}"
