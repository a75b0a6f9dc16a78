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
from generator import scenarios, sweep_record
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from store.errors import StoreError
from store.loads import ArrivalRecord, LoadRecord, pack_rows, split_counts, unpack_rows, whole_counts
from store.opening import open_store
from store.reading import read_transaction
from store.sealing import create_load_relation, seal
from store.writing import begin_sweep, known_loads, put_loads, put_scenarios

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


def scenario_of(opened) -> tuple[int, int]:
    sweep = begin_sweep(opened, sweep_record(key="a" * 32))
    (ref,) = put_scenarios(opened, sweep, [next(one for one in scenarios(seed=1) if one.status == "ok")])
    return sweep, ref.id


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
    broken = replace(record(2), cells=np.asarray([[0, 0, 1 << 20, 0, 0, 0, 0]]))
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
            connection.execute(text("DELETE FROM load_cell"))
            connection.execute(text("DELETE FROM load_token"))
        assert {kind: distribution(opened, kind) for kind in unsealed} == unsealed
        put_loads(opened, sweep, scenario, ARRIVAL, [record(6)])
        assert len(distribution(opened, "load_cell")) == 12
        seal(opened)
        assert len(distribution(opened, "load_cell")) == 12


@pytest.mark.parametrize("damage", ["cut", "gone", "unlisted", "nested", "time set back"])
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
            connection.execute(text("DELETE FROM load_cell"))
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
