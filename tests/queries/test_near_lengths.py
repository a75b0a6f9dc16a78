"""Lengths that clients count: runs whose lengths differ a little are runs of one setting, asked-for lengths stay."""

from dataclasses import replace
from statistics import median

import pytest
from measured_points import point

from queries.asking.question import question_of
from queries.connect import connect
from queries.measured_rows import met, runs_meet
from queries.proofs import verify_proof, write_proof
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.writing import put_measurements

COUNTED = [(1023.4, 127.1), (1024.8, 126.2), (1022.9, 127.1)]  # of three runs of one setting
TTFT = (90.0, 100.0, 98.0)


@pytest.mark.parametrize(
    ("runs", "as_settings"),
    [
        ([(1023.4, 127.1), (1024.0, 128.0)], [(1024.0, 128.0)] * 2),  # a whole length near it
        ([(1024.0, 128.0), (1030.0, 128.0)], [(1024.0, 128.0), (1030.0, 128.0)]),  # both were asked for
        ([(10.5, 5.0), (10.6, 5.0), (10.6, 5.0)], [(10.6, 5.0)] * 3),  # the one that most runs have
        ([(100.5, 50.5), (102.6, 50.5)], [(100.5, 50.5), (102.6, 50.5)]),  # 2.1 % apart
        ([(100.5, 50.5), (100.5, 51.6)], [(100.5, 50.5), (100.5, 51.6)]),  # 2.2 % apart in answers
        ([(100.5, None), (100.6, None), (100.5, 50.5)], [(100.5, None), (100.5, None), (100.5, 50.5)]),
        # Of pairs that as many runs have, the first by its digits stands for the others; 102.6 is 2.1 % from it.
        ([(101.5, 9.5), (100.5, 9.5), (102.6, 9.5)], [(100.5, 9.5), (100.5, 9.5), (102.6, 9.5)]),
        ([], []),
    ],
)
def test_what_counted_lengths_mean(runs, as_settings):
    assert met(runs) == as_settings


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/runs.sqlite"
    points = [
        replace(point(8 * run + users, device="H100_SXM", tp=1, users=users, ttft_ms_mean=ttft * users, tpot_exclusive_ms_mean=8.0,
                      output_tokens_per_s=100.0 * users), input_length=prompt, output_length=answer)
        for run, ((prompt, answer), ttft) in enumerate(zip(COUNTED, TTFT, strict=True)) for users in (1, 4)
    ]  # fmt: skip
    with open_store(url, create=True) as store:
        put_measurements(store, points)
    return url


def test_repeated_runs_are_one_row_with_their_median(url):
    with Session(parse_url(url)) as session:
        answer = session.ask(question_of("curve", {"rows": "measured"}))
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [(row["concurrency"], row["ttft_ms"]) for row in rows] == [(1, median(TTFT)), (4, 4 * median(TTFT))]


def test_settings_are_exact_for_sql_and_meet_where_runs_do(url):
    counted = "SELECT count(*), max(runs) FROM measured_setting"
    with connect(url) as connection:
        assert connection.execute(counted).fetchall() == [(6, 1)]
        with runs_meet(connection.duckdb):
            assert connection.execute(counted).fetchall() == [(2, 3)]
        assert connection.execute(counted).fetchall() == [(6, 1)]


def test_a_proof_names_every_run_behind_a_row(url, tmp_path):
    path = tmp_path / "proof.json"
    with Session(parse_url(url)) as session:
        answer = session.ask(question_of("best", {"rows": "measured"}))
        assert {key for key, _ in session.points()} == {point(8 * run + users, device="H100_SXM", tp=1, users=users).key
                                                        for run in range(3) for users in (1, 4)}  # fmt: skip
        write_proof(answer, path, parse_url(url), session.pinned(), points=session.points())
    assert verify_proof(path, parse_url(url)).startswith("verified: ")
