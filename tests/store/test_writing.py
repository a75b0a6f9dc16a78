"""The contract of writing, on SQLite and on PostgreSQL."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from examples import examples
from generator import BINS, DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, block, fill, scenario, sweep_record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from store.errors import InputError
from store.schema.sql_tables import (
    BLOCK,
    COMPOSITION,
    DEVICE,
    MODEL,
    PLAN,
    PRECISION,
    PROBE,
    SCENARIO,
    SUBJECT,
    SWEEP,
    SWEEP_INTERVAL,
    WORKLOAD,
)
from store.schema.tables import MEASURES
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios, record_interval
from store.writing.arrays import check_block
from store.writing.scenarios import merge_intervals, missing_intervals
from store.writing.voiding import unvoid, void

DISTRIBUTION = WORKLOADS[5]


def make(phase="aggregated", *, workload=WORKLOADS[0], plan=PLANS[3], device=DEVICES[1], **changes):
    record = scenario(MODELS[0], workload, device, precision=PRECISIONS[0], plan=plan, phase=phase)
    return replace(record, **changes)


def count(store, model):
    with store.reading() as connection:
        return connection.scalar(select(func.count()).select_from(model))


def sweep_row(store, sweep_id):
    with store.reading() as connection:
        return connection.execute(select(SWEEP).where(SWEEP.c.id == sweep_id)).one()


def intervals(store, model, scenario_id):
    with store.reading() as connection:
        query = select(model.c.first_batch_size, model.c.last_batch_size).where(model.c.scenario_id == scenario_id)
        return sorted((row[0], row[1]) for row in connection.execute(query))


@pytest.fixture
def sweep_id(store):
    return begin_sweep(store, sweep_record(key="a" * 32))


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_every_number_is_stored_as_it_was_given(store, sweep_id, phase):
    record = make(phase)
    (ref,) = put_scenarios(store, sweep_id, [record])
    given_block = block(record, 3, 40)
    assert put_block(store, sweep_id, ref.id, given_block) == 38
    with store.reading() as connection:
        rows = connection.execute(select(PROBE).order_by(PROBE.c.batch_size)).mappings().all()
    assert [row["batch_size"] for row in rows] == list(range(3, 41))
    for column in MEASURES:
        expected = given_block.columns[column.name]
        expected = [None] * 38 if expected is None else expected.tolist()
        assert [row[column.name] for row in rows] == expected, column.name


def test_missing_numbers_are_null_and_whole_numbers_stay_whole(store, sweep_id):
    record = make("decode")
    (ref,) = put_scenarios(store, sweep_id, [record])
    given_block = block(record, 1, 3)
    gaps = np.array([1.5, np.nan, 3.5])
    masked = np.ma.masked_array([7, 8, 9], mask=[False, True, False])
    columns = {
        **given_block.columns,
        "e2e_ms": gaps,
        "prefill_chunks": masked,
        "weight_bytes": np.array([2.0, 2e15, 3.0]),
    }
    put_block(store, sweep_id, ref.id, replace(given_block, columns=columns))
    with store.reading() as connection:
        query = select(PROBE.c.e2e_ms, PROBE.c.prefill_chunks, PROBE.c.weight_bytes).order_by(PROBE.c.batch_size)
        rows = [tuple(row) for row in connection.execute(query)]
    assert rows == [(1.5, 7, 2), (None, None, 2_000_000_000_000_000), (3.5, 9, 3)]


@pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)
def test_writing_again_adds_nothing(store_url):
    first = fill(store_url, probes=800, seed=5, batch_sizes=40)
    again = fill(store_url, probes=800, seed=5, batch_sizes=40)
    assert first.probes >= 800
    assert again.probes == 0
    assert again.scenarios == first.scenarios


def test_dimensions_are_stored_once(store, sweep_id):
    records = [make(phase, plan=plan) for phase in ("prefill", "decode") for plan in PLANS[:3]]
    refs = put_scenarios(store, sweep_id, records)
    store.ids.clear()  # as another process would see it
    assert put_scenarios(store, sweep_id, list(reversed(records))) == list(reversed(refs))
    counts = {model: count(store, model) for model in (MODEL, DEVICE, PRECISION, PLAN, WORKLOAD, SUBJECT, SCENARIO)}
    assert counts == {MODEL: 1, DEVICE: 1, PRECISION: 1, PLAN: 3, WORKLOAD: 1, SUBJECT: 6, SCENARIO: 6}


def test_what_a_failed_transaction_learnt_is_forgotten(store, sweep_id):
    fine, broken = make("prefill"), make("decode", status="error", reason=None)  # a failure needs a reason
    with pytest.raises(DBAPIError):
        put_scenarios(store, sweep_id, [fine, broken])
    assert count(store, MODEL) == 0
    (ref,) = put_scenarios(store, sweep_id, [fine])
    assert put_block(store, sweep_id, ref.id, block(fine, 1, 2)) == 2


def test_an_overlapping_interval_adds_only_what_is_missing(store, sweep_id):
    record = make()
    (ref,) = put_scenarios(store, sweep_id, [record])
    assert ref.known == ()
    assert put_block(store, sweep_id, ref.id, block(record, 10, 20)) == 11
    assert put_block(store, sweep_id, ref.id, block(record, 30, 40)) == 11
    # 5..45 is 41 sizes, 22 of them stored: 5..9, 21..29 and 41..45 are new.
    assert put_block(store, sweep_id, ref.id, block(record, 5, 45)) == 19
    assert intervals(store, BLOCK, ref.id) == [(5, 9), (10, 20), (21, 29), (30, 40), (41, 45)]
    assert intervals(store, SWEEP_INTERVAL, ref.id) == [(5, 45)]
    assert put_scenarios(store, sweep_id, [record])[0].known == ((5, 45),)


def test_each_part_of_a_trimmed_block_holds_its_own_numbers(store, sweep_id):
    record = make(workload=DISTRIBUTION)
    (ref,) = put_scenarios(store, sweep_id, [record])
    put_block(store, sweep_id, ref.id, block(record, 4, 6))
    put_block(store, sweep_id, ref.id, block(record, 1, 9))
    expected = block(record, 1, 9)
    with store.reading() as connection:
        steps = connection.scalars(select(PROBE.c.decode_step_p90_ms).order_by(PROBE.c.batch_size)).all()
        samples = connection.execute(
            select(COMPOSITION.c.batch_size, func.sum(COMPOSITION.c.samples)).group_by(COMPOSITION.c.batch_size)
        ).all()
    assert steps == expected.columns["decode_step_p90_ms"].tolist()
    assert sorted(tuple(row) for row in samples) == [(size, size) for size in range(1, 10)]


def test_a_distribution_keeps_its_bins_and_how_each_batch_is_composed(store, sweep_id):
    record = make(workload=DISTRIBUTION)
    (ref,) = put_scenarios(store, sweep_id, [record])
    put_block(store, sweep_id, ref.id, block(record, 10, 10))
    with store.reading() as connection:
        rows = connection.execute(
            select(COMPOSITION.c.bin_index, COMPOSITION.c.samples).order_by(COMPOSITION.c.bin_index)
        ).all()
    # 10 requests over weights 0.5, 0.3 and 0.2
    assert [tuple(row) for row in rows] == [(0, 5), (1, 3), (2, 2)]
    assert len(record.subject.workload.bins) == len(BINS) == 3


wanted = st.tuples(st.integers(1, 40), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(wanted, max_size=6), wanted)
def test_missing_intervals_are_exactly_what_is_not_covered(known, asked):
    covered = {size for first, last in known for size in range(first, last + 1)}
    missing = missing_intervals(asked, known)
    assert {size for first, last in missing for size in range(first, last + 1)} == (
        set(range(asked[0], asked[1] + 1)) - covered
    )
    assert merge_intervals(missing) == tuple(missing)  # apart from each other, in order


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(wanted, min_size=1, max_size=6))
def test_any_order_of_intervals_stores_their_union_once(tmp_path_factory, asked):
    from store.opening import open_store

    path = tmp_path_factory.mktemp("union") / "store.sqlite"
    record = make("decode")
    with open_store(str(path), create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="b" * 32))
        (ref,) = put_scenarios(store, sweep_id, [record])
        added = sum(put_block(store, sweep_id, ref.id, block(record, first, last)) for first, last in asked)
        union = {size for first, last in asked for size in range(first, last + 1)}
        assert added == len(union) == count(store, PROBE)
        assert tuple(intervals(store, SWEEP_INTERVAL, ref.id)) == merge_intervals(asked)


def test_a_committed_block_never_changes(store, sweep_id):
    record = make(workload=DISTRIBUTION)
    (ref,) = put_scenarios(store, sweep_id, [record])
    put_block(store, sweep_id, ref.id, block(record, 1, 5))
    other = block(record, 1, 5)
    steady = {"concurrency"}  # follows from batch size and plan
    changed = {
        name: values if values is None or name in steady else values * 2 for name, values in other.columns.items()
    }
    assert put_block(store, sweep_id, ref.id, replace(other, columns=changed)) == 0
    for statement in (
        "UPDATE probe SET ttft_ms = 0",
        "DELETE FROM probe",
        "UPDATE block SET probe_count = 1",
        "DELETE FROM block",
        "UPDATE composition SET samples = 1",
        "DELETE FROM composition",
    ):
        with pytest.raises(DBAPIError, match="never changes"), store.writing() as connection:
            connection.exec_driver_sql(statement)
    with store.reading() as connection:
        stored = connection.scalars(select(PROBE.c.ttft_ms).order_by(PROBE.c.batch_size)).all()
    assert stored == other.columns["ttft_ms"].tolist()


def test_nothing_of_a_block_that_fails_half_way_is_seen(store, sweep_id):
    record = make()
    (ref,) = put_scenarios(store, sweep_id, [record])
    given_block = block(record, 1, 5)
    too_large = np.array([1, 2, 3, 4, 2**63], dtype=np.uint64)  # the last row fits no column; four were sent before
    columns = {**given_block.columns, "activation_bytes": too_large}
    with pytest.raises(Exception, match=r"too large|out of range"):
        put_block(store, sweep_id, ref.id, replace(given_block, columns=columns))
    assert count(store, BLOCK) == count(store, PROBE) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_sizes": np.array([])}, "at least one"),
        ({"batch_sizes": np.array([0, 1, 2])}, "from 1 on"),
        ({"batch_sizes": np.array([1, 2, 4])}, "plus one"),
        ({"columns": {"ttft_ms": np.ones(3), "speed": np.ones(3)}}, "speed"),
        ({"columns": {}}, "lacks the column concurrency"),
        ({"ttft_ms": np.ones(2)}, "shape"),
        ({"ttft_ms": np.array([1, np.inf, 2])}, "infinite"),
        ({"weight_bytes": np.array([1, np.nan, 2])}, "never missing"),
        ({"composition": (np.array([1, 2, 3]), np.zeros(3, int), np.array([1, 2, 2]))}, "batch size 3"),
        ({"composition": (np.array([1, 2, 2, 3]), np.zeros(4, int), np.array([1, 1, 1, 3]))}, "twice"),
    ],
)
def test_a_block_that_does_not_fit_together_is_refused(change, message):
    given_block = block(make(), 1, 3)
    if not {"batch_sizes", "columns", "composition"} & set(change):
        change = {"columns": {**given_block.columns, **change}}
    with pytest.raises(InputError, match=message):
        check_block(replace(given_block, **change))


def test_failures_are_rows_and_a_later_success_replaces_them(store, sweep_id):
    failed = make(status="error", reason="out of memory while tracing")
    (ref,) = put_scenarios(store, sweep_id, [failed])
    assert (ref.status, ref.reason) == ("error", "out of memory while tracing")
    assert intervals(store, SWEEP_INTERVAL, ref.id) == [(0, 0)]
    (again,) = put_scenarios(store, sweep_id, [replace(failed, status="unsupported", reason="no such operator")])
    assert (again.id, again.status, again.reason) == (ref.id, "unsupported", "no such operator")
    fine = replace(failed, status="ok", reason=None)
    assert put_scenarios(store, sweep_id, [fine])[0].status == "unsupported"  # until there are probes
    put_block(store, sweep_id, ref.id, block(fine, 1, 4))
    (after,) = put_scenarios(store, sweep_id, [fine])
    assert (after.status, after.reason, after.known) == ("ok", None, ((1, 4),))


def test_a_failure_beyond_what_is_stored_does_not_take_the_probes_away(store, sweep_id):
    record = make()
    (ref,) = put_scenarios(store, sweep_id, [record])
    put_block(store, sweep_id, ref.id, block(record, 1, 4))
    (after,) = put_scenarios(store, sweep_id, [replace(record, status="error", reason="batch sizes 5 to 9: overflow")])
    assert (after.status, after.reason) == ("ok", "batch sizes 5 to 9: overflow")


def test_a_sweep_counts_what_it_added_what_was_there_and_what_failed(store, sweep_id):
    record, failed = make(), make("decode", status="illegal", reason="does not fit")
    refs = put_scenarios(store, sweep_id, [record, failed])
    put_block(store, sweep_id, refs[0].id, block(record, 1, 10))
    finish_sweep(store, sweep_id, "finished")
    row = sweep_row(store, sweep_id)
    assert (row.status, row.probes_stored, row.probes_known, row.scenarios_failed) == ("finished", 10, 0, 1)

    second = begin_sweep(store, sweep_record(key="c" * 32, label="wider"))
    (ref,) = put_scenarios(store, second, [record])
    assert ref.known == ((1, 10),)
    record_interval(store, second, ref.id, 1, 10)
    put_block(store, second, ref.id, block(record, 8, 12))  # 8..10 are stored, 11 and 12 are new
    assert sweep_row(store, second).status == "running"
    finish_sweep(store, second, "interrupted")
    row = sweep_row(store, second)
    # asked for 1..12, added 2
    assert (row.status, row.probes_stored, row.probes_known, row.scenarios_failed) == ("interrupted", 2, 10, 0)


def test_an_interval_that_is_not_stored_cannot_be_recorded_as_known(store, sweep_id):
    record = make()
    (ref,) = put_scenarios(store, sweep_id, [record])
    put_block(store, sweep_id, ref.id, block(record, 1, 4))
    with pytest.raises(InputError, match="not all stored"):
        record_interval(store, sweep_id, ref.id, 1, 5)


def test_moments_are_stored_in_utc(store):
    started = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    sweep_id = begin_sweep(store, sweep_record(key="d" * 32, started_at=started))
    stored = sweep_row(store, sweep_id).started_at
    if stored.tzinfo is None:
        assert stored == datetime(2026, 2, 28, 23, 30)
    assert stored.replace(tzinfo=stored.tzinfo or UTC) == started


def test_a_voided_scenario_cannot_be_asked_for_again(store, sweep_id):
    record, other = make(), make("decode")
    refs = put_scenarios(store, sweep_id, [record, other])
    void(store, refs[0].key[:12], "measured on a wrong profile")
    with pytest.raises(InputError) as caught:
        put_scenarios(store, sweep_id, [other, record])
    assert "measured on a wrong profile" in str(caught.value)
    assert f"sweepdb unvoid {record.key[:12]}" in str(caught.value)
    assert caught.value.exit_code == 2
    unvoid(store, record.key[:12])
    assert put_scenarios(store, sweep_id, [record])[0].id == refs[0].id


def test_one_name_belongs_to_one_workload(store, sweep_id):
    first = make(workload=DISTRIBUTION)
    put_scenarios(store, sweep_id, [first])
    other = make()
    named = replace(other.subject, workload=replace(other.subject.workload, name="chat-mix"))
    with pytest.raises(InputError, match="chat-mix"):
        put_scenarios(store, sweep_id, [replace(other, subject=named)])


def test_a_block_of_an_unknown_scenario_is_refused(store, sweep_id):
    with pytest.raises(InputError, match="no scenario 99"):
        put_block(store, sweep_id, 99, block(make(), 1, 2))
