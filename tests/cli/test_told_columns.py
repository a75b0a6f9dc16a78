"""An answer that is only for a table has fewer columns: the same rows in the same order, and the same text."""

from __future__ import annotations

import pytest
from served_store import write_served

from cli.render.answers import answer_lines
from queries.asking import question_of, report, reports
from queries.asking.headers import told_columns
from queries.asking.library import variants_of
from queries.narrow.scope_tables import only_told
from queries.session import Session
from store.location import parse_url
from store.schema import words_of

ASKED = [
    ("best", {"tpot_limit": 60.0, "top": 4}),
    ("best", {"num_devices": 16}),
    ("best", {"tpot_limit": 1e-6}),
    ("prefill", {"rank_by": "qps"}),
    ("decode", {"min_tokens_per_s_per_user": 30.0}),
    ("pd-ratio", {"num_devices": 16}),
    ("pareto", {"max_points": 20}),
    ("deployments", {"num_devices": 16}),
    ("sensitivity", {"vary": "ttft"}),
    ("capacity", {}),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('told')}/store.sqlite"
    write_served(url)
    with Session(parse_url(url)) as opened:
        yield opened


@pytest.mark.parametrize(("report", "options"), ASKED)
def test_a_table_is_the_same_without_the_columns_that_it_does_not_show(session, report, options):
    question = question_of(report, options)
    full = session.ask(question)
    for answer in (session.ask(question, for_table=True), session.ask(question, for_table=True)):
        places = [full.columns.index(name) for name in answer.columns]
        assert answer.rows == tuple(tuple(row[place] for place in places) for row in full.rows)
        assert [str(line) for line in answer_lines(answer, wide=False)] == [
            str(line) for line in answer_lines(full, wide=False)
        ]
    assert full.rows or full.nearest


def test_of_a_row_that_is_ranked_a_table_needs_a_quarter(session):
    question = question_of("best", {"tpot_limit": 60.0})
    assert len(session.ask(question, for_table=True).columns) * 4 < len(session.ask(question).columns)


def test_a_first_answer_is_cut_as_later_ones_are(session):
    with Session(session.location) as fresh:
        question = question_of("best", {"tpot_limit": 60.0})
        first = fresh.ask(question, for_table=True)
        full = fresh.ask(question)
    assert first.rows == tuple(tuple(row[full.columns.index(name)] for name in first.columns) for row in full.rows)


def test_a_first_table_reads_no_column_that_it_does_not_show_or_need(session, monkeypatch):
    planned = []
    monkeypatch.setattr(
        "queries.narrow.scope_tables.only_told", lambda *asked: planned.append(only_told(*asked)) or planned[-1]
    )
    with Session(session.location) as fresh:
        fresh.ask(question_of("best", {"tpot_limit": 60.0}), for_table=True)
        views = fresh._connection.duckdb.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    (statement,) = planned
    # A row's plan and memory are shown or limited; its store of cached prompts and its encoder are neither.
    assert {"plan", "weight_bytes", "ttft_ms"} <= words_of(statement)
    assert not {"ssd_hit_rate", "encoder_split", "first_sweep", "decode_step_p99_ms"} & words_of(statement)
    assert not {("probe",), ("stored_probe",)} & set(views)


def test_a_verdict_reads_columns_that_no_table_shows_so_that_all_are_there():
    judged = [one for one in reports().values() if one.verdict is not None]
    assert {one.name for one in judged if variants_of(one)} >= {"best by goodput"}
    for one in judged:
        for name in (one.name, *variants_of(one)):
            assert told_columns(one, report(name)) is None
