import pytest
from generator import fill
from sqlalchemy import select

from store.errors import InputError
from store.opening import open_store
from store.schema.sql_tables import SCENARIO, SWEEP, TOMBSTONE
from store.sweep_list import list_sweeps
from store.writing.voiding import unvoid, void


@pytest.fixture
def filled(store):
    return fill(store.url, probes=600)


def scenario_key(store):
    with store.reading() as connection:
        return connection.scalar(select(SCENARIO.c.key).order_by(SCENARIO.c.id).limit(1))


def tombstones(store):
    with store.reading() as connection:
        return connection.execute(select(TOMBSTONE).order_by(TOMBSTONE.c.id)).all()


def test_a_sweep_is_voided_with_a_reason_and_back(store, filled):
    key = filled.sweeps[0]
    report = void(store, key[:8], " wrong driver ")
    assert (report.kind, report.key, report.reason) == ("sweep", key, "wrong driver")
    assert {sweep.key: sweep.voided for sweep in list_sweeps(store.location)}[key] == "wrong driver"
    with pytest.raises(InputError, match="already voided: wrong driver"):
        void(store, key, "again")
    assert unvoid(store, key).reason == "wrong driver"
    assert {sweep.key: sweep.voided for sweep in list_sweeps(store.location)}[key] is None
    with pytest.raises(InputError, match="is not voided"):
        unvoid(store, key)
    void(store, key, "a second time")
    # Both times stay on record, one lifted and one active.
    assert [(row.reason, row.lifted_at is None) for row in tombstones(store)] == [
        ("wrong driver", False),
        ("a second time", True),
    ]


def test_a_scenario_is_named_by_its_key_or_by_a_probes_reference(store, filled):
    key = scenario_key(store)
    assert void(store, f"{key[:10]}:17", "wrong profile").kind == "scenario"
    (row,) = tombstones(store)
    assert row.sweep_id is None
    assert row.scenario_id is not None
    assert unvoid(store, key.upper()).key == key


@pytest.mark.parametrize("reference", ["", "abc", "xyz12345", "probe 7", "%%%%%%"])
def test_what_is_no_reference_is_refused(store, reference):
    with pytest.raises(InputError, match="at least 4 hexadecimal digits"):
        void(store, reference, "a reason")


def test_a_reason_is_needed_and_the_target_must_exist(store):
    with pytest.raises(InputError, match="needs a reason"):
        void(store, "abcdef12", "  ")
    with pytest.raises(InputError, match="No sweep and no scenario"):
        void(store, "abcdef12", "a reason")


def test_a_reference_that_names_several_is_refused(sqlite_url):
    with open_store(sqlite_url, create=True) as store:
        fill(sqlite_url, probes=300)
        with store.writing() as connection:
            first, second = connection.scalars(select(SWEEP.c.id).limit(2))
            connection.exec_driver_sql("UPDATE sweep SET key = 'abcd1111' WHERE id = ?", (first,))
            connection.exec_driver_sql("UPDATE sweep SET key = 'abcd2222' WHERE id = ?", (second,))
        with pytest.raises(InputError, match="several keys"):
            void(store, "abcd", "a reason")
        assert void(store, "abcd2", "a reason").key == "abcd2222"


def test_a_tombstone_has_exactly_one_target(store, filled):
    from sqlalchemy.exc import IntegrityError

    for values in ("NULL, NULL", "1, 1"):
        with pytest.raises(IntegrityError), store.writing() as connection:
            connection.exec_driver_sql(
                "INSERT INTO tombstone (sweep_id, scenario_id, reason, voided_at)"
                f" VALUES ({values}, 'x', '2026-01-01 00:00:00')"
            )
