"""Requests that arrive, played by workers: the same loads as one process stores, each once, whoever fails."""

from __future__ import annotations

import pytest
from conftest_loads import evaluate_loads

from queries.connect import connect
from store.opening import open_store
from store.upkeep import check_store
from sweepdb.working import coordinating
from sweepdb.working.process_engine import InlineEngine
from sweepdb.working.tasks import run_shard


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "1")


def loads(url):
    with connect(url) as connection:
        found = connection.execute("SELECT * FROM load LIMIT 0").description
        names = [name for name, *_ in found if name not in {"load_id", "created_at", "arrival_id", "scenario_id"}]
        return connection.execute(f"SELECT {', '.join(names)} FROM load ORDER BY scenario, arrivals_per_s").fetchall()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The loads that one process stores: three scenarios at four rates."""
    url = f"sqlite:///{tmp_path_factory.mktemp('alone')}/store.sqlite"
    evaluate_loads(url, rates=[1.0, 2.0, 3.0, 4.0])
    found = loads(url)
    assert len(found) == 12
    return found


def test_workers_store_the_loads_of_one_process(store, expected):
    first = evaluate_loads(store.url, rates=[1.0, 2.0], workers="shard:1/1")
    assert (first.loads_stored, first.loads_known, first.unplayed) == (6, 0, ())
    assert first.probes_stored > 0
    more = evaluate_loads(store.url, rates=[1.0, 2.0, 3.0, 4.0], workers="shard:1/1")
    assert (more.loads_stored, more.loads_known, more.probes_stored) == (6, 6, 0)
    assert loads(store.url) == expected
    again = evaluate_loads(store.url, rates=[1.0, 2.0, 3.0, 4.0])
    assert (again.loads_stored, again.loads_known) == (0, 12)
    assert check_store(store.location).faults == ()


def test_requests_are_kept_where_a_load_is_there_without_them(store):
    evaluate_loads(store.url, rates=[1.0], workers="shard:1/1")
    kept = evaluate_loads(store.url, rates=[1.0], workers="shard:1/1", keep_requests=True)
    assert (kept.loads_stored, kept.loads_known) == (0, 3)
    with open_store(store.url) as opened, opened.reading() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM load_request").scalar_one() == 3
    again = evaluate_loads(store.url, rates=[1.0], workers="shard:1/1", keep_requests=True)
    assert (again.loads_stored, again.loads_known) == (0, 3)


def test_a_worker_that_dies_after_playing_stores_nothing_twice(store, expected, monkeypatch):
    attempts = []

    def dies_once(task):
        attempts.append(task.attempt)
        outcome = run_shard(task)
        if task.attempt == 1:
            raise ConnectionError("gone before it could say so")
        return outcome

    monkeypatch.setattr(coordinating, "engine_of", lambda _: InlineEngine(dies_once))
    report = evaluate_loads(store.url, rates=[1.0, 2.0, 3.0, 4.0], workers="processes:1")
    assert sorted(attempts) == [1, 1, 1, 2, 2, 2]  # a scenario a shard
    assert report.loads_stored + report.loads_known == 12
    assert loads(store.url) == expected
    assert check_store(store.location).faults == ()


def test_a_scenario_that_cannot_be_played_is_named_and_the_others_are(sqlite_url, monkeypatch):
    from sweepdb.working import playing

    real = playing.scenario_loads

    def poisoned(scenario, *rest):
        if scenario.phase == "decode":
            raise ZeroDivisionError("poisoned")
        return real(scenario, *rest)

    monkeypatch.setattr(playing, "scenario_loads", poisoned)
    report = evaluate_loads(sqlite_url, rates=[1.0], workers="shard:1/1")
    assert report.loads_stored == 2
    (unplayed,) = report.unplayed
    assert (unplayed.status, unplayed.reason, unplayed.scenarios) == ("error", "ZeroDivisionError: poisoned", 1)
    assert report.probes_stored > 0


def test_the_shares_of_an_array_play_every_scenario_once(sqlite_url, expected):
    made = []
    for share in (1, 2):
        report = evaluate_loads(sqlite_url, rates=[1.0, 2.0, 3.0, 4.0], workers=f"shard:{share}/2")
        made.append(report.loads_stored)
    assert sorted(made) == [4, 8]
    assert loads(sqlite_url) == expected
