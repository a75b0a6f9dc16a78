"""Thinned files beside parts: written once, on a folder and in a bucket, checked, and gone with their parts."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice, pairwise

import duckdb
import fsspec
import pytest
from conftest_cli import sweepdb
from generator import block, scenarios, sweep_record

from queries.asking import question_of
from queries.session import Session
from store.errors import StoreError
from store.parts import ShardBlock, compact_parts, compacting, naming, part_shelf, register_part, write_part
from store.placing import WAITING, found_shelf, thinned_in_use
from store.reading import read_transaction
from store.schema.sql_tables import PART_THINNED
from store.upkeep import check_store
from store.writing import begin_sweep, finish_sweep, put_scenarios
from sweepdb import upkeep
from sweepdb.upkeep import thin_parts, winner_faults

RECORDS = [record for record in islice(scenarios(), 60) if record.status == "ok" and record.formula_version == 2][:9]
LAST = 40


@pytest.fixture
def shelf(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(
        "SWEEPDB_PARTS", str(tmp_path / "parts") if request.param == "folder" else "memory://bucket/thin"
    )
    with suppress(FileNotFoundError):
        fsspec.filesystem("memory").rm("/bucket", recursive=True)
    return request.param


def filled(store):
    """Store every scenario in two parts."""
    sweep_id = begin_sweep(store, sweep_record(key="b" * 32))
    refs = put_scenarios(store, sweep_id, RECORDS)
    for low, high in pairwise((0, 4, len(RECORDS))):
        blocks = [
            ShardBlock(
                scenario_id=ref.id,
                scenario_key=ref.key,
                replicas=record.subject.plan.dp * record.subject.plan.pp,
                record=block(record, 1, LAST),
            )
            for record, ref in list(zip(RECORDS, refs, strict=True))[low:high]
        ]
        register_part(store, sweep_id, f"{low:064d}", write_part(part_shelf(store), f"{low:064d}", blocks))
    finish_sweep(store, sweep_id, "finished")


def named(store):
    with read_transaction(store.location) as transaction:
        return thinned_in_use(transaction)


def answers(store):
    with Session(store.location) as session:
        answer = session.ask(question_of("best", {"tpot_limit": 60.0, "all": True}))
        return answer, bool(session._connection.thinned)


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(("store", "shelf"), [("sqlite", "bucket"), ("postgresql", "folder")], indirect=True)
def test_files_are_written_once_read_in_place_of_parts_and_go_with_them(store, monkeypatch):
    filled(store)
    expected, _ = answers(store)
    first = thin_parts(store.location)
    assert (first.written, first.probes) == (2, len(RECORDS) * LAST)
    assert 0 < first.winners < first.probes
    assert thin_parts(store.location).written == 0
    assert answers(store) == (expected, True)
    report = check_store(store.location)
    assert (report.faults, report.orphans, [*winner_faults(store.location)]) == ((), (), [])
    assert compact_parts(store.location).parts == 1
    assert answers(store) == (expected, False)  # of parts that are no more
    assert thin_parts(store.location).winners == first.winners
    assert answers(store) == (expected, True)
    monkeypatch.setattr(compacting, "RETIRED_KEPT_S", 0.0)
    assert compact_parts(store.location).files_removed == 4
    assert check_store(store.location).orphans == ()
    assert len(named(store)) == 1
    with store.reading() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM part_thinned").scalar_one() == 1
    assert answers(store) == (expected, True)


def test_a_file_that_is_lost_or_changed_is_named_not_read_and_written_anew(sqlite_url, tmp_path, monkeypatch):
    from store.opening import open_store

    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    with open_store(sqlite_url, create=True) as store:
        filled(store)
        expected, _ = answers(store)
        thin_parts(store.location)
        lost, changed = (part_shelf(store).path / row.name for row in named(store))
        lost.unlink()
        changed.write_bytes(changed.read_bytes() + b"more")
        faults = check_store(store.location).faults
        assert [name for name in (lost.name, changed.name) if any(name in fault for fault in faults)] == [
            lost.name,
            changed.name,
        ]
        assert all("Questions are answered from its part" in fault for fault in faults)
        assert answers(store) == (expected, False)
        assert thin_parts(store.location).written == 2
        assert check_store(store.location).faults == ()
        assert answers(store) == (expected, True)


def test_check_names_a_file_that_holds_other_rows_than_can_win(sqlite_url, tmp_path, monkeypatch):
    from store.opening import open_store

    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    with open_store(sqlite_url, create=True) as store:
        filled(store)
        with monkeypatch.context() as patch:  # a program that thins too much
            worse = tmp_path / "can_win.sql"
            from queries import thinned

            text = thinned.CAN_WIN.read_text()
            worse.write_text(
                text.replace(
                    "WHERE other.lot IS NULL OR", "WHERE this.batch_size < 3 AND (other.lot IS NULL OR"
                ).replace("false))\n);", "false))\n));")
            )
            patch.setattr(thinned, "CAN_WIN", worse)
            thin_parts(store.location)
        assert check_store(store.location).faults == ()  # the files are those that were registered
        faults = list(winner_faults(store.location))
        assert len(faults) == 2
        assert all("does not hold the rows of its part that can win" in fault for fault in faults)
        for row in named(store):
            found_shelf(store.location, row.name, row.folder).remove(row.name)
        thin_parts(store.location)
        assert list(winner_faults(store.location)) == []


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(("store", "shelf"), [("sqlite", "folder")], indirect=True)
def test_a_part_that_was_compacted_meanwhile_gets_no_file(store, monkeypatch):
    filled(store)
    real = upkeep.write_thinned

    def late(location, shelf, part):
        file = real(location, shelf, part)
        compact_parts(location)
        return file

    monkeypatch.setattr(upkeep, "write_thinned", late)
    with pytest.raises(StoreError, match="A compaction has replaced a part"):  # the second part has no block any more
        thin_parts(store.location)
    assert named(store) == []
    assert check_store(store.location).orphans == ()
    monkeypatch.undo()


def test_a_disk_that_is_full_leaves_no_file_behind(sqlite_url, tmp_path, monkeypatch):
    from store.opening import open_store

    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    with open_store(sqlite_url, create=True) as store:
        filled(store)

        def full(*_):
            raise duckdb.IOException("No space left on device")

        monkeypatch.setattr(upkeep, "rows_written", full)
        with pytest.raises(StoreError, match="No space left"):
            thin_parts(store.location)
        assert named(store) == []
        assert check_store(store.location).orphans == ()


def test_whoever_registers_again_takes_the_place_of_the_file_before(sqlite_url, tmp_path, monkeypatch):
    from store.opening import open_store

    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    with open_store(sqlite_url, create=True) as store:
        filled(store)
        thin_parts(store.location)
        one = named(store)[0]
        again = naming.ThinnedFile(
            folder=one.folder,
            name="shard-thin-again.parquet",
            bytes=1,
            sha256="0" * 64,
            footer="0" * 64,
            row_count=1,
            rules=one.rules,
        )
        (part_shelf(store).path / f"{WAITING}{again.name}").write_bytes(b"x")
        assert naming.register_thinned(store, one.part_id, again)
        assert not naming.register_thinned(store, 10_000, again)
        with store.reading() as connection:
            names = {row.name for row in connection.execute(PART_THINNED.select())}
        assert names == {"shard-thin-again.parquet", named(store)[1].name}
        assert check_store(store.location).orphans == (one.name,)


def test_the_command_says_what_can_win(sqlite_url, tmp_path, monkeypatch):
    from store.opening import open_store

    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    with open_store(sqlite_url, create=True) as store:
        filled(store)
    first = sweepdb("db compact", sqlite_url)
    assert first.code == 0
    assert "can win" not in first.err
    told = sweepdb("db compact --thin", sqlite_url)
    assert told.code == 0
    assert f"of {len(RECORDS) * LAST} probes can win; 1 thinned files written" in told.err


def test_a_store_without_parts_says_so(sqlite_url):
    from store.opening import open_store

    with open_store(sqlite_url, create=True):
        pass
    told = sweepdb("db compact --thin", sqlite_url)
    assert told.code == 0
    assert told.err == "nothing to compact: no worker wrote parts to this store, which keeps its rows itself\n"
