import sqlite3
from contextlib import closing

import pytest
from generator import fill
from sqlalchemy import text

from store.location import parse_url
from store.revision import HEAD_REVISION
from store.sealing import seal
from store.upkeep import check_store, vacuum_store


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def disarm(connection):
    """Take the triggers away, as somebody with a database shell could."""
    for table in ("block", "probe", "composition"):
        for change in ("update", "delete"):
            on = "" if connection.dialect.name == "sqlite" else f" ON {table}"
            connection.execute(text(f"DROP TRIGGER {table}_refuses_{change}{on}"))


def test_a_store_that_was_only_written_to_is_whole(store):
    filled = fill(store.url, probes=2000)
    report = check_store(store.location)
    assert report.faults == ()
    assert report.whole
    assert (report.probes, report.scenarios, report.sweeps) == (filled.probes, filled.scenarios, len(filled.sweeps))
    assert report.revision == HEAD_REVISION


DAMAGE = {
    "UPDATE probe SET batch_size = 9999 WHERE batch_size = 3": ("number of probes", "belong to no block"),
    "DELETE FROM probe WHERE batch_size = 1": ("number of probes",),
    "UPDATE block SET first_batch_size = 2, probe_count = probe_count - 1": ("belong to no block",),
    "DELETE FROM sweep_interval WHERE first_batch_size > 0": ("no sweep asked for",),
    "UPDATE composition SET samples = samples + 1": ("does not add up",),
    "UPDATE scenario SET status = 'error', reason = 'x'": ("failed scenarios that have probes",),
}


@pytest.mark.parametrize("statement", list(DAMAGE))
def test_every_kind_of_damage_is_found(fresh_store, statement):
    fill(fresh_store.url, probes=1200, seed=64)  # this seed starts with a distribution workload
    with fresh_store.writing() as connection:
        disarm(connection)
        assert connection.execute(text(statement)).rowcount > 0
    report = check_store(fresh_store.location)
    assert not report.whole
    for part in DAMAGE[statement]:
        assert any(part in fault for fault in report.faults), (part, report.faults)
    assert any("trigger probe_refuses_update" in fault for fault in report.faults)


def test_overlapping_blocks_are_found(store):
    fill(store.url, probes=500)
    with store.writing() as connection:
        connection.execute(
            text(
                "INSERT INTO block (scenario_id, first_batch_size, last_batch_size, probe_count, sweep_id, created_at)"
                " SELECT scenario_id, 2, 4, 3, sweep_id, created_at FROM block"
            )
        )
    assert any("overlap" in fault for fault in check_store(store.location).faults)


def test_a_changed_schema_is_found(fresh_store):
    with fresh_store.writing() as connection:
        connection.execute(text("ALTER TABLE price ADD COLUMN euro FLOAT"))
        connection.execute(text("DROP INDEX ix_sweep_started_at"))
    faults = " ".join(check_store(fresh_store.location).faults)
    assert "euro" in faults
    assert "ix_sweep_started_at" in faults


def test_broken_references_and_damaged_pages_are_found(sqlite_url):
    fill(sqlite_url, probes=2000)
    location = parse_url(sqlite_url)
    with closing(sqlite3.connect(location.path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM model")
        connection.commit()
    assert any("subject refers to a row of model" in fault for fault in check_store(location).faults)
    with closing(sqlite3.connect(location.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ix_subject_model_id'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with location.path.open("r+b") as file:  # an index whose cells point outside their page
        file.seek((root - 1) * size + 8)
        file.write(b"\xff" * 64)
    assert any("damaged" in fault for fault in check_store(location).faults)


def test_a_changed_snapshot_is_found(store):
    fill(store.url, probes=2000)
    seal(store)
    report = check_store(store.location)
    assert report.whole
    assert report.snapshot_probes == report.probes
    from store.sealing.snapshots import snapshot_directories

    (part,) = [
        path
        for directory in snapshot_directories(store.location, store.store_id)
        if directory.is_dir()
        for path in directory.glob("*.parquet")
    ]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    report = check_store(store.location)
    assert not report.whole
    assert any(part.name in fault and "sweepdb db seal" in fault for fault in report.faults)


def test_vacuum_changes_no_row_and_gives_space_back(store):
    filled = fill(store.url, probes=3000)
    with store.writing() as connection:
        connection.execute(text("CREATE TABLE ballast AS SELECT * FROM probe"))
    with store.writing() as connection:
        connection.execute(text("DROP TABLE ballast"))
    report = vacuum_store(store.location)
    if store.kind == "sqlite":
        assert report.bytes_after < report.bytes_before
    check = check_store(store.location)
    assert (check.whole, check.probes) == (True, filled.probes)
