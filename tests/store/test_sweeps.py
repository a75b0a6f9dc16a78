from datetime import UTC, datetime, timedelta

import pytest
from generator import fill, sweep_record
from sqlalchemy import insert, text

from store.errors import InputError
from store.schema.sql_tables import SWEEP
from store.sweep_list import list_sweeps, show_sweep
from store.writing import begin_sweep, finish_sweep

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_list_is_newest_first_whatever_the_order_of_writing(store):
    for day in (3, 1, 2):
        begin_sweep(store, sweep_record(key=f"{day}" * 32, started_at=START + timedelta(days=day)))
    assert [sweep.key[0] for sweep in list_sweeps(store.location)] == ["3", "2", "1"]
    assert [sweep.key[0] for sweep in list_sweeps(store.location, limit=1)] == ["3"]
    assert list_sweeps(store.location)[0].started_at == START + timedelta(days=3)


def test_sweeps_of_one_moment_keep_an_order(store):
    for letter in "abc":
        begin_sweep(store, sweep_record(key=letter * 32, started_at=START))
    assert [sweep.key[0] for sweep in list_sweeps(store.location)] == ["c", "b", "a"]


def test_a_summary_tells_what_was_asked_and_how_it_ended(store):
    filled = fill(store.url, probes=800)
    sweeps = list_sweeps(store.location)
    assert sum(sweep.probes_stored for sweep in sweeps) == filled.probes
    assert sum(sweep.scenarios_failed for sweep in sweeps) == filled.failures
    newest = sweeps[0]
    assert newest.status == "finished"
    assert newest.finished_at == newest.started_at + timedelta(hours=1)
    assert newest.arguments == '{"generated": true}'
    assert newest.program_version == "0.1.0"
    assert newest.voided is None


def test_a_running_sweep_shows_what_it_has_stored_so_far(store):
    filled = fill(store.url, probes=500)
    with store.writing() as connection:
        connection.execute(text("UPDATE sweep SET status = 'running', probes_stored = 0, finished_at = NULL"))
    sweeps = list_sweeps(store.location)
    assert {sweep.finished_at for sweep in sweeps} == {None}
    assert sum(sweep.probes_stored for sweep in sweeps) == filled.probes


def test_one_sweep_is_shown_with_outcomes_and_contents(store):
    filled = fill(store.url, probes=3000, seed=3)
    details = [show_sweep(store.location, key[:10]) for key in filled.sweeps]
    assert [detail.summary.key for detail in details] == list(filled.sweeps)
    scenarios = sum(outcome.scenarios for detail in details for outcome in detail.outcomes)
    probes = sum(content.probes for detail in details for content in detail.contents)
    assert (scenarios, probes) == (filled.scenarios, filled.probes)
    failed = [outcome for detail in details for outcome in detail.outcomes if outcome.status != "ok"]
    assert sum(outcome.scenarios for outcome in failed) == filled.failures > 0
    assert all(outcome.reason for outcome in failed)


def test_a_sweep_is_found_by_its_label_the_newest_of_several(store):
    for day in (1, 2):
        record = sweep_record(key=f"{day}" * 32, label="nightly", started_at=START + timedelta(days=day))
        finish_sweep(store, begin_sweep(store, record), "finished")
    assert show_sweep(store.location, "nightly").summary.key == "2" * 32


def test_what_names_no_sweep_or_several_is_refused(store):
    begin_sweep(store, sweep_record(key="ab" + "0" * 30))
    begin_sweep(store, sweep_record(key="ab" + "1" * 30))
    for reference in ("ff", "", "no such label", "'; DROP TABLE sweep; --"):
        with pytest.raises(InputError, match="No sweep"):
            show_sweep(store.location, reference)
    with pytest.raises(InputError, match="Several sweeps"):
        show_sweep(store.location, "ab")
    assert show_sweep(store.location, "AB1").summary.key == "ab" + "1" * 30


def test_the_newest_of_ten_thousand_come_from_an_index(store):
    rows = [
        {
            "key": f"{number:032x}", "arguments": "{}", "program_version": "0.1.0", "status": "finished",
            "started_at": START + timedelta(minutes=number), "probes_stored": number, "probes_known": 0,
            "scenarios_failed": 0,
        }
        for number in range(10_000)
    ]  # fmt: skip
    with store.writing() as connection:
        connection.execute(insert(SWEEP), rows)
    newest = list_sweeps(store.location, limit=5)
    assert [sweep.probes_stored for sweep in newest] == [9999, 9998, 9997, 9996, 9995]
    if store.kind == "sqlite":
        with store.reading() as connection:
            plan = connection.exec_driver_sql(
                "EXPLAIN QUERY PLAN SELECT id FROM sweep ORDER BY started_at DESC, id DESC LIMIT 5"
            ).all()
        assert "ix_sweep_started_at" in str(plan)
        assert "TEMP B-TREE" not in str(plan)
