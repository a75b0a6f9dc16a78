"""Result files beside one another without a store: what an engineer would write down from the two files by hand."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest
from client_files import VLLM
from conftest_cli import sweepdb

COLUMNS = ("model", "device", "engine", "engine_version", "input_length", "output_length", "concurrency", "tp",
           "ttft_ms", "tpot_exclusive_ms")  # fmt: skip


def line(users, ttft, tpot, *, version="0.8", output=128, tp=1):
    return ["Qwen/Qwen3-8B", "h100_sxm", "vllm", version, 1024, output, users, tp, ttft, tpot]


def write(path, lines):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *lines])
    return path


@pytest.fixture
def before(tmp_path):
    """One user, and three runs of eight: the median of 100, 110 and 300 is 110."""
    return write(tmp_path / "before.csv", [line(1, 50, 8), line(8, 300, 11), line(8, 100, 9), line(8, 110, 10)])


def compared(*paths, columns=("concurrency", "metric", "only_in")):
    outcome = sweepdb(f"compare {' '.join(map(str, paths))} --format csv")
    assert outcome.code == 0, outcome.err
    rows = csv.DictReader(StringIO(outcome.out))
    changes = [f"{path.name} %" for path in paths[1:]]
    return [[row[name] for name in columns] + [row[path.name] for path in paths] +
            [row[name] and f"{float(row[name]):.1f}" for name in changes] for row in rows], outcome  # fmt: skip


def test_settings_meet_by_lengths_and_load_and_repeated_runs_count_by_their_median(tmp_path, before):
    after = write(
        tmp_path / "after.csv", [line(8, 121, 9, version="0.9", output=129), line(16, 200, 12, version="0.9")]
    )
    rows, outcome = compared(before, after)
    assert rows == [
        ["1.0", "tpot_exclusive_ms_mean", before.name, "8.0", "", ""],
        ["1.0", "ttft_ms_mean", before.name, "50.0", "", ""],
        ["8.0", "tpot_exclusive_ms_mean", "", "10.0", "9.0", "-10.0"],
        ["8.0", "ttft_ms_mean", "", "110.0", "121.0", "10.0"],
        ["16.0", "tpot_exclusive_ms_mean", after.name, "", "12.0", ""],
        ["16.0", "ttft_ms_mean", after.name, "", "200.0", ""],
    ]
    assert (
        f"{before.name}: 4 points of model Qwen/Qwen3-8B, device h100_sxm, engine vllm, engine_version 0.8"
        in outcome.err
    )
    assert (
        f"{after.name}: 2 points of model Qwen/Qwen3-8B, device h100_sxm, engine vllm, engine_version 0.9"
        in outcome.err
    )


def test_a_size_that_differs_within_a_side_is_part_of_the_setting(tmp_path):
    both = [line(8, 100, 9, tp=1), line(8, 60, 6, tp=2)]
    first, other = write(tmp_path / "first.csv", both), write(tmp_path / "other.csv", [line(8, 66, 6, tp=2)])
    rows, _ = compared(first, other, columns=("tp", "metric", "only_in"))
    assert [row for row in rows if row[1] == "ttft_ms_mean"] == [
        ["1", "ttft_ms_mean", first.name, "100.0", "", ""],
        ["2", "ttft_ms_mean", "", "60.0", "66.0", "10.0"],
    ]


def test_a_folder_is_one_side_and_a_file_of_another_client_another(tmp_path):
    """The client's run has 64 users, prompts of 1,024 and answers of 128 tokens: both runs of the folder are these."""
    (tmp_path / "folder").mkdir()
    for name, ttft in (("one", 400.0), ("two", 410.25)):
        run = VLLM | {"mean_ttft_ms": ttft, "duration": 80.0 if name == "one" else 80.5}
        (tmp_path / "folder" / f"{name}.json").write_text(json.dumps(run))
    mine = write(tmp_path / "mine.csv", [line(64, 810.25, 21.5)])
    rows, outcome = compared(tmp_path / "folder", mine)
    assert ["64.0", "ttft_ms_mean", "", "405.125", "810.25", "100.0"] in rows
    assert "folder: 2 points of" in outcome.err


def test_three_sides_are_each_held_against_the_first(tmp_path, before):
    paths = [write(tmp_path / f"{users}.csv", [line(8, users, 10)]) for users in (55, 165)]
    rows, _ = compared(before, *paths)
    assert ["8.0", "ttft_ms_mean", "", "110.0", "55.0", "165.0", "-50.0", "50.0"] in rows


def test_markdown_is_a_table_for_a_comment(tmp_path, before, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "af|ter.csv", [line(8, 121, 9)])
    lines = sweepdb("compare before.csv af|ter.csv --format markdown").out.splitlines()
    assert lines[0] == (
        "| input_length | output_length | concurrency | request_rate | metric | before.csv | af\\|ter.csv"
        " | af\\|ter.csv % | only_in |"
    )
    assert set(lines[1]) == set("| -")
    assert "| 1024.0 | 128.0 | 8.00 | - | ttft_ms_mean | 110.0 | 121.0 | 10.00 | - |" in lines


def test_no_store_is_made(tmp_path, before, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweepdb(f"compare before.csv {write(tmp_path / 'after.csv', [line(8, 1, 1)])}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.csv", "before.csv"]


@pytest.mark.parametrize(
    ("places", "headings"),
    [
        (("main/run.csv", "change/run.csv"), ("main/run.csv", "change/run.csv")),
        (("of/one.csv", "of/one/two.csv"), ("one.csv", "one/two.csv")),
    ],
)
def test_a_heading_is_what_tells_a_side_apart(tmp_path, places, headings):
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / place, [line(8, 100, 9)])
    named = " ".join(str(tmp_path / place) for place in places)
    rows = csv.DictReader(StringIO(sweepdb(f"compare {named} --format csv").out))
    assert rows.fieldnames[-4:] == [*headings, f"{headings[1]} %", "only_in"]


def test_a_line_that_cannot_be_read_is_named_and_the_others_are_compared(tmp_path, before):
    after = write(tmp_path / "after.csv", [line(8, "fast", 9), line(8, 121, 9)])
    outcome = sweepdb(f"compare {before} {after} --format csv")
    assert outcome.code == 4
    assert "after.csv:2: ttft_ms: 'fast' is not a number" in outcome.err
    assert "1 line could not be read; the others are compared." in outcome.err
    assert "121.0" in outcome.out


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ("", "needs two files or folders"),
        ("{before}", "one is named twice"),
        ("{folder}/none.json", "none.json: no such file or directory"),
        ("{folder}/bad.csv", "bad.csv holds no point that can be read: bad.csv:2: ttft_ms: 'fast' is not a number"),
        ("{before} --format pdf", "--format pdf is not one of"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, before, others, said):
    write(tmp_path / "bad.csv", [line(8, "fast", 9)])
    outcome = sweepdb(f"compare {before} {others.format(before=before, folder=tmp_path)}")
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""


def test_a_file_of_one_word_is_named_as_it_was_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sweepdb("compare before after").err == "error: before: no such file or directory.\n"
