"""Statements with the tables that they call written out."""

from __future__ import annotations

import pytest

from queries.narrow.inlining import Look, functions_of, written_out

SPLIT = "SELECT * FROM picked('split', 'qps', every_row := getvariable('all_pairs')) AS picks"


PROBES = Look()


def flat(sql, look=PROBES):
    return " ".join(written_out(sql, look).split())


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
    assert flat("SELECT 'judged(1)', x.judged FROM t") == "SELECT 'judged(1)', x.judged FROM t"


def test_nothing_of_a_session_is_called_by_name_afterwards():
    told = flat(SPLIT)
    assert not any(f" {name}(" in told for name in ("picked", "admitted", "judged"))
    assert "FROM scoped" not in told
    assert "FROM judged_rows" not in told
    # What is left are functions of values, each after those that it calls.
    names = [one.name for one in functions_of(told, of_loads=False)]
    assert {"keeps_limits", "is_wanted", "is_formula"} <= set(names)
    assert names.index("is_formula") < names.index("own_tpot") < names.index("tpot_by")


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (Look(served=False), "unnest(NULL::STRUCT("),
        (Look(measured=True), "UNION ALL"),
        (Look(narrow=True), "FROM narrow"),
        (Look(confident=True), "JOIN factors ON"),
    ],
)
def test_what_stands_for_a_call_is_of_the_rows_that_are_looked_at(look, words):
    asked = "FROM engine_frontier() CROSS JOIN admitted('decode') AS admitted"
    assert words in flat(asked, look)
    assert words not in flat(asked, Look(of_loads=look.of_loads))
