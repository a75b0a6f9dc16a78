"""Hostile arguments, statements and stores: one sentence and the exit code of an error, never a traceback."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from conftest_cli import sweepdb
from quick import quick

EVALUATE = "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --input-length 9 --output-length 3 --batch-range 2"
HUGE = "9" * 40


def is_refused(outcome, code):
    assert outcome.code == code, outcome.err
    assert outcome.err.count("error: ") == 1
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.fixture
def made(sqlite_url):
    assert sweepdb("db init", sqlite_url).code == 0
    return sqlite_url


@pytest.mark.parametrize(
    "command",
    ["sql FROM%probe", "sweeps", "query best", "db seal", "measurements list", "export bundle", EVALUATE],
)
@pytest.mark.parametrize("identities", [0, 2])
def test_a_store_without_one_identity_is_damaged(made, tmp_path, monkeypatch, command, identities):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(made.removeprefix("sqlite:///"))) as connection:
        for statement in ("CREATE TABLE kept AS SELECT * FROM store_identity", "DROP TABLE store_identity",
                          "CREATE TABLE store_identity AS SELECT * FROM kept WHERE 0",
                          *["INSERT INTO store_identity SELECT * FROM kept"] * identities, "DROP TABLE kept"):  # fmt: skip
            connection.execute(statement)
        connection.commit()
    outcome = sweepdb([word.replace("%", " ") for word in command.split()], made)
    is_refused(outcome, 3)
    assert f"has {identities} identities instead of one" in outcome.err


@pytest.mark.parametrize("format_", ["table", "csv", "json", "parquet"])
def test_an_empty_output_is_named(made, format_):
    outcome = sweepdb(["sql", "SELECT 1", "--format", format_, "--output", ""], made)
    is_refused(outcome, 2)
    assert "--output names no file" in outcome.err


@pytest.mark.parametrize(
    "sql",
    ["FROM (" * 1000 + "SELECT 1" + ")" * 1000, "SELECT " + "(" * 5000 + "1" + ")" * 5000, "SELECT " + "-" * 99 + "\n", "SELECT " + "9" * 9999 + "::INT"],
    ids=["FROM", "brackets", "comment", "digits"],
)  # fmt: skip
def test_a_hostile_statement_is_one_error(made, sql):
    is_refused(sweepdb(["sql", sql], made), 2)


def test_a_statement_that_is_no_text_is_one_error(made, tmp_path):
    (tmp_path / "bad.sql").write_bytes(b"SELECT \xff")
    is_refused(sweepdb(["sql", "-f", str(tmp_path / "bad.sql")], made), 2)


@pytest.mark.parametrize(
    "option",
    ["input-length", "output-length", "num-devices", "tp-sizes", "max-num-seqs", "batch-range", "mxfp4-group-size"],
)
def test_a_huge_number_is_refused_before_anything_is_stored(tmp_path, option):
    outcome = sweepdb(f"{EVALUATE} --{option} {HUGE}", f"sqlite:///{tmp_path}/new.sqlite")
    is_refused(outcome, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", quick(["[" * 100_000, json.dumps({"format": 1, "parts": [1], "retired": []}),
                                           '{"format": 1, "parts": [], "retired": [["x", 1e999], ["y", 9e999]]}',
                                           '{"format": 1e999}', "9" * 5000, "[]"], 2))  # fmt: skip
def test_a_damaged_manifest_lists_nothing(example_copy, tmp_path, content):
    assert sweepdb("db seal", example_copy).code == 0
    count = ["sql", "SELECT count(*) AS n FROM probe", "--format", "csv"]
    counted = sweepdb(count, example_copy)
    (manifest,) = tmp_path.glob("copy.sqlite.snapshots/manifest.json")
    manifest.write_text(content, encoding="utf-8")
    again = sweepdb(count, example_copy)
    assert (again.code, again.out) == (0, counted.out)
    assert sweepdb("db seal", example_copy).code == 0
