"""Loads in the store: each once, all of a scenario together, packed small, and laid down as Parquet."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from generator import block, scenarios, sweep_record
from hypothesis import given
from hypothesis import strategies as st
from quick import quick
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from store.errors import InputError, StoreError
from store.loads import (
    ArrivalRecord,
    KeptRequests,
    LoadRecord,
    pack_cells,
    pack_rows,
    split_counts,
    unpack_cells,
    unpack_rows,
    whole_counts,
)
from store.loads.measured_requests import KEPT_COLUMNS
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.sealing import create_load_relation, parts_of_loads, seal
from store.upkeep import check_store, repair_store, vacuum_store
from store.writing import begin_sweep, finish_sweep, known_loads, put_block, put_loads, put_scenarios, unvoid, void

ARRIVAL = ArrivalRecord(key="e" * 64, process="poisson", requests=1_100, seed=1, cv=1.0)


def record(number: int) -> LoadRecord:
    cells = np.asarray([[100 + number, 90, 40, 40, 40, 40, 30], [110 + number, 91, 160, 160, 160, 160, 170]])
    return LoadRecord(
        key=f"{number:064d}", settings_key="d" * 64, arrivals_per_s=0.5 * number, saturation_per_s=50.0,
        play_seats=256, kv_tokens=100_000, kv_admission="current", dispatch="random", reject_ms=None,
        counted_requests=1_000, rejected=0, preempted=0, load_status="stable", in_flight=1.0, busy_share=0.5,
        generated_per_s=100.0, ttft_mean_ms=100.0, load_tpot_mean_ms=10.0, outside_ms=30.0, cells=cells,
        gaps=np.asarray([[90, 70_000 + number], [92, 5_000_000_000]]),
    )  # fmt: skip


def keeping(number: int) -> LoadRecord:
    """The same, with every request."""
    times = np.arange(1_000) * 37 % 50_000 + number
    lengths = {"prompt": np.full(1_000, 500), "answer": np.full(1_000, 60)}
    kept = KeptRequests(
        arrival_us=np.cumsum(times),
        ttft_us=times,
        tpot_us=times // 2,
        worst_gap_us=times,
        preempted=times % 2,
        **lengths,
    )
    return replace(record(number), requests=kept)


def scenario_of(opened) -> tuple[int, int]:
    sweep = begin_sweep(opened, sweep_record(key="a" * 32))
    (ref,) = put_scenarios(opened, sweep, [next(one for one in scenarios(seed=1) if one.status == "ok")])
    return sweep, ref.id


def emptied(connection, table: str) -> None:
    """Empty a table whose rows nothing may delete."""
    connection.execute(text(f"DROP TRIGGER {table}_refuses_delete"))
    connection.execute(text(f"DELETE FROM {table}"))


def distribution(opened, kind: str) -> list[tuple[int, ...]]:
    with read_transaction(opened.location) as transaction, duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA raw")
        create_load_relation(connection, transaction, opened.location, kind, {})
        return connection.execute(f"SELECT * FROM raw.{kind} ORDER BY ALL").fetchall()


def test_loads_are_stored_once_and_read_as_they_were(store):
    sweep, scenario = scenario_of(store)
    assert put_loads(store, sweep, scenario, ARRIVAL, [record(1), record(2)]) == 2
    assert put_loads(store, sweep, scenario, ARRIVAL, [record(2), record(3), record(3)]) == 1
    assert known_loads(store, [record(number).key for number in range(1, 9)]) == {record(n).key for n in (1, 2, 3)}
    assert distribution(store, "load_cell") == [
        (number, *row) for number in (1, 2, 3) for row in record(number).cells.tolist()
    ]
    assert distribution(store, "load_token") == [
        (number, *row) for number in (1, 2, 3) for row in record(number).gaps.tolist()
    ]
    with store.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM arrival")).scalar() == 1


def test_parts_of_bins_come_with_the_cells(store):
    """Read where a bin has them, the same before and after they are laid down, and refused where they do not add up."""
    first = record(1)
    bin_, requests = int(first.cells[0, 0]), int(first.cells[first.cells[:, 0] == first.cells[0, 0], 2:].sum())
    parts = np.asarray([[0, 16 * bin_ + 3, requests - 1], [0, 16 * bin_ + 9, 1]])
    sweep, scenario = scenario_of(store)
    with pytest.raises(InputError, match="the parts of a bin do not add up to it"):
        put_loads(store, sweep, scenario, ARRIVAL, [replace(first, parts=parts[:1])])
    put_loads(store, sweep, scenario, ARRIVAL, [replace(first, parts=parts), record(2)])
    expected = [(0, bin_, 1, [0, 0, 0, 0, *[requests - 1] * 6, *[requests] * 7])]
    assert distribution(store, "load_uneven") == expected
    assert distribution(store, "load_cell") == [
        (number, *row) for number in (1, 2) for row in record(number).cells.tolist()
    ]
    seal(store)
    assert distribution(store, "load_uneven") == expected
    seal(store)  # what else is cleared away leaves it
    with read_transaction(store.location) as transaction:
        ((path, _),) = parts_of_loads(transaction, store.location, "load_uneven")
    assert path.exists()


def test_writers_of_the_same_loads_do_not_disturb_each_other(store_url):
    with open_store(store_url, create=True) as opened:
        sweep, scenario = scenario_of(opened)
        added: list[int] = []

        def write() -> None:
            with open_store(store_url) as other:
                for first in range(1, 20):
                    some = [record(number) for number in range(first, first + 4)]
                    added.append(put_loads(other, sweep, scenario, ARRIVAL, some))

        writers = [threading.Thread(target=write) for _ in range(3)]
        for one in writers:
            one.start()
        for one in writers:
            one.join()
        assert len(added) == 57
        assert sum(added) == 22
        assert len(distribution(opened, "load_cell")) == 44


def test_a_scenario_that_breaks_half_way_leaves_nothing(store):
    sweep, scenario = scenario_of(store)
    broken = replace(record(2), counted_requests=1 << 20, cells=np.asarray([[0, 0, 1 << 20, 0, 0, 0, 0]]))
    with pytest.raises(ValueError, match="too large"):
        put_loads(store, sweep, scenario, ARRIVAL, [record(1), broken])
    assert distribution(store, "load_cell") == []


def test_parts_and_the_store_say_the_same(sqlite_url):
    with open_store(sqlite_url, create=True) as opened:
        sweep, scenario = scenario_of(opened)
        put_loads(opened, sweep, scenario, ARRIVAL, [record(number) for number in range(1, 6)])
        unsealed = {kind: distribution(opened, kind) for kind in ("load_cell", "load_token")}
        seal(opened)
        folder = opened.location.path.with_name(f"{opened.location.path.name}.snapshots")
        assert len(list(folder.glob("load_cell-*.parquet"))) == 1
        with opened.writing() as connection:  # what is laid down is not read from the store
            emptied(connection, "load_cell")
            emptied(connection, "load_token")
        assert {kind: distribution(opened, kind) for kind in unsealed} == unsealed
        put_loads(opened, sweep, scenario, ARRIVAL, [record(6)])
        assert len(distribution(opened, "load_cell")) == 12
        seal(opened)
        assert len(distribution(opened, "load_cell")) == 12


def requests_held(opened):
    return distribution(opened, "load_request")


def test_requests_come_with_a_load_or_later_and_are_read_as_they_were(store):
    sweep, scenario = scenario_of(store)
    assert put_loads(store, sweep, scenario, ARRIVAL, [record(1), keeping(2)]) == 2
    keys = [record(1).key, record(2).key]
    assert known_loads(store, keys) == set(keys)
    assert known_loads(store, keys, with_requests=True) == {keys[1]}
    seal(store)
    assert {row[0] for row in requests_held(store)} == {2}
    assert put_loads(store, sweep, scenario, ARRIVAL, [keeping(1), keeping(2)]) == 0
    for _ in range(2):
        kept = requests_held(store)
        for number in (1, 2):
            wanted = keeping(number).requests
            columns = [getattr(wanted, name).tolist() for name in KEPT_COLUMNS]
            assert [row[1:] for row in kept if row[0] == number] == list(zip(range(1_000), *columns, strict=True))
        seal(store)
    assert check_store(store.location).faults == ()


@pytest.mark.parametrize("whole", quick([True, False]))
def test_vacuum_removes_the_requests_of_voided_sweeps_and_nothing_else(store, whole):
    sweep, scenario = scenario_of(store)
    put_loads(store, sweep, scenario, ARRIVAL, [keeping(1), keeping(2)])
    put_block(store, sweep, scenario, block(next(one for one in scenarios(seed=1) if one.status == "ok"), 1, 2))
    finish_sweep(store, sweep, "finished")
    seal(store)
    with store.reading() as connection:
        target = connection.scalar(text("SELECT key FROM " + ("sweep" if whole else "scenario")))
    assert vacuum_store(store.location).requests_removed == 0
    void(store, target, "a mistake")
    assert len(requests_held(store)) == 2_000
    assert vacuum_store(store.location).requests_removed == 2
    assert requests_held(store) == []
    assert len(distribution(store, "load_cell")) == 4
    assert check_store(store.location).faults == ()
    unvoid(store, target)
    assert put_loads(store, sweep, scenario, ARRIVAL, [keeping(1)]) == 0
    assert len(requests_held(store)) == 1_000


@pytest.mark.parametrize("damage", quick(["time set back", "gone", "unlisted", "nested", "cut"], 3))
def test_a_part_that_does_not_match_is_left_aside_and_laid_down_again(sqlite_url, damage):
    with open_store(sqlite_url, create=True) as opened:
        sweep, scenario = scenario_of(opened)
        put_loads(opened, sweep, scenario, ARRIVAL, [record(number) for number in range(1, 6)])
        expected = distribution(opened, "load_cell")
        seal(opened)
        folder = opened.location.path.with_name(f"{opened.location.path.name}.snapshots")
        (part,) = folder.glob("load_cell-*.parquet")
        if damage == "cut":
            part.write_bytes(part.read_bytes()[:-1])
        elif damage == "gone":
            part.unlink()
        elif damage == "time set back":
            status, raw = part.stat(), bytearray(part.read_bytes())
            raw[len(raw) // 2] ^= 1
            part.write_bytes(raw)
            os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
        else:
            (folder / "loads.json").write_text("{" if damage == "unlisted" else '{"parts": ' + "[" * 100_000)
        assert distribution(opened, "load_cell") == expected
        seal(opened)
        assert distribution(opened, "load_cell") == expected
        with opened.writing() as connection:
            emptied(connection, "load_cell")
        assert distribution(opened, "load_cell") == expected


def test_no_load_is_read_from_two_parts_even_if_one_lies_within_the_other(sqlite_url):
    with open_store(sqlite_url, create=True) as opened:
        sweep, scenario = scenario_of(opened)
        put_loads(opened, sweep, scenario, ARRIVAL, [record(number) for number in range(1, 6)])
        expected = distribution(opened, "load_cell")
        seal(opened)
        folder = opened.location.path.with_name(f"{opened.location.path.name}.snapshots")
        document = json.loads((folder / "loads.json").read_text())
        (part,) = (one for one in document["parts"] if one["kind"] == "load_cell")
        inner = folder / "load_cell-inner.parquet"
        shutil.copy(folder / part["name"], inner)
        status = inner.stat()
        times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
        document["parts"].append({**part, **times, "name": inner.name, "loads": [[2, 3]], "count": 2})
        (folder / "loads.json").write_text(json.dumps(document))
        assert distribution(opened, "load_cell") == expected


@given(st.lists(st.lists(st.integers(0, 16_000), min_size=3, max_size=3), max_size=30))
def test_what_is_packed_can_be_read_again(rows):
    array = np.asarray(rows, dtype=np.int64).reshape(-1, 3)
    assert unpack_rows(pack_rows(array), 3).tolist() == array.tolist()


@given(st.lists(st.tuples(st.integers(0, 287), st.integers(0, 2**52)), max_size=30))
def test_large_counts_are_packed_in_parts(rows):
    array = np.asarray(rows, dtype=np.int64).reshape(-1, 2)
    assert whole_counts(unpack_rows(pack_rows(split_counts(array)), 5)).tolist() == array.tolist()


def test_bytes_that_are_none_of_ours_are_an_error_of_the_store():
    with pytest.raises(StoreError, match="cannot be read"):
        unpack_rows(b"abc", 7)


def test_parts_are_packed_behind_cells_and_cells_of_before_are_read():
    cells, parts = record(1).cells, np.asarray([[0, 40, 3], [1, 4_607, 1 << 20]])
    packed, alone = pack_cells(cells, parts), pack_cells(cells, None)
    assert [array.tolist() for array in unpack_cells(packed)] == [cells.tolist(), parts.tolist()]
    for without in (alone, pack_rows(cells)):  # as loads of before have them: differences all
        assert unpack_cells(without)[0].tolist() == cells.tolist()
        assert unpack_cells(without)[1].shape == (0, 3)


def rested(connection, statement: str) -> None:
    """Change what nothing may change; the triggers are there again after."""
    triggers = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    for name, _ in triggers:
        connection.execute(text(f"DROP TRIGGER {name}"))
    for one in statement.split(";"):
        connection.execute(text(one))
    for _, sql in triggers:
        connection.execute(text(sql))


@pytest.fixture
def kept(sqlite_url):
    """A store of two blocks of loads, laid down."""
    with open_store(sqlite_url, create=True) as opened:
        sweep, scenario = scenario_of(opened)
        put_loads(opened, sweep, scenario, ARRIVAL, [record(number) for number in range(1, 4)])
        put_loads(opened, sweep, scenario, ARRIVAL, [record(3), keeping(4), keeping(5)])
        finish_sweep(opened, sweep, "finished")
        seal(opened)
    return sqlite_url


CHANGES = {
    "a rate": "UPDATE load SET arrivals_per_s = 0.75 WHERE id = 1",
    "a count": "UPDATE load SET rejected = rejected + 1 WHERE id = 4",
    "a key": f"UPDATE load SET key = '{'f' * 64}' WHERE id = 2",
    "cells": "UPDATE load_cell SET cells = (SELECT cells FROM load_cell WHERE load_id = 1) WHERE load_id = 2",
    "no cells": "DELETE FROM load_cell WHERE load_id = 2",
    "gaps": "UPDATE load_token SET gaps = (SELECT gaps FROM load_token WHERE load_id = 1) WHERE load_id = 5",
    "unreadable": "UPDATE load_cell SET cells = x'00ff' WHERE load_id = 2",
    "a load less": "DELETE FROM load_cell WHERE load_id = 3; DELETE FROM load_token WHERE load_id = 3; DELETE FROM load WHERE id = 3",
    "its stream": f"UPDATE arrival SET key = '{'a' * 64}'",
    "a digest": f"UPDATE load_block SET digest = '{'0' * 64}' WHERE id = 1",
    "requests": "UPDATE load_request SET requests = (SELECT requests FROM load_request WHERE load_id = 4) WHERE load_id = 5",
    "no requests": "UPDATE load_request SET requests = x'00ff' WHERE load_id = 4",
    "no block": "DELETE FROM load_block WHERE id = 2",
}


@pytest.mark.parametrize("change", quick(CHANGES, {"a rate", "no cells", "gaps", "requests", "no block"}.__contains__))
def test_loads_that_changed_behind_the_back_are_named(kept, change):
    assert check_store(parse_url(kept)).faults == ()
    with open_store(kept) as opened, opened.writing() as connection:
        rested(connection, CHANGES[change])
    faults = check_store(parse_url(kept)).faults
    said = "loads that belong to no block" if change == "no block" else "are not those that were committed"
    assert any(said in fault for fault in faults), faults


def test_a_committed_load_never_changes(store):
    sweep, scenario = scenario_of(store)
    put_loads(store, sweep, scenario, ARRIVAL, [record(1)])
    for table in ("load_block", "load", "load_cell", "load_token"):
        with pytest.raises(DatabaseError, match="never changes"), store.writing() as connection:
            connection.execute(text(f"DELETE FROM {table}"))


def test_a_part_that_says_something_else_is_named_and_laid_down_again(kept):
    location = parse_url(kept)
    with open_store(kept) as opened:
        expected = distribution(opened, "load_cell")
        folder = location.path.with_name(f"{location.path.name}.snapshots")
        (part,) = folder.glob("load_cell-*.parquet")
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE laid AS FROM '{part}'")
            connection.execute("UPDATE laid SET requests_1 = requests_1 + 1 WHERE load_id = 3")
            connection.execute(f"COPY (FROM laid ORDER BY ALL) TO '{part}' (FORMAT parquet)")
        manifest = folder / "loads.json"
        told, status = json.loads(manifest.read_text()), part.stat()
        for entry in told["parts"]:
            if entry["name"] == part.name:
                entry.update(size=status.st_size, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns)
        manifest.write_text(json.dumps(told))
        assert distribution(opened, "load_cell") != expected
        (fault,) = check_store(location).faults
        assert part.name in fault
        assert "2 rows of both" not in fault  # load 3 has two cells, each on both sides: four
        assert "says something else than the database in 4 rows of both" in fault
    assert repair_store(location).parts_rebuilt == 1
    assert check_store(location).faults == ()
    with open_store(kept) as opened:
        assert distribution(opened, "load_cell") == expected


def test_what_no_play_gives_is_refused(store):
    sweep, scenario = scenario_of(store)
    for odd, said in (
        (replace(record(1), rejected=1), "not as many as counted_requests"),
        (replace(record(1), arrivals_per_s=0.0), "arrivals_per_s is not above zero"),
        (replace(record(1), in_flight=float("nan")), "in_flight is below zero"),
        (replace(record(1), gaps=np.asarray([[90, -1]])), "below zero"),
    ):
        with pytest.raises(InputError, match=said):
            put_loads(store, sweep, scenario, ARRIVAL, [odd])
