"""Numbers that changed behind the program's back are found, wherever they lie; what can be proven right comes back."""

import os
import sqlite3
from contextlib import closing

import duckdb
import numpy as np
import pytest
from generator import fill
from hypothesis import given
from hypothesis import strategies as st
from quick import quick
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store.digests import DigestedRows, rows_digest
from store.errors import StoreError
from store.reading import read_transaction
from store.schema.tables import MEASURES
from store.sealing import changed_blocks, list_parts, seal
from store.sealing.snapshots import read_manifest, write_manifest
from store.upkeep import check_store, repair_store

COLUMNS = [column.name for column in MEASURES]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def sealed(sqlite_url):
    """A sealed file store: its location, and its one part."""
    fill(sqlite_url, probes=1500, seed=64)  # this seed starts with a distribution workload
    from store.opening import open_store

    with open_store(sqlite_url) as store:
        directory = seal(store).directory
        (part,) = read_manifest(directory).parts
        return store.location, part


def altered(location, statement):
    """Change a file store with a database shell, triggers taken away and laid down again."""
    with closing(sqlite3.connect(location.path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        changed = connection.execute(statement).rowcount
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()
    return changed


def disarm(connection):
    """Let triggers rest, as somebody with a database shell could."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE probe DISABLE TRIGGER USER"))
    else:
        connection.execute(text("DROP TRIGGER probe_refuses_update"))


def rearm(connection):
    """Lay them down again."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE probe ENABLE TRIGGER USER"))
    else:
        body = "BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END"
        connection.execute(text(f"CREATE TRIGGER probe_refuses_update BEFORE UPDATE ON probe {body}"))


def numbers(location):
    with closing(sqlite3.connect(location.path)) as connection:
        return connection.execute("SELECT * FROM probe ORDER BY scenario_id, batch_size").fetchall()


ALTERATIONS = {
    "a time": "UPDATE probe SET ttft_ms = ttft_ms * 1.000000001 WHERE ttft_ms IS NOT NULL",
    "a memory": "UPDATE probe SET weight_bytes = weight_bytes + 1 WHERE rowid_of_first",
    "a split": "UPDATE probe SET decode_step_memory_ms = decode_step_memory_ms + 1e-9 WHERE decode_step_memory_ms > 0",
    "a gap": "UPDATE probe SET e2e_ms = NULL WHERE e2e_ms IS NOT NULL",
    "a filled gap": "UPDATE probe SET prompt_service_ms = 1 WHERE prompt_service_ms IS NULL",
    "text": "UPDATE probe SET kv_cache_bytes = 'many' WHERE rowid_of_first",
    "two rows swapped": "UPDATE probe SET batch_size = CASE batch_size WHEN 1 THEN 100000 ELSE 1 END"
    " WHERE scenario_id = (SELECT MIN(scenario_id) FROM probe) AND batch_size IN (1)",
    "a digest": "UPDATE block SET digest = 'f' || substr(digest, 2) WHERE substr(digest, 1, 1) <> 'f'",
    "no digest": "UPDATE block SET digest = NULL WHERE id = 1",
    "another scenario": "UPDATE scenario SET key = 'f' || substr(key, 2) WHERE substr(key, 1, 1) <> 'f' AND status = 'ok'",
    "a composition": "UPDATE composition SET bin_index = bin_index + 100 WHERE bin_index = 0",
}


@pytest.mark.parametrize("what", quick(ALTERATIONS, {"a filled gap", "two rows swapped", "a digest"}.__contains__))
def test_rows_altered_behind_an_intact_snapshot_are_found(sealed, what):
    location, _ = sealed
    assert check_store(location).faults == ()
    first = "scenario_id = (SELECT MIN(scenario_id) FROM probe) AND batch_size = 1"
    assert altered(location, ALTERATIONS[what].replace("rowid_of_first", first)) > 0
    faults = check_store(location).faults
    assert any("not those that were committed" in fault or "number of probes" in fault for fault in faults), faults


def test_sealing_refuses_rows_that_are_not_what_was_committed(sqlite_url):
    from store.opening import open_store

    fill(sqlite_url, probes=500)
    with open_store(sqlite_url) as store:
        assert altered(store.location, "UPDATE probe SET weight_bytes = weight_bytes + 1") > 0
        with pytest.raises(StoreError, match="not what was committed"):
            seal(store)
        assert list_parts(store.location, store.store_id) == ()


def test_a_block_that_a_part_still_has_comes_back_bit_for_bit(sealed):
    location, _ = sealed
    before = numbers(location)
    assert altered(location, "UPDATE probe SET weight_bytes = weight_bytes + 1 WHERE batch_size < 4") > 0
    report = repair_store(location)
    assert report.restored
    assert not report.lost
    assert numbers(location) == before
    assert check_store(location).faults == ()


def test_what_keeps_rows_as_they_are_works_again_after_a_repair(store):
    fill(store.url, probes=600)
    seal(store)
    with store.writing() as connection:
        disarm(connection)
        connection.execute(text("UPDATE probe SET weight_bytes = weight_bytes + 1 WHERE batch_size < 3"))
        rearm(connection)
    report = repair_store(store.location)
    assert report.restored
    assert check_store(store.location).faults == ()
    with pytest.raises(DBAPIError, match="never changes"), store.writing() as connection:
        connection.execute(text("UPDATE probe SET weight_bytes = 1"))


def test_a_block_that_no_part_has_is_named_as_lost(sealed):
    location, part = sealed
    part.path.unlink()
    assert altered(location, "UPDATE probe SET weight_bytes = weight_bytes + 1 WHERE scenario_id = 1") > 0
    report = repair_store(location)
    assert [block.scenario_key for block in report.lost]
    assert not report.restored
    assert check_store(location).faults


def forged(part, change):
    """Write a part anew with other rows but the footer, the manifest and the hashes that belong to them."""
    from store.sealing.snapshots import hash_file

    footer = part.contents.as_json().replace("'", "''")
    copy = part.path.with_suffix(".forged")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS FROM '{part.path}'")
        connection.execute(change)
        connection.execute(f"COPY rows TO '{copy}' (FORMAT parquet, KV_METADATA {{sweepdb: '{footer}'}})")
    copy.replace(part.path)
    status = part.path.stat()
    manifest = read_manifest(part.path.parent)
    changed = [
        type(part)(
            path=part.path, size=status.st_size, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns,
            sha256=hash_file(part.path), contents=part.contents,
        )
    ]  # fmt: skip
    write_manifest(part.path.parent, type(manifest)(parts=tuple(changed), retired=manifest.retired))


@pytest.mark.parametrize(
    "change",
    ["UPDATE rows SET ttft_ms = ttft_ms / 2", "UPDATE rows SET model = 'another'", "UPDATE rows SET tp = tp * 2"],
)
def test_a_forged_part_with_its_manifest_is_found_and_laid_down_again(sealed, change):
    location, part = sealed
    forged(part, change)
    with read_transaction(location) as transaction:
        assert len(list_parts(location, transaction.store_id)) == 1
    (fault,) = check_store(location).faults
    assert "says something else than the database" in fault
    assert repair_store(location).parts_rebuilt == 1
    assert check_store(location).faults == ()


def test_a_part_changed_in_place_is_not_read_even_if_its_time_is_set_back(sealed):
    from queries.connect import connect

    location, part = sealed
    raw = bytearray(part.path.read_bytes())
    status = part.path.stat()
    rows_before = numbers(location)
    for place in range(40, len(raw) // 2, len(raw) // 40):
        flipped = bytearray(raw)
        flipped[place] ^= 1
        with part.path.open("r+b") as file:
            file.write(flipped)
        os.utime(part.path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with connect(location.url) as connection:
            assert connection.execute("SELECT COUNT(*) FROM raw.stored_probe").fetchone() == (len(rows_before),)
            assert [item.reason for item in connection.snapshot.rejected] == [
                "the file was changed after it was written"
            ]


@given(st.integers(0, 40), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_a_digest_depends_on_rows_alone(missing, values):
    sizes = np.arange(1, 4)
    column = np.array(values)
    name = COLUMNS[missing % len(COLUMNS)]
    columns = {name: np.abs(column % 2**40)}
    rows = DigestedRows.of_columns(sizes, columns)
    masked = {**dict.fromkeys(COLUMNS), name: np.ma.masked_array(columns[name]), "e2e_ms": columns.get("e2e_ms")}
    assert rows_digest("a", rows, None) == rows_digest("a", DigestedRows.of_columns(sizes, masked), None)
    assert rows_digest("a", rows, None) != rows_digest("b", rows, None)
    assert rows_digest("a", rows.within(1, 2), None) != rows_digest("a", rows, None)


def test_digests_are_the_same_in_both_databases_and_in_parts(store):
    fill(store.url, probes=900, seed=64)
    with store.reading() as connection:
        digests = connection.execute(text("SELECT digest FROM block ORDER BY id")).scalars().all()
    assert all(digests)
    assert len(set(digests)) == len(digests)
    seal(store)
    with read_transaction(store.location) as transaction, duckdb.connect() as connection:
        parts = list_parts(store.location, transaction.store_id)
        for part in parts:
            assert changed_blocks(connection, transaction, f"read_parquet('{part.path}')", part.contents.blocks) == []
