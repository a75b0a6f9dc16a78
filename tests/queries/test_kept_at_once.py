"""Few probes among many others are kept at the first question: the same answers, and the files are read once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from generator import MODELS, PLANS, block, sweep_record
from queries_stores import mission_records

from queries.asking import question_of
from queries.narrow import kept_rows, scope_tables
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.parts import ShardBlock, part_shelf, register_part, write_part
from store.writing import begin_sweep, finish_sweep, put_scenarios

ASKED = [
    ("best", {"tpot_limit": 20.0}),
    ("best", {"tpot_limit": 60.0, "ttft_limit": 3000.0, "top": 4}),
    ("pd-ratio", {"num_devices": 16, "tpot_limit": 60.0}),
    ("pareto", {}),
    ("sensitivity", {"vary": "tpot"}),
    ("curve", {}),
    ("best", {"tpot_limit": 0.0001}),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store whose probes lie in one part."""
    folder = tmp_path_factory.mktemp("parts")
    with open_store(f"sqlite:///{folder}/store.sqlite", create=True) as store:
        records = [one for one in mission_records(models=(MODELS[4],), plans=PLANS[:4]) if one.status == "ok"]
        sweep_id = begin_sweep(store, sweep_record(key="a"))
        blocks = [
            ShardBlock(
                scenario_id=ref.id,
                scenario_key=ref.key,
                replicas=record.subject.plan.dp * record.subject.plan.pp,
                record=block(record, 1, 12),
            )
            for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True)
        ]
        register_part(store, sweep_id, "b" * 64, write_part(part_shelf(store), "b" * 64, blocks))
        finish_sweep(store, sweep_id, "finished")
    return parse_url(store.url)


@pytest.fixture
def scattered(monkeypatch):
    """Every part counts as many probes among which a scope is scattered."""
    monkeypatch.setattr(scope_tables, "MUCH_BYTES", 1)
    monkeypatch.setattr(scope_tables, "_SCATTERED", 1e-9)


def is_kept(session):
    tables = session._connection.duckdb.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    return ("kept",) in tables


def answered(session, name, options):
    return replace(session.ask(question_of(name, options)), sql="")


@pytest.mark.parametrize(("name", "options"), ASKED)
def test_a_first_answer_from_memory_is_the_answer_of_the_files(place, monkeypatch, name, options):
    with Session(place) as plain:
        expected = answered(plain, name, options)
        assert not is_kept(plain)
    assert expected.rows or expected.nearest
    monkeypatch.setattr(scope_tables, "MUCH_BYTES", 1)
    monkeypatch.setattr(scope_tables, "_SCATTERED", 1e-9)
    with Session(place) as session:
        assert answered(session, name, options) == expected
        assert is_kept(session)


@pytest.mark.usefixtures("scattered")
def test_what_is_kept_is_not_read_again(place):
    with Session(place) as session:
        first = answered(session, "best", {"tpot_limit": 60.0})
        statements = []
        real = session._connection.duckdb
        session._connection.duckdb = Recorded(real, statements)
        assert answered(session, "best", {"tpot_limit": 60.0}).rows == first.rows
        assert any("narrow" in one for one in statements)
        assert not any("temp table kept as" in one.lower() for one in statements)


class Recorded:
    """A connection that tells what it is asked."""

    def __init__(self, real, statements):
        self._real, self._statements = real, statements

    def __getattr__(self, name):
        return getattr(self._real, name)

    def execute(self, sql, *rest):
        self._statements.append(sql)
        return self._real.execute(sql, *rest)


@pytest.mark.usefixtures("scattered")
@pytest.mark.parametrize("limit", ["memory", "probes"])
def test_what_takes_too_much_memory_or_time_waits_until_it_is_asked_again(place, monkeypatch, limit):
    if limit == "memory":
        monkeypatch.setenv(kept_rows.MEMORY, "0")
    else:
        monkeypatch.setattr(scope_tables, "MOST_AT_ONCE", 5)
    with Session(place) as session:
        answered(session, "best", {"tpot_limit": 60.0})
        assert not is_kept(session)
