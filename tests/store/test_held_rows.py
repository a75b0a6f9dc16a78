"""Rows laid down from memory are those that the store would have given, and never others."""

import secrets
from dataclasses import replace
from itertools import islice

import duckdb
import numpy as np
import pytest
from generator import block, scenarios, sweep_record
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store.errors import StoreBusyError, StoreError
from store.opening import open_store
from store.schema.probe_columns import SORT_ORDER
from store.sealing import HeldRows, seal, seal_held
from store.sealing.snapshots import list_parts
from store.upkeep.checking import check_store
from store.writing import begin_sweep, put_blocks, put_scenarios

BLOCKS = 24


@pytest.fixture
def store(sqlite_url, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with open_store(sqlite_url, create=True) as opened:
        yield opened


def written(store, held, *, intervals=((1, 40),)):
    """Blocks of scenarios of every kind, in an order that is not that of parts; returns how many rows were added."""
    sweep_id = begin_sweep(store, sweep_record(key=secrets.token_hex(16)))
    records = [record for record in islice(scenarios(seed=3), 8 * BLOCKS) if record.status == "ok"][:BLOCKS]
    refs = put_scenarios(store, sweep_id, records)
    pairs = list(zip(records, refs, strict=True))[::-1]
    return sum(
        put_blocks(store, sweep_id, [(ref.id, block(record, *interval)) for record, ref in pairs], held=held)
        for interval in intervals
    )


def part_rows(store, order=SORT_ORDER):
    """Every row of the parts, in the order they lie in or in another."""
    paths = [str(part.path) for part in list_parts(store.location, store.store_id)]
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        return connection.execute(
            f"SELECT * FROM read_parquet($paths) {order and 'ORDER BY ' + order}", {"paths": paths}
        ).fetchall()


def forgotten(store):
    """Seal anew, from the store alone."""
    for part in list_parts(store.location, store.store_id):
        part.path.unlink()
    seal(store)


def test_a_part_from_memory_is_the_part_from_the_store_in_its_order(store, monkeypatch):
    held = HeldRows()
    # The middle comes first, so that scenarios have blocks whose ids are not in the order of their batch sizes.
    added = written(store, held, intervals=((20, 40), (1, 60)))
    assert held.rows == added > 60 * BLOCKS / 2
    with monkeypatch.context() as patch:  # none of them is read from the database
        patch.setattr("store.reading.transactions.ReadTransaction.cells", guarded(store))
        report = seal(store, held)
    assert (report.probes_sealed, report.probes) == (added, added)
    from_memory, lying = part_rows(store), part_rows(store, order="")
    assert from_memory == lying
    forgotten(store)
    assert part_rows(store) == from_memory
    assert check_store(store.location).faults == ()


def guarded(store):
    """Rows of the database as ever, but none of probes."""
    from store.reading.transactions import ReadTransaction

    real = ReadTransaction.cells

    def cells(self, statement, parameters=()):
        found = list(real(self, statement, parameters))
        assert not (found and "probe pb" in statement), "probes were read"
        return found

    return cells


def test_rows_that_are_not_those_of_the_store_are_read_from_the_store(store):
    held = HeldRows()
    added = written(store, held)
    for key, one in list(held._blocks.items())[::2]:
        held._blocks[key] = replace(one, digest="0" * 64)
    assert seal(store, held).probes == added
    mixed = part_rows(store)
    forgotten(store)
    assert part_rows(store) == mixed


def test_numbers_that_changed_in_memory_are_refused(store):
    held = HeldRows()
    written(store, held)
    one = next(iter(held._blocks.values()))
    one.columns["weight_bytes"][3] += 1
    with pytest.raises(StoreError, match="not what was committed"):
        seal(store, held)
    assert not list_parts(store.location, store.store_id)


def test_what_was_undone_is_not_held(store):
    held = HeldRows()
    sweep_id = begin_sweep(store, sweep_record(key="e" * 32))
    record = next(record for record in scenarios(seed=3) if record.status == "ok")
    (ref,) = put_scenarios(store, sweep_id, [record])
    blocks = [(ref.id, block(record, 1, 9))]

    def undone():
        with store.together():
            put_blocks(store, sweep_id, blocks, held=held)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        undone()
    assert held.rows == 0
    with store.writing() as connection:
        refusing = "BEFORE INSERT ON sweep_interval BEGIN SELECT RAISE(ABORT, 'refused'); END"
        connection.execute(text(f"CREATE TRIGGER refusing {refusing}"))
    with pytest.raises(DBAPIError, match="refused"):
        put_blocks(store, sweep_id, blocks, held=held)
    assert held.rows == 0


def test_more_rows_than_may_be_held_are_laid_down_in_between(store, monkeypatch):
    held = HeldRows(most_rows=100)
    added = written(store, held)
    assert held.full
    assert 100 <= held.rows < 140  # the block that filled it, and none after
    seal_held(store, held)
    assert (held.rows, held.full) == (0, False)
    assert len(part_rows(store)) == added

    def busy(*_, **__):
        raise StoreBusyError("another seals")

    monkeypatch.setattr("store.sealing.laying_down.seal", busy)
    written(store, held, intervals=((41, 50),))
    seal_held(store, held)  # says nothing: the rows are in the store
    assert held.rows == 0
    monkeypatch.undo()
    seal(store)
    assert len(part_rows(store)) == added + 10 * BLOCKS


def test_gaps_are_nulls_and_whole_numbers_whole(store):
    """A float where a whole number belongs, masks, and NaN in some rows of a block only."""
    held = HeldRows()
    sweep_id = begin_sweep(store, sweep_record(key="c" * 32))
    record = next(record for record in scenarios(seed=3) if record.status == "ok" and record.subject.phase == "decode")
    (ref,) = put_scenarios(store, sweep_id, [record])
    given = block(record, 1, 3)
    columns = {
        **given.columns,
        "e2e_ms": np.array([1.5, np.nan, 3.5]),
        "prefill_chunks": np.ma.masked_array([7, 8, 9], mask=[False, True, False]),
        "weight_bytes": np.array([2.0, 2e15, 3.0]),
    }
    put_blocks(store, sweep_id, [(ref.id, replace(given, columns=columns))], held=held)
    seal(store, held)
    (part,) = list_parts(store.location, store.store_id)
    rows = duckdb.sql(f"SELECT e2e_ms, prefill_chunks, weight_bytes FROM '{part.path}' ORDER BY batch_size").fetchall()
    assert rows == [(1.5, 7, 2), (None, None, 2_000_000_000_000_000), (3.5, 9, 3)]


def test_a_whole_number_beyond_floats_is_stored_as_it_is(store):
    sweep_id = begin_sweep(store, sweep_record(key="d" * 32))
    record = next(record for record in scenarios(seed=3) if record.status == "ok")
    (ref,) = put_scenarios(store, sweep_id, [record])
    given = block(record, 1, 2)
    columns = {**given.columns, "weight_bytes": np.array([2**53 + 1, 2**60 + 1])}
    put_blocks(store, sweep_id, [(ref.id, replace(given, columns=columns))])
    with store.reading() as connection:
        found = connection.execute(text("SELECT weight_bytes FROM probe ORDER BY batch_size")).scalars().all()
    assert found == [2**53 + 1, 2**60 + 1]
