"""Statements with the macros and views that they call written out."""

from __future__ import annotations

import pytest

from queries.narrow.inlining import Look, written_out
from queries.narrow.tokens import is_whole, listed, named, tokens_of

SPLIT = "SELECT * FROM picked('split', 'qps', every_row := getvariable('all_pairs')) AS picks"


PROBES = Look()


def flat(sql, look=PROBES):
    return " ".join(written_out(sql, look).split())


def texts(tokens):
    return [token.text for token in tokens]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a.b >= 1.5e0", ["a", ".", "b", ">", "=", "1.5e0"]),
        ("x -- f(1)\n+ y", ["x", "+", "y"]),
        ("'it''s -- f(1)' || \"a b\"", ["'it''s -- f(1)'", "|", "|", '"a b"']),
        ("f(a := $top)", ["f", "(", "a", ":=", "$", "top", ")"]),
    ],
)
def test_texts_names_and_signs_are_tokens_and_comments_are_not(sql, expected):
    assert texts(tokens_of(sql)) == expected


def test_tokens_put_together_are_the_statement_but_for_space_and_comments():
    assert (
        "".join(map("".join, tokens_of("SELECT a::INT,\n    'b  c' -- no\nFROM t"))) == "SELECT a::INT, 'b  c' FROM t"
    )


def test_arguments_are_parted_by_commas_outside_of_brackets():
    given = [named(one) for one in listed(tokens_of("f(a, b), [1, 2], 'x,y', kept := (SELECT 1, 2)"))]
    assert [(name, "".join(texts(value))) for name, value in given] == [
        ("", "f(a,b)"), ("", "[1,2]"), ("", "'x,y'"), ("kept", "(SELECT1,2)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        ("a", True), ("a.b", True), ("'x + y'", True), ("f(a + b)", True), ("t.f(a)", True), ("(a + b)", True),
        ("[a, b]", True), ("a + b", False), ("(a) + (b)", False), ("-a", False), ("f(a) + 1", False),
    ],
)  # fmt: skip
def test_an_expression_that_an_operator_may_part_gets_brackets(value, whole):
    assert is_whole(tokens_of(value)) == whole


def test_arguments_take_the_place_of_parameters_by_place_by_name_and_by_default():
    # scoped.sql: picked(wanted_phase, wanted_objective, every_row := FALSE) ends in QUALIFY every_row OR row_number() ...
    told = flat(SPLIT)
    assert "QUALIFY getvariable('all_pairs') OR row_number()" in told
    assert "CASE 'qps' WHEN 'qps' THEN qps" in told
    assert "CASE (a + b) WHEN 'qps'" in flat("FROM picked('decode', a + b)")
    assert "CASE ((a) + (b)) WHEN 'qps'" in flat("FROM picked('decode', (a) + (b))")
    assert "QUALIFY FALSE OR row_number()" in flat("FROM picked('decode', 'ttft')")


def test_an_argument_may_hold_commas_brackets_and_texts_that_look_like_calls():
    told = flat("FROM stored_rows((SELECT list({'scenario_id': 1, 'batch_size': f(2, ']')}) FROM shown)) AS p")
    assert "unnest((SELECT list({'scenario_id': 1, 'batch_size': f(2, ']')}) FROM shown), recursive := true)" in told
    assert told.endswith(") AS p")


def test_names_in_texts_comments_and_behind_a_dot_or_an_alias_call_nothing():
    for kept in ("SELECT 'judged(1)', x.judged, x.judged(1) FROM t", "SELECT 1 AS judged", "FROM t AS judged (scoped)"):
        assert flat(kept) == kept
    assert flat("SELECT 1 -- FROM scoped") == "SELECT 1"


def test_values_are_written_out_within_each_other():
    # scoped.sql: mean_length(shortest) AS (1.0 + coalesce(shortest, 1.0)) / 2
    # counts.sql or a report asks of an expression: the argument is one value, whatever stands around the call.
    assert flat("SELECT 2 * mean_length(a + b)") == "SELECT 2 * ((1.0 + coalesce((a + b), 1.0)) / 2)"
    inner = "((1.0 + coalesce(a, 1.0)) / 2)"
    assert flat("SELECT mean_length(mean_length(a))") == f"SELECT ((1.0 + coalesce({inner}, 1.0)) / 2)"


def test_nothing_of_a_session_is_called_by_name_afterwards():
    told = flat(SPLIT)
    called = ("picked", "admitted", "judged", "keeps_limits", "is_wanted", "is_formula", "tpot_by")
    assert not any(f"{name}(" in told for name in called)
    assert "FROM scoped" not in told
    assert "FROM judged_rows" not in told


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look(served=False), "unnest(NULL::STRUCT("),
        (Look(measured=True), "CASE WHEN scenario_id < 0 THEN 0 ELSE"),
        (Look(narrow=True), "FROM narrow"),
        (Look(confident=True), "JOIN factors ON"),
    ],
)
def test_what_stands_for_a_call_is_of_the_rows_that_are_looked_at(look, words):
    asked = "FROM engine_frontier() CROSS JOIN admitted('decode') AS admitted"
    assert words in flat(asked, look)
    assert words not in flat(asked, Look(of_loads=look.of_loads))
