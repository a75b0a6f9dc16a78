"""Folders of parts belong to one database: copies and neighbours read, and delete nothing that another may name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fsspec
import psycopg
import pytest
from conftest_cli import sweepdb
from part_cases import ROWS, begun, registered, rows, shard_blocks, shards

from queries.connect import connect
from store.errors import StoreError
from store.location import parse_url
from store.opening import open_store
from store.parts import adopt_parts, claiming, compact_parts, part_shelf, register_part, write_part
from store.placing import WAITING, Claim, Ownership, home_of, owner_note
from store.placing.claims import Database
from store.reading import read_transaction
from store.upkeep import check_store

DAYS_AGO = time.time() - 3 * 86_400


@pytest.fixture(autouse=True)
def shared(tmp_path, monkeypatch):
    """A place of parts that stores share."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "shared"))
    return tmp_path / "shared"


def made(path, *, cuts=(0, 9, 24)):
    with open_store(f"sqlite:///{path}", create=True) as store:
        registered(store, cuts=cuts)
    return store.url


def copied(url, path):
    """A copy of the database alone, by SQLite's own backup."""
    with closing(sqlite3.connect(parse_url(url).path)) as live, closing(sqlite3.connect(path)) as copy:
        live.backup(copy)
    return f"sqlite:///{path}"


def aged(*folders):
    """Every file of days ago."""
    for folder in folders:
        for path in folder.rglob("*"):
            os.utime(path, (DAYS_AGO, DAYS_AGO))


def retired_long_ago(url):
    with open_store(url) as store, store.writing() as connection:
        connection.exec_driver_sql("UPDATE part SET retired_at = '2020-01-01 00:00:00' WHERE retired_at IS NOT NULL")


def compacted_for_good(url):
    """Compact, and again once readers of what was replaced are gone; how many files went."""
    compact_parts(parse_url(url))
    retired_long_ago(url)
    return compact_parts(parse_url(url)).files_removed


def folder_of(url):
    with open_store(url) as store:
        return part_shelf(store)


def faults(url):
    return check_store(parse_url(url)).faults


def test_two_stores_in_one_place_never_touch_each_others_files(tmp_path, shared):
    first, second = made(tmp_path / "a.sqlite"), made(tmp_path / "b.sqlite")
    expected = rows(first)
    mine = shards(folder_of(first))
    aged(shared)
    assert compacted_for_good(second) == 2
    assert shards(folder_of(first)) == mine
    with open_store(first) as store:
        assert folder_of(first).path.name.startswith(f"{store.store_id}-")
        assert (folder_of(first).path / f"owner-{store.store_id}.json").is_file()
    assert (rows(first), rows(second)) == (expected, expected)
    for url in (first, second):
        report = check_store(parse_url(url))
        assert (report.faults, report.orphans, report.unknown, report.elsewhere) == ((), (), (), ())


@pytest.mark.parametrize("way", [copied, lambda url, path: f"sqlite:///{shutil.copy(parse_url(url).path, path)}"])
def test_a_copy_of_a_database_reads_says_so_and_changes_nothing(tmp_path, shared, way):
    first = made(tmp_path / "a.sqlite")
    expected, before = rows(first), shards(folder_of(first))
    copy = way(first, tmp_path / "copy.sqlite")
    with connect(copy) as connection:
        assert connection.execute(ROWS).fetchall() == expected
        (said,) = connection.parts_elsewhere
    assert said == folder_of(first).address
    report = check_store(parse_url(copy))
    assert (report.faults, [one.parts for one in report.elsewhere]) == ((), [2])
    assert (report.elsewhere[0].address, report.elsewhere[0].owner) == (said, parse_url(first).display)
    aged(shared)
    with pytest.raises(StoreError, match=r"2 parts of .*copy\.sqlite lie in .*which belongs to .*a\.sqlite") as caught:
        compact_parts(parse_url(copy))
    assert "sweepdb db adopt-parts" in caught.value.hint
    assert shards(folder_of(first)) == before
    assert rows(first) == expected
    with connect(first) as connection:
        connection.execute(ROWS)
        assert connection.parts_elsewhere == ()


def test_a_copy_that_retired_parts_before_it_was_copied_deletes_none(tmp_path, shared):
    """The database was copied between a compaction and the removal of what it replaced."""
    first = made(tmp_path / "a.sqlite")
    compact_parts(parse_url(first))
    copy = copied(first, tmp_path / "copy.sqlite")
    before = shards(folder_of(first))
    retired_long_ago(copy)
    adopt_parts(parse_url(copy))
    assert compact_parts(parse_url(copy)).files_removed == 0
    assert shards(folder_of(first)) == before
    with read_transaction(parse_url(copy)) as transaction:
        assert next(transaction.values(int, "SELECT COUNT(*) FROM part WHERE retired_at IS NOT NULL")) == 0


def test_adopting_by_copy_makes_two_stores_that_know_nothing_of_each_other(tmp_path, shared):
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    copy = copied(first, tmp_path / "copy.sqlite")
    done = adopt_parts(parse_url(copy))
    assert (done.copied, done.taken) == (2, ())
    assert adopt_parts(parse_url(copy)).copied == 0
    aged(shared)
    assert compacted_for_good(copy) == 2
    assert rows(first) == rows(copy) == expected
    assert compacted_for_good(first) == 2
    assert rows(first) == rows(copy) == expected
    for url in (first, copy):
        assert (faults(url), check_store(parse_url(url)).elsewhere) == ((), ())
    shutil.rmtree(folder_of(first).path)
    assert rows(copy) == expected


def test_adopting_by_move_takes_the_folder_over_and_spares_what_only_the_other_names(tmp_path, shared):
    with open_store(f"sqlite:///{tmp_path}/a.sqlite", create=True) as store:
        sweep_id, refs = begun(store)
        folder = part_shelf(store)

        def register(low, high):
            file = write_part(folder, f"{low:064d}", shard_blocks(refs, slice(low, high)))
            register_part(store, sweep_id, f"{low:064d}", file)

        register(0, 9)
        first, then = store.url, rows(store.url)
        copy = copied(first, tmp_path / "copy.sqlite")
        register(9, 24)  # a part that the copy knows nothing of
    expected = rows(first)
    assert adopt_parts(parse_url(copy), move=True).taken == (folder.address,)
    aged(shared)
    assert compacted_for_good(copy) == 0  # one part, sorted in its way already: and what it does not know stays
    assert len(check_store(parse_url(copy)).unknown) == 1
    assert (rows(first), rows(copy)) == (expected, then)
    with pytest.raises(StoreError, match=r"belongs to .*copy\.sqlite"):
        compact_parts(parse_url(first))
    assert folder_of(first).address != folder.address  # new parts of the first go to a folder of its own
    assert folder_of(copy).address == folder.address
    assert adopt_parts(parse_url(first)).copied == 2
    compacted_for_good(copy)
    compacted_for_good(first)
    assert (rows(first), rows(copy)) == (expected, then)


def test_a_restored_backup_and_its_original_claim_the_same_and_only_one_owns_it(tmp_path, shared):
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    backup = copied(first, tmp_path / "backup.sqlite")
    parse_url(first).path.rename(tmp_path / "lost.sqlite")
    parse_url(backup).path.rename(parse_url(first).path)  # restored under the name of the original
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"a.sqlite{suffix}").unlink(missing_ok=True)
    lost = f"sqlite:///{tmp_path}/lost.sqlite"
    with pytest.raises(StoreError, match="belongs to"):
        compact_parts(parse_url(first))
    assert compact_parts(parse_url(lost)).parts == 1  # the original has moved, and is what it was
    adopt_parts(parse_url(first), move=True)
    with pytest.raises(StoreError, match="belongs to"):
        compact_parts(parse_url(lost))
    assert (rows(first), rows(lost)) == (expected, expected)


def test_a_database_that_moves_on_its_disk_or_whose_place_of_parts_is_renamed_stays_the_owner(
    tmp_path, shared, monkeypatch
):
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    (tmp_path / "elsewhere").mkdir()
    moved = parse_url(first).path.rename(tmp_path / "elsewhere" / "b.sqlite")
    shared.rename(tmp_path / "renamed")
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "renamed"))
    assert compacted_for_good(f"sqlite:///{moved}") == 2
    assert rows(f"sqlite:///{moved}") == expected
    assert len(list((tmp_path / "renamed").iterdir())) == 1


@pytest.mark.parametrize("hour", [-3_600, 3_600])
def test_clocks_an_hour_apart_delete_nothing_too_soon(tmp_path, shared, hour):
    first = made(tmp_path / "a.sqlite")
    with open_store(first) as store:
        folder = part_shelf(store)
        _, refs = begun(store, "c")
        waiting = folder.path / f"{WAITING}{write_part(folder, '5' * 64, shard_blocks(refs)).name}"
    for age, there in ((0, True), (86_400 - 3_700, True), (86_400 + 3_700, False)):
        os.utime(waiting, (time.time() - age + hour,) * 2)
        compact_parts(parse_url(first))
        assert waiting.exists() == there
    with open_store(first) as store, store.writing() as connection:  # as another machine has noted it
        moment = datetime.now(UTC) + timedelta(hours=1)
        connection.exec_driver_sql(
            f"UPDATE part SET retired_at = '{moment:%Y-%m-%d %H:%M:%S}' WHERE retired_at IS NOT NULL"
        )
    assert compact_parts(parse_url(first)).files_removed == 0
    assert faults(first) == ()


def test_a_file_that_was_removed_before_its_worker_came_back_is_never_named(tmp_path, shared):
    with open_store(f"sqlite:///{tmp_path}/a.sqlite", create=True) as store:
        sweep_id, refs = begun(store)
        folder = part_shelf(store)
        file = write_part(folder, "6" * 64, shard_blocks(refs))
        (folder.path / f"{WAITING}{file.name}").unlink()
        with pytest.raises(StoreError, match="is not there to be named"):
            register_part(store, sweep_id, "6" * 64, file)
        assert rows(store.url) == []
        assert faults(store.url) == ()


def test_two_processes_that_adopt_at_once_leave_one_owner_and_every_row(tmp_path, shared):
    first = made(tmp_path / "a.sqlite", cuts=(0, 5, 11, 24))
    expected = rows(first)
    copies = [copied(first, tmp_path / f"copy{number}.sqlite") for number in range(2)]
    both = [*copies, copies[0]]  # two databases, and one of them twice

    def at_once(**options):
        threads = [threading.Thread(target=adopt_parts, args=(parse_url(url),), kwargs=options) for url in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    at_once(move=True)
    owners = [url for url in (first, *copies) if not check_store(parse_url(url)).elsewhere]
    assert len(owners) == 1
    at_once()
    assert all(not check_store(parse_url(url)).elsewhere for url in copies)
    for url in (first, *copies):
        assert rows(url) == expected


def test_a_folder_that_cannot_be_written_is_read_and_stays_whose_it_was(tmp_path, shared):
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    copy = copied(first, tmp_path / "copy.sqlite")
    folder = folder_of(first)
    with read_transaction(parse_url(first)) as transaction:
        note = folder.path / owner_note(transaction.store_id)
    kept = note.read_text()
    note.unlink()
    note.mkdir()  # no file can take its place, whoever asks, root too
    assert rows(copy) == expected
    for refused in (lambda: adopt_parts(parse_url(copy), move=True), lambda: compact_parts(parse_url(first))):
        with pytest.raises(StoreError, match="belongs to"):
            refused()
    note.rmdir()
    note.write_text(kept)
    with pytest.raises(StoreError, match="belongs to"):
        compact_parts(parse_url(copy))
    assert compact_parts(parse_url(first)).parts == 1
    assert (rows(first), rows(copy)) == (expected, expected)


def as_before(url, root):
    """The store as it was before revision 0018: its parts in the place itself, nothing known of owners and files."""
    with open_store(url) as store, store.writing() as connection:
        for (folder,) in connection.exec_driver_sql("SELECT DISTINCT folder FROM part").all():
            for path in (root / home_of(folder)).glob("shard-*"):
                path.rename(root / path.name)
            shutil.rmtree(root / home_of(folder))
        connection.exec_driver_sql(f"UPDATE part SET folder = '{root}'")
        for table in ("part_file", "part_claim"):
            connection.exec_driver_sql(f"DELETE FROM {table}")


def test_a_store_of_before_in_a_shared_place_works_and_deletes_only_once_it_is_told_to(tmp_path, shared):
    first, second = made(tmp_path / "a.sqlite"), made(tmp_path / "b.sqlite")
    for url in (first, second):
        as_before(url, shared)
    expected = rows(second)
    aged(shared)
    flat = {path.name for path in shared.glob("shard-*")}
    assert (faults(first), check_store(parse_url(first)).unknown) == ((), ())
    with pytest.raises(StoreError, match="belongs to no database that is known"):
        compact_parts(parse_url(first))
    copy = copied(first, tmp_path / "copy.sqlite")
    assert adopt_parts(parse_url(first), move=True).taken == (str(shared),)
    assert compacted_for_good(first) == 2
    assert {path.name for path in shared.glob("shard-*")} < flat  # two went, the second store's are there
    assert rows(first) == rows(second) == expected
    with pytest.raises(StoreError, match=r"belongs to .*a\.sqlite"):
        compact_parts(parse_url(copy))
    assert adopt_parts(parse_url(second)).copied == 2
    assert compacted_for_good(second) == 2
    assert len(list(shared.glob("shard-*"))) == 2  # copied from there, and left there
    assert rows(second) == expected


def test_a_store_of_before_with_parts_beside_it_compacts_them_and_a_copy_does_not(tmp_path, monkeypatch):
    monkeypatch.delenv("SWEEPDB_PARTS")
    first = made(tmp_path / "a.sqlite")
    as_before(first, tmp_path / "a.sqlite.parts")
    expected = rows(first)
    copy = copied(first, tmp_path / "copy.sqlite")
    with pytest.raises(StoreError, match="belongs to no database"):
        compact_parts(parse_url(copy))
    assert compacted_for_good(first) == 2
    with pytest.raises(StoreError, match="is not there"):
        rows(copy)  # of a database without its files, which nobody adopted
    assert rows(first) == expected


def test_a_claim_is_of_one_database():
    server = Database(table="7/16384/16385")
    file = Database(inode=12, disk=3, device=1, path="/data/a.sqlite")
    claims = {one: Claim("home", "token", one.as_json()) for one in (server, file)}
    assert server.is_that_of(claims[server])
    assert not any(
        Database(table=other).is_that_of(claims[server]) for other in ("8/16384/16385", "7/1/16385", "7/16384/1")
    )
    for moved in (replace(file, path="/data/b.sqlite"), replace(file, device=2)):  # renamed; the next start
        assert moved.is_that_of(claims[file])
    for other in (replace(file, inode=13), replace(file, disk=4), replace(file, path="/b", device=2), server):
        assert not other.is_that_of(claims[file])
    assert not file.is_that_of(Claim("home", "token", "no database"))


def test_parts_in_a_bucket_belong_to_one_database(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEPDB_PARTS", "memory://owned/sweeps")
    files = fsspec.filesystem("memory")
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    copy = copied(first, tmp_path / "copy.sqlite")
    with pytest.raises(StoreError, match=r"which belongs to .*a\.sqlite"):
        compact_parts(parse_url(copy))
    assert adopt_parts(parse_url(copy)).copied == 2
    assert compacted_for_good(copy) == 2
    assert compacted_for_good(first) == 2
    assert rows(first) == rows(copy) == expected
    files.rm("/owned", recursive=True)


def test_a_copied_database_of_a_server_is_another(postgresql_server, tmp_path):
    url = postgresql_server.new_database()
    with open_store(url, create=True) as store:
        registered(store)
    expected = rows(url)
    name = f"{url.rpartition('/')[2]}_copy"
    with psycopg.connect(postgresql_server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {url.rpartition('/')[2]}")
    copy = postgresql_server.url(name)
    try:
        assert rows(copy) == expected
        with pytest.raises(StoreError, match="which belongs to"):
            compact_parts(parse_url(copy))
        assert compact_parts(parse_url(url)).parts == 1
        with open_store(copy) as store:
            assert part_shelf(store).address != folder_of(url).address
    finally:
        postgresql_server.drop(copy)
        postgresql_server.drop(url)


def test_whoever_is_stopped_between_the_two_steps_of_a_claim_owns_nothing_and_goes_on(tmp_path, shared, monkeypatch):
    first = made(tmp_path / "a.sqlite")
    expected = rows(first)
    copy = copied(first, tmp_path / "copy.sqlite")

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(claiming, "_note", stopped)
        with pytest.raises(KeyboardInterrupt):
            adopt_parts(parse_url(copy), move=True)
    with read_transaction(parse_url(copy)) as transaction:
        ownership = Ownership.read(transaction)
    folder = folder_of(first)
    assert ownership.says_so(home_of(folder.address))
    assert not ownership.may_change(folder, home_of(folder.address))
    assert compact_parts(parse_url(first)).parts == 1
    assert adopt_parts(parse_url(copy), move=True).taken == (folder.address,)
    assert rows(first) == rows(copy) == expected


def test_commands_say_whose_the_parts_of_a_copy_are(tmp_path, shared):
    first = made(tmp_path / "a.sqlite")
    copy = copied(first, tmp_path / "copy.sqlite")
    folder = folder_of(first).address
    asked = sweepdb(["query", "best"], copy)
    assert asked.code == 0
    assert "".join(folder.split()) in "".join(asked.out.split())
    assert "belongs to another database: this one is a copy" in " ".join(asked.out.split())
    checked = sweepdb(["db", "check"], copy)
    assert f"2 parts lie in {folder}, which belongs to {parse_url(first).display}" in checked.err
    refused = sweepdb(["db", "compact"], copy)
    assert refused.code == 3
    assert "sweepdb db adopt-parts" in refused.err
    assert "2 files copied" in (sweepdb(["db", "adopt-parts"], copy).err)
    assert "already" in sweepdb(["db", "adopt-parts"], copy).err
    assert sweepdb(["db", "compact"], copy).code == 0
    assert "another database" not in sweepdb(["query", "best"], copy).out
    page = path_of_damage(first)
    named = sweepdb(["query", "best"], first)
    assert named.code == 3
    assert page in named.err
    assert "Traceback" not in named.err


def path_of_damage(url):
    """Cut every part of a store; the name of one."""
    for name in shards(folder_of(url)):
        path = folder_of(url).path / name
        path.write_bytes(path.read_bytes()[:-9])
    return "shard-"
