"""Session variables: their values and types survive the text they are set by, and limits still reach the files."""

from __future__ import annotations

import duckdb
import pytest
from generator import MODELS, PLANS
from hypothesis import given
from hypothesis import strategies as st
from queries_stores import mission_records, write_sweep

from queries.asking.limit_sql import with_limits
from queries.asking.macros import macros, shared_text
from queries.asking.question import question_of
from queries.asking.variables import known_variables, settings
from queries.session import Session
from store.location import parse_url
from store.schema import filled


def held(connection, name, value):
    """What a variable holds after it was set, and its type."""
    connection.execute("\n".join(settings({name: value}).values()))
    return connection.execute(f"SELECT getvariable('{name}'), typeof(getvariable('{name}'))").fetchone()


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_held_to_the_last_bit(value):
    with duckdb.connect() as connection:
        assert held(connection, "ttft_limit_ms", value) == (value, "DOUBLE")


@pytest.mark.parametrize(
    ("name", "value", "type_"),
    [
        ("ttft_limit_ms", 500, "DOUBLE"),
        ("ttft_limit_ms", None, "DOUBLE"),
        ("num_devices", None, "BIGINT"),
        ("all_pairs", True, "BOOLEAN"),
        ("prefill_device", "it's", "VARCHAR"),
        ("mix_workloads", ["a", "b'"], "VARCHAR[]"),
        ("mix_weights", [], "DOUBLE[]"),
    ],
)
def test_a_variable_has_its_type_whatever_it_holds(name, value, type_):
    with duckdb.connect() as connection:
        assert held(connection, name, value) == (value, type_)


def test_every_statement_of_the_shared_files_is_known_by_name_and_comes_after_those_it_calls():
    with duckdb.connect() as connection:
        statements = connection.extract_statements(with_limits(filled(shared_text())))
    assert len(statements) == len(macros())
    known: set[str] = set()
    for name, macro in macros().items():
        assert macro.calls <= known
        known.add(name)


def test_every_variable_says_what_null_means():
    assert all(variable.type and variable.null for variable in known_variables().values())


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A sealed store."""
    address = f"sqlite:///{tmp_path_factory.mktemp('sealed')}/store.sqlite"
    write_sweep(address, mission_records(models=MODELS[4:5], plans=PLANS[:3]), key="1", sizes=8)
    return address


def test_a_limit_is_compared_while_the_file_is_read(url):
    with Session(parse_url(url)) as session:
        answer = session.ask(question_of("prefill", {"ttft_limit": 300.0}))
        ((_, plan),) = session._connection.duckdb.execute(f"EXPLAIN {session._tables.ready(answer.sql)}").fetchall()
    flat = " ".join(plan.replace("\u2502", " ").split())
    assert "ttft_ms <= 300.0" in flat or "ttft_ms<=300.0" in flat, plan


def test_an_answer_does_not_depend_on_what_was_asked_before(url):
    narrow = question_of("best", {"tpot_limit": 20.0, "num_devices": 8, "top": 2, "rank_by": "qps"})
    with Session(parse_url(url)) as session:
        first = session.ask(question_of("best", {}))
        session.ask(narrow)
        again = session.ask(question_of("best", {}))
    assert again.rows == first.rows
