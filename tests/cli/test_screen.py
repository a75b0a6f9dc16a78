"""Answers on a terminal: as wide as it is, short, and with room to limits; pipes get what they always got."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from conftest_terminal import on_terminal
from quick import quick

from cli.output import typed
from cli.render import progress as progress_lines
from cli.render.progress import ProgressBar, ProgressLine
from cli.render.rows import Paragraph, table_lines
from cli.render.screen import on_screen
from cli.visible import be_quiet
from sweepdb.evaluating import Progress

ROOT = Path(__file__).parents[2]
QUESTIONS = [
    "query best --tpot-limit 50",
    "query best --tpot-limit 50 --wide",
    "query pd-ratio --num-devices 64 --tpot-limit 50 --ttft-limit 2000",
    "query capacity --num-devices 32 --tpot-limit 50",
    "query best --tpot-limit 0.5",
    "query curve --top 3",
    "sql SELECT\\ *\\ FROM\\ probe\\ LIMIT\\ 3",
    "sweeps",
    "devices",
    "models",
    "models Qwen/Qwen3-32B",
]


def arguments_of(question, store):
    words = [word.replace("\\ ", " ") for word in re.split(r"(?<!\\) ", question)]
    return [*words, *(() if words[0] in {"devices", "models"} else ("--store", store))]


@pytest.mark.parametrize("width", quick([80, 100, 160]))
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_line_is_as_wide_as_the_terminal_at_most(example_store, question, width):
    shown = on_terminal(arguments_of(question, example_store), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("\n") > 2


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_number_and_no_reference_is_broken(example_store, width):
    arguments = arguments_of("query best --tpot-limit 50", example_store)
    piped = sweepdb(arguments).out
    shown = on_terminal(arguments, width)
    for reference in re.findall(r"\b[0-9a-f]{8}:\d+\b", piped):
        assert reference in shown
    for number in re.findall(r"\d+\.\d+", piped.partition("---\n")[2].partition("\n\n")[0].splitlines()[0])[:2]:
        assert number in shown


def test_what_is_left_out_is_named_and_what_is_common_is_said_once(example_store):
    arguments = arguments_of("query best --tpot-limit 50", example_store)
    narrow, wide = on_terminal(arguments, 80), on_terminal(arguments, 160)
    assert "in every row: " in narrow
    table = narrow.partition("────")[2].partition("\n\n")[0]
    assert "TEST_DEVICE" not in table  # what is said below of a data sheet names it again
    (left_out,) = re.findall(r"not shown: (.*?) \(--wide", " ".join(narrow.split()))
    assert {"concurrency", "memory_free_gib"} <= set(left_out.split(", "))
    assert "not shown" not in wide


def test_a_table_of_every_column_is_turned_and_loses_none(example_store):
    arguments = arguments_of("query best --tpot-limit 50 --wide --top 1", example_store)
    columns = sweepdb(arguments_of("query best --tpot-limit 50 --top 1 --format csv", example_store)).out.splitlines()[
        0
    ]
    shown = on_terminal(arguments, 80)
    names = {line.partition(" ")[0] for line in shown.splitlines()}
    assert set(columns.split(",")) - {"question_group"} <= names
    assert "tp8pp1dp1" in shown  # plans as they are stored


def test_the_room_to_the_nearest_limit_is_a_column(example_store):
    arguments = arguments_of("query best --tpot-limit 50 --ttft-limit 100000", example_store)
    shown = on_terminal(arguments, 160)
    rows = re.findall(r"^ +\d+  TEST_DEVICE.*", shown, re.MULTILINE)
    limits = [float(row["tpot_ms"]) for row in json.loads(sweepdb([*arguments, "--format", "json"]).out)]
    for row, tpot in zip(rows, limits, strict=True):
        left = 100 * (1 - tpot / 50)
        assert f" {left:.{1 if left < 10 else 0}f} % tpot " in row
    assert "slack" in shown
    assert "slack" not in sweepdb(arguments).out
    unlimited = arguments_of("query curve --top 3", example_store)
    assert "slack" not in on_terminal(unlimited, 160)
    missed = on_terminal(arguments_of("query best --tpot-limit 0.5", example_store), 160)
    assert re.search(r"-\d+ % tpot", missed)


def test_plans_are_written_as_people_write_them(example_store):
    shown = on_terminal(arguments_of("query best --tpot-limit 50", example_store), 160)
    assert re.search(r"\bTP8\b", shown)
    assert "tp8pp1dp1" not in shown
    pairs = on_terminal(arguments_of(QUESTIONS[2], example_store), 160)
    assert re.search(r"\d+ x TP\d.* \+ \d+ x TP\d", pairs)
    whole = on_terminal(arguments_of("query deployments --num-devices 64 --tpot-limit 50", example_store), 160)
    assert re.search(r"\d+ x TP\d", whole)
    assert not re.search(r"tp\dpp", whole)


def test_rules_and_assumptions_come_when_asked_for(example_store):
    question = "query best --tpot-limit 50"
    short = on_terminal(arguments_of(question, example_store), 120)
    whole = on_terminal(arguments_of(f"{question} --explain", example_store), 120)
    assert "limits: tpot <= 50 ms, 10 GiB reserved\n" in short
    assert short.rstrip().endswith("rules, cost model and assumptions: --explain")
    for said in ("rules: tpot inclusive", "cost model: theoretical"):
        assert said not in short
        assert said in whole
    # Pipes and files get as little, and as much.
    assert "rules: tpot inclusive" not in sweepdb(arguments_of(question, example_store)).out
    assert "rules: tpot inclusive" in sweepdb(arguments_of(f"{question} --explain", example_store)).out


def test_colours_are_of_a_terminal_that_has_them(example_store, monkeypatch):
    arguments = arguments_of("query best --tpot-limit 50", example_store)
    coloured = re.compile(r"\x1b\[[\d;]*3\dm")
    assert coloured.search(on_terminal(arguments, 100, styled=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(on_terminal(arguments, 100, styled=True))


def test_a_file_is_plain_although_a_terminal_asks(example_store, tmp_path):
    file = tmp_path / "answer.txt"
    arguments = arguments_of("query best --tpot-limit 50", example_store)
    assert on_terminal([*arguments, "--output", str(file)], 80) == ""
    assert file.read_text(encoding="utf-8") == sweepdb(arguments).out


def test_a_terminal_obeys_no_name(example_store):
    shown = on_terminal(["sql", "SELECT chr(27) || '[31mx' AS a, 'y' AS b", "--store", example_store], 80)
    assert "\\x1b[31mx" in shown


def test_pieces_without_a_terminal_are_their_text():
    (table,) = table_lines(["a", "b"], [["x", 1], ["y", 2]])
    assert table == "a  b\n-  -\nx  1\ny  2\n"
    long = "word " * 60
    assert str(Paragraph(long.strip(), unbroken=True)) == f"{long.strip()}\n"


def test_rich_is_imported_by_terminals_alone(example_store):
    told = (
        "import sys; from cli.main import run\n"
        "run(['query', 'best', '--tpot-limit', '50', '--store', sys.argv[1]])\n"
        "print({'rich'} & {*sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", told, example_store], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "set()\n"


@pytest.fixture
def quickly(monkeypatch):
    """Lines of progress every hundredth of a second instead of every few."""
    monkeypatch.setattr(progress_lines, "SAID_EVERY_S", 0.01)


def test_progress_is_lines_where_no_terminal_is(quickly):
    stream = io.StringIO()
    with ProgressBar(stream) as bar:
        bar.show(Progress(scenarios_done=1, scenarios=4, probes_stored=10))
        time.sleep(0.02)
        bar.show(Progress(scenarios_done=2, scenarios=4, probes_stored=20))
        bar.show(Progress(scenarios_done=3, scenarios=4, probes_stored=30))
    assert re.fullmatch(r"2/4 scenarios, [\d,]+ probes/s, 0 s left\n", stream.getvalue())


def test_a_dry_run_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(progress_lines, "SAID_EVERY_S", 0.0)  # counting what ships takes no hundredth of a second
    command = (
        "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --num-devices 8 --input-length 100 --output-length 10"
        " --batch-range 4 --dry-run"
    )
    lines = sweepdb(command).err.splitlines()
    assert any(re.fullmatch(r"\d+/\d+ scenarios counted", line) for line in lines)
    assert lines[-1].endswith("nothing was stored")
    assert sweepdb(f"{command} --quiet").err.splitlines() == lines[-1:]


def test_quiet_draws_no_progress(quickly):
    be_quiet(True)
    try:
        stream = io.StringIO()
        with ProgressLine(stream) as line:
            time.sleep(0.02)
            line.show(1, 2, "things")
        assert stream.getvalue() == ""
    finally:
        be_quiet(False)


def test_a_dry_run_captures_no_operator_that_the_store_has(example_store):
    told = (
        "import sys; from cli.main import run\n"
        "assert run([*sys.argv[1:], '--dry-run']) == 0\n"
        "print('torch' in sys.modules)"
    )
    command = "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500"
    arguments = [*command.split(), "--quantization", "W8A8_DYNAMIC", "--store", example_store]
    done = subprocess.run([sys.executable, "-c", told, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_columns_of_one_name_keep_their_own_cells():
    columns = ("before", "difference", "after", "difference")
    shown = "".join(on_screen(table_lines(columns, [(1, "+2 %", 3, "+4 %")])))
    assert " ".join(shown.splitlines()[-1].split()) == "1 +2 % 3 +4 %"


def test_loads_without_references_have_no_column_of_them(tmp_path):
    store = f"sqlite:///{tmp_path}/store.sqlite"
    asked = "evaluate Qwen/Qwen3-0.6B --device h100_sxm --num-devices 1 --input-length 100 --output-length 20"
    assert sweepdb(f"{asked} --batch-range 8 --arrivals poisson --requests 200 --rates 1,2", store).code == 0
    shown = on_terminal(["query", "capacity", "--rate", "2", "--tpot-limit", "50", "--store", store], 160)
    assert "devices_" in shown
    assert "probes" not in shown.partition("\nQwen/")[2]


def test_a_table_that_nothing_makes_narrow_enough_is_shown_in_parts(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    names = [f"column_{number}" for number in range(12)]
    pieces = table_lines(names, [[row * 1000.5 + number for number in range(12)] for row in range(1, 30)])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "".join(on_screen(pieces)))
    assert max(map(len, shown.splitlines())) <= 40
    for number in range(1, 12):
        assert f"{29 * 1000.5 + number:.1f}" in shown


def test_sentences_with_options_are_broken_at_the_terminals_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    told = Paragraph(
        "Its limits may be missed, and predictions err by more; `confidence=0.8` gives another deployment."
    )
    shown = "".join(on_screen(typed([told])))
    assert "--confidence 0.8 gives" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 60
    unbroken = Paragraph(f"{'limits ' * 20}`tpot_limit`", unbroken=True)
    assert "".join(typed([unbroken])) == f"{'limits ' * 20}--tpot-limit\n"
