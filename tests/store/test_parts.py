"""Parts that stand in place of rows: the same answers as rows give, whatever happens to workers and files."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
from generator import block, interval_length, put, sweep_record
from hypothesis import given
from hypothesis import strategies as st
from part_cases import MEAN, RECORDS, ROWS, begun, registered, rows, shard_blocks, shards

from queries.connect import connect
from store.errors import InputError, StoreError
from store.location import parse_url
from store.opening import open_store
from store.parts import adopt_parts, compact_parts, compacting, files, part_shelf, register_part, write_part
from store.placing import WAITING, PartRow, made_root, parts_in_use, places_of
from store.reading import read_transaction
from store.sealing import LARGEST_KEY, seal
from store.upkeep import check_store
from store.writing import begin_sweep, finish_sweep, put_scenarios
from store.writing.blocks import require_same


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The rows of the same sweep in a store without parts."""
    url = f"sqlite:///{tmp_path_factory.mktemp('rows')}/store.sqlite"
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="a" * 32))
        for record, ref in zip(RECORDS, put_scenarios(store, sweep_id, RECORDS), strict=True):
            put(store, sweep_id, record, ref, first=1, last=interval_length(record, MEAN))
        finish_sweep(store, sweep_id, "finished")
    return rows(url)


def test_parts_answer_as_rows_do_and_hold_no_row(store, expected):
    sweep_id, _ = registered(store)
    assert rows(store.url) == expected
    with store.reading() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM probe").scalar_one() == 0
        stored = connection.exec_driver_sql(
            f"SELECT probes_stored, probes_known FROM sweep WHERE id = {sweep_id}"
        ).one()
        assert tuple(stored) == (len(expected), 0)
    report = check_store(store.location)
    assert report.faults == ()
    assert (report.probes, report.orphans) == (len(expected), ())
    assert seal(store).probes_sealed == 0  # they are files already
    with connect(store.url) as connection:
        connection.narrow_to([1])
        connection.execute(ROWS)
        assert len(connection.files) == 1


def test_rows_and_parts_of_one_scenario_stand_side_by_side(store, expected):
    sweep_id, refs = begun(store)
    put(store, sweep_id, RECORDS[3], refs[3], first=1, last=4)
    file = write_part(part_shelf(store), "c" * 64, shard_blocks(refs))
    done = register_part(store, sweep_id, "c" * 64, file)
    assert done.left == 1  # of the fourth only a part is missing, which the next attempt adds
    put(store, sweep_id, RECORDS[3], refs[3], first=5, last=interval_length(RECORDS[3], MEAN))
    assert rows(store.url) == expected  # the file holds all of the fourth, the store reads what was registered
    assert check_store(store.location).faults == ()
    assert done.probes_added == len(expected) - interval_length(RECORDS[3], MEAN)
    seal(store)
    assert rows(store.url) == expected


def test_a_lost_race_leaves_no_file_and_no_row_twice(store, expected):
    sweep_id, refs = begun(store)
    folder = part_shelf(store)
    attempts = [write_part(folder, "d" * 64, shard_blocks(refs)) for _ in range(3)]
    outcomes = []

    def register(file):
        with open_store(store.url) as mine:
            outcomes.append(register_part(mine, sweep_id, "d" * 64, file).probes_added)

    threads = [threading.Thread(target=register, args=(file,)) for file in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0, 0, len(expected)]
    assert len(shards(folder)) == 1
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


def test_a_file_that_was_never_registered_is_reported_never_read_and_removed_after_a_day(store, expected):
    _, refs = registered(store)
    folder = part_shelf(store)
    orphan = folder.path / f"{WAITING}{write_part(folder, 'e' * 64, shard_blocks(refs)).name}"
    unfinished = folder.path / ".shard-0-0.parquet"
    unfinished.write_bytes(b"half")
    assert rows(store.url) == expected
    report = check_store(store.location)
    assert (report.faults, set(report.orphans)) == ((), {orphan.name, unfinished.name})
    assert compact_parts(store.location).files_removed == 0
    for path in (orphan, unfinished):
        os.utime(path, (0, 0))
    assert compact_parts(store.location).files_removed == 2
    assert folder.unneeded(()) == []
    assert len(folder.named()) == 3  # the part, and the two that it replaced
    assert rows(store.url) == expected


def lose(path):
    path.unlink()


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))


@pytest.mark.parametrize("damage", [lose, cut, flip])
def test_a_part_that_is_not_what_was_registered_is_named(store, damage):
    registered(store)
    with read_transaction(store.location) as transaction:
        name = places_of(transaction, ((0, LARGEST_KEY),))[0].name
    damage(part_shelf(store).path / name)
    assert any(name in fault for fault in check_store(store.location).faults)
    if damage is not flip:
        with pytest.raises(StoreError, match=name):
            rows(store.url)
    with pytest.raises(StoreError, match=f"{name} is missing or is not"):
        compact_parts(store.location)


def test_a_catalogue_that_says_something_else_than_blocks_is_named(store):
    registered(store)
    with store.writing() as connection:
        connection.exec_driver_sql("UPDATE part SET row_count = row_count + 1 WHERE id = 1")
        connection.exec_driver_sql("INSERT INTO part_block (first_block, last_block, part_id) VALUES (900, 901, 1)")
    faults = "\n".join(check_store(store.location).faults)
    assert "its blocks" in faults
    assert "1 ranges of parts without a block" in faults


def test_a_disk_that_is_full_leaves_nothing(store, monkeypatch):
    _, refs = begun(store)
    folder = part_shelf(store)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        write_part(folder, "f" * 64, shard_blocks(refs))
    assert shards(folder) == set()


def test_compaction_sorts_merges_and_keeps_replaced_files_for_readers(store, expected, monkeypatch):
    registered(store, cuts=(0, 5, 11, 13, 20, 24))
    folder = part_shelf(store)
    before = shards(folder)
    with connect(store.url) as reader:
        reader.provide({"probe"})
        report = compact_parts(store.location)
        assert (report.parts_before, report.parts, report.probes_rewritten) == (5, 1, len(expected))
        assert before < shards(folder)
        assert reader.execute(ROWS).fetchall() == expected
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()
    again = compact_parts(store.location)
    assert (again.parts, again.probes_rewritten, again.files_removed) == (1, 0, 0)
    monkeypatch.setattr(compacting, "RETIRED_KEPT_S", 0.0)
    assert compact_parts(store.location).files_removed == 5
    assert len(shards(folder)) == 1
    assert rows(store.url) == expected
    assert check_store(store.location).orphans == ()


def test_what_interrupts_a_compaction_after_its_commit_loses_no_row(store, expected, monkeypatch):
    registered(store, cuts=(0, 11, 24))
    replace_parts = compacting._replace

    def interrupted(*arguments):
        replace_parts(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(compacting, "_replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compact_parts(store.location)
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


def test_compaction_cuts_at_the_largest_size_and_settles(store, expected, monkeypatch):
    monkeypatch.setattr(compacting, "LARGEST_PART_ROWS", len(expected) // 3)
    registered(store, cuts=(0, 4, 8, 12, 16, 20, 24))
    report = compact_parts(store.location)
    assert 3 <= report.parts <= 6
    assert compact_parts(store.location).probes_rewritten == 0
    assert rows(store.url) == expected
    with store.reading() as connection:
        spread = connection.exec_driver_sql(
            "SELECT model_id, workload_id, phase, COUNT(*) FROM part_subject GROUP BY 1, 2, 3 ORDER BY 4 DESC"
        ).all()
    assert spread[0][-1] <= 2  # where a subject begins in one part and ends in the next


def test_a_small_sweep_is_sorted_by_itself_and_merged_when_it_is_no_longer_small(store, expected):
    sweep_id, refs = begun(store)
    folder = part_shelf(store)

    def register(low, high):
        file = write_part(folder, f"{low:064d}", shard_blocks(refs, slice(low, high)))
        return register_part(store, sweep_id, f"{low:064d}", file).probes_added

    for low, high in pairwise((0, 7, 14)):
        register(low, high)
    compact_parts(store.location)
    before = {path.name for path in folder.path.glob("shard-sorted-*")}
    added = register(14, 15) + register(15, 16)
    done = compact_parts(store.location)
    assert (done.parts_before, done.parts, done.probes_rewritten) == (3, 2, added)
    with read_transaction(store.location) as transaction:
        assert before < {part.name for part in parts_in_use(transaction)}
    assert compact_parts(store.location).probes_rewritten == 0
    more = register(16, 20) + register(20, 24)  # now a quarter of the rows is new
    done = compact_parts(store.location)
    assert (done.parts, done.probes_rewritten) == (1, len(expected))
    assert more > 0
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


@given(st.lists(st.integers(1, 2_000_000), max_size=40))
def test_tiers_hold_every_part_once_and_are_few(sizes):
    parts = [
        PartRow(id=number, name=f"shard-{number}-x.parquet", folder="", bytes=0, sha256="", row_count=rows_)
        for number, rows_ in enumerate(sizes)
    ]
    found = list(compacting.tiers(parts))
    assert sorted(part.id for tier in found for part in tier) == list(range(len(sizes)))
    totals = [sum(part.row_count for part in tier) for tier in found]
    assert all(after > 4 * before for before, after in pairwise(totals))
    assert compacting._run_of("shard-sorted-ab12-0.parquet") == compacting._run_of("shard-sorted-ab12-1.parquet")
    assert compacting._run_of("shard-sorted-ab12.parquet") != compacting._run_of("shard-sorted-cd34.parquet")


def test_a_backup_is_a_copy_of_the_database_and_then_of_the_files(tmp_path, expected, monkeypatch):
    """A sweep goes on between the two copies: what the database names is there, what it does not name is not read."""
    monkeypatch.delenv("SWEEPDB_PARTS")
    url = f"sqlite:///{tmp_path}/store.sqlite"
    saved = tmp_path / "saved"
    saved.mkdir()
    with open_store(url, create=True) as store:
        sweep_id, refs = begun(store)
        folder = part_shelf(store)
        file = write_part(folder, "1" * 64, shard_blocks(refs, slice(0, 9)))
        register_part(store, sweep_id, "1" * 64, file)
        then = rows(url)
        with (
            closing(sqlite3.connect(tmp_path / "store.sqlite")) as live,
            closing(sqlite3.connect(saved / "store.sqlite")) as copy,
        ):
            live.backup(copy)
        file = write_part(folder, "2" * 64, shard_blocks(refs, slice(9, 24)))
        register_part(store, sweep_id, "2" * 64, file)
        shutil.copytree(folder.path.parent, saved / "store.sqlite.parts")
    assert rows(url) == expected
    shutil.rmtree(tmp_path / "store.sqlite.parts")  # lost, with its database
    restored = f"sqlite:///{saved}/store.sqlite"
    assert rows(restored) == then
    report = check_store(parse_url(restored))
    assert report.faults == ()
    assert (report.orphans, report.unknown) == ((), ())  # of a folder that it has not claimed
    assert [one.parts for one in report.elsewhere] == [1]
    with pytest.raises(StoreError, match="belongs to"):
        compact_parts(parse_url(restored))
    assert adopt_parts(parse_url(restored), move=True).noted == 1
    assert check_store(parse_url(restored)).unknown == (file.name,)
    with open_store(restored) as store:
        file = write_part(part_shelf(store), "3" * 64, shard_blocks(refs, slice(9, 24)))
        register_part(store, sweep_id, "3" * 64, file)
    assert rows(restored) == expected


def test_a_store_that_moves_with_its_parts_is_read_where_it_is(tmp_path, expected, monkeypatch):
    monkeypatch.delenv("SWEEPDB_PARTS")
    folder = tmp_path / "first"
    folder.mkdir()
    with open_store(f"sqlite:///{folder}/store.sqlite", create=True) as store:
        registered(store)
    moved = folder.rename(tmp_path / "second")
    assert rows(f"sqlite:///{moved}/store.sqlite") == expected
    assert check_store(parse_url(f"sqlite:///{moved}/store.sqlite")).faults == ()


def test_a_store_on_a_server_needs_a_folder_that_is_named(monkeypatch):
    monkeypatch.delenv("SWEEPDB_PARTS")
    with pytest.raises(StoreError, match="no place is named") as caught:
        made_root(parse_url("postgresql://nobody@localhost/none"))
    assert "SWEEPDB_PARTS=/shared" in caught.value.hint


def test_other_numbers_under_the_key_of_a_block_in_a_part_are_refused(store):
    _, refs = registered(store)
    mine = block(RECORDS[0], 1, interval_length(RECORDS[0], MEAN))
    require_same(store, refs[0].id, refs[0].key, mine)
    other = replace(mine, columns={**mine.columns, "ttft_ms": mine.columns["ttft_ms"] + 1.0})
    with pytest.raises(InputError, match="stored here with other numbers"):
        require_same(store, refs[0].id, refs[0].key, other)


def test_a_write_that_failed_does_not_break_the_next_of_this_process(tmp_path, monkeypatch):
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        blocks, shelf = shard_blocks(begun(store)[1]), part_shelf(store)
    real = files.copy_rows

    def failing(connection, select, path):
        connection.close()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "copy_rows", failing)
    with pytest.raises(StoreError, match="No space left"):
        write_part(shelf, "0" * 64, blocks)
    monkeypatch.setattr(files, "copy_rows", real)
    assert write_part(shelf, "0" * 64, blocks).bytes > 0
