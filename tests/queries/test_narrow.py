"""A question asked again is answered from what is kept in memory: the same rows as from the store, ties and all."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
from examples import examples
from generator import MODELS, PLANS, PRECISIONS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queries_stores import mission_records, write_sweep
from served_store import write_served

from queries.asking import question_of, reports
from queries.asking.limits import predicted_limits
from queries.narrow.kept_rows import MEMORY
from queries.session import Session
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store
from store.writing.voiding import void

NARROW = sorted(
    name for name, one in reports().items() if "narrow" in one.reads and one.part_of is None and name != "nearest"
)


@contextmanager
def memory(gib):
    """Sessions of a block keep that much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MEMORY, str(gib))
        yield


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A store of formulas in which precisions tie, one as an engine serves, and one of many batch sizes."""
    folder = tmp_path_factory.mktemp("narrow")
    urls = {name: f"sqlite:///{folder}/{name}.sqlite" for name in ("formulas", "served")}
    records = [
        record
        for precision in PRECISIONS
        for record in mission_records(models=(MODELS[4],), plans=PLANS[:4], precision=precision)
    ]
    write_sweep(urls["formulas"], records, key="a", sizes=12)
    write_served(urls["served"])
    # Enough batch sizes for rates to fall again.
    few = mission_records(models=(MODELS[4],), plans=PLANS[:1])
    urls["saturated"] = f"sqlite:///{folder}/saturated.sqlite"
    write_sweep(urls["saturated"], few, key="a", sizes=300)
    return {name: parse_url(url) for name, url in urls.items()}


@pytest.fixture(scope="module")
def sessions(places):
    """For each store two sessions, one of which never keeps anything."""
    opened = {name: (Session(places[name]), Session(places[name])) for name in ("formulas", "served")}
    yield opened
    for pair in opened.values():
        for session in pair:
            session.close()


def answered(session, question):
    """Everything about an answer but its wall time; a refusal as its sentence."""
    try:
        answer = session.ask(question)
    except InputError as error:
        return str(error)
    return replace(answer, sql="")


LIMITS = {
    "tpot_limit": st.sampled_from((None, 5.0, 9.0, 20.0, 60.0)),
    "ttft_limit": st.sampled_from((None, 40.0, 200.0, 3000.0)),
    "e2e_limit": st.sampled_from((None, None, None, 2000.0, 20000.0)),
    "reserved_memory_gb": st.sampled_from((0.0, 10.0, 30.5, 60.0)),
    "confidence": st.sampled_from((None, None, 0.8)),
    "num_devices": st.sampled_from((None, 8, 32)),
    "preset": st.sampled_from(("sweepdb", "upstream", "seed001")),
    "top": st.integers(1, 6),
    "all_pairs": st.booleans(),
    "min_tokens_per_s_per_user": st.sampled_from((None, 30.0, 90.0)),
    "rank_by": st.sampled_from((None, None, "qps", "throughput", "throughput-per-device", "tpot", "batch-size")),
}


def drawn(data):
    """A question with options that its report takes."""
    report = data.draw(st.sampled_from(NARROW), label="report")
    options = {name: data.draw(values, label=name) for name, values in LIMITS.items()}
    if options["tpot_limit"] is None and options["ttft_limit"] is None:
        options["confidence"] = None
    if report == "sensitivity":
        options["vary"] = data.draw(st.sampled_from(("ttft", "tpot", "memory", "tpot,memory")))
    if report == "curve":
        options = {name: options[name] for name in ("reserved_memory_gb", "preset", "top")}
    if report == "pd-counts":
        options["num_devices"] = options["num_devices"] or 16
    if report not in {"pd-ratio", "devices"}:
        options["all_pairs"] = None
    if report not in {"best", "prefill", "decode", "devices"}:
        options["rank_by"] = None
    return question_of(report, options)


def same_as_the_store_says(sessions, data):
    """Ask twice where rows are kept, and once where they are not."""
    long, narrow = sessions[data.draw(st.sampled_from(("formulas", "served")), label="store")]
    question = drawn(data)
    with memory(0):
        expected = answered(long, question)
    answered(narrow, question)
    assert answered(narrow, question) == expected


HEALTHY = list(HealthCheck)


@pytest.mark.parametrize(
    ("store", "report", "options"),
    [
        ("formulas", "best", {"ttft_limit": 3000.0, "top": 4}),
        ("formulas", "pd-ratio", {"num_devices": 16}),
        ("served", "deployments", {"num_devices": 16}),
    ],
)
def test_a_moved_limit_finds_in_memory_what_the_store_has(sessions, store, report, options):
    long, narrow = sessions[store]
    for limit in (60.0, 9.0, 20.0):
        answer = answered(narrow, question_of(report, {**options, "tpot_limit": limit}))
    with memory(0):
        expected = answered(long, question_of(report, {**options, "tpot_limit": limit}))
    assert answer == expected
    assert answer.rows


@pytest.mark.long
@settings(max_examples=examples(300), deadline=None, suppress_health_check=HEALTHY)
@given(data=st.data())
def test_every_moved_limit_finds_in_memory_what_the_store_has(sessions, data):
    same_as_the_store_says(sessions, data)


WINNERS = """
    SELECT lots.lot, p.batch_size, p.*, w.batch_size IS NOT NULL AS can_win
    FROM lots
    JOIN scoped AS p ON p.scenario_id = lots.scenario_id AND p.question_group = lots.question_group
    LEFT JOIN winners AS w ON w.scenario_id = p.scenario_id AND w.batch_size = p.batch_size
    ORDER BY lots.lot, p.batch_size
"""
RATES = {
    "prefill": ("prefill_capacity_requests_per_s", "prefill_ttft_requests_per_s", "input_tokens_per_s"),
    "decode": ("decode_minus_one_requests_per_s", "decode_full_requests_per_s", "output_tokens_per_s"),
    "aggregated": ("requests_per_s", "output_tokens_per_s", "output_tokens_per_s_twice"),
}


def comes_before(one, other):
    """Whether a row is admitted wherever another is, and stands before it in every order and on every frontier."""
    limited = [(column, limit.least) for limit in predicted_limits() for column in limit.predicted]
    limited += [("kv_cache_bytes", False), ("kv_cache_mean_bytes", False), ("activation_bytes", False)]
    limited += [(rate, True) for rate in RATES[one["phase"]]]
    return one["batch_size"] < other["batch_size"] and all(
        other[name] is None or (one[name] >= other[name] if most else one[name] <= other[name])
        for name, most in limited
    )


@pytest.mark.parametrize("report", ["best", "pd-ratio"])
@pytest.mark.parametrize("store", ["saturated", "served"])
def test_a_row_that_cannot_win_stands_behind_one_that_is_no_worse(places, store, report):
    with Session(places[store]) as session:
        for limit in (60.0, 20.0):
            session.ask(question_of(report, {"tpot_limit": limit}))
        session._tables.show_every_row()
        cursor = session._connection.duckdb.execute(WINNERS)
        rows = [dict(zip([item[0] for item in cursor.description], row, strict=True)) for row in cursor.fetchall()]
    lots = {}
    for row in rows:
        before = lots.setdefault(row["lot"], [])
        fits = row["weight_bytes"] + row["activation_bytes"] + row["kv_cache_mean_bytes"] <= row["device_memory_bytes"]
        assert row["can_win"] or not fits or any(comes_before(one, row) for one in before)
        before.append(row)
    winning = sum(row["can_win"] for row in rows)
    assert 0 < winning <= len(rows)
    assert store == "served" or winning < len(rows)


def test_phases_that_nobody_asked_about_stay_in_the_store(places):
    with Session(places["formulas"]) as session, Session(places["formulas"]) as fresh:
        kept = session._connection.duckdb
        for limit in (60.0, 20.0):
            session.ask(question_of("best", {"tpot_limit": limit}))
        assert kept.execute("SELECT DISTINCT phase FROM named").fetchall() == [("aggregated",)]
        for question in (question_of("pd-ratio", {"num_devices": 16}), question_of("best", {"tpot_limit": 9.0})):
            assert answered(session, question) == answered(fresh, question)
        assert kept.execute("SELECT count(DISTINCT phase) FROM named").fetchall() == [(3,)]


def test_every_kind_of_question_is_asked_of_the_narrow_table():
    assert {
        "best",
        "prefill",
        "decode",
        "pareto",
        "sensitivity",
        "curve",
        "capacity",
        "pd-ratio",
        "deployments",
    } <= set(NARROW)


def test_what_is_voided_between_questions_is_gone_after_a_refresh(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    place = parse_url(url)
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:3], phases=("aggregated",)), key="a", sizes=6)
    with Session(place) as session, Session(place) as fresh:
        question = question_of("best", {"tpot_limit": 60.0})
        first, again = session.ask(question), session.ask(question)
        assert first.rows == again.rows
        gone = dict(zip(first.columns, first.rows[0], strict=True))["scenario"]
        with open_store(url) as store:
            void(store, gone, "a test")
        assert session.ask(question).rows == first.rows  # one moment
        session.refresh()
        left = session.ask(question)
        assert gone not in {row[left.columns.index("scenario")] for row in left.rows}
        assert session.ask(question).rows == left.rows == fresh.ask(question).rows
