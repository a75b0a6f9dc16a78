"""Parts in a bucket answer as parts in a folder do, are copied once, and are named where the bucket does not give them."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice, pairwise

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from generator import block, put, scenarios, sweep_record

from queries.connect import connect
from store.errors import InputError, StoreError
from store.opening import open_store
from store.parts import ShardBlock, compact_parts, compacting, part_shelf, register_part, write_part
from store.placing import WAITING, buckets, shelf_at
from store.upkeep import check_store
from store.writing import begin_sweep, finish_sweep, put_scenarios

RECORDS = [record for record in islice(scenarios(), 60) if record.status == "ok"][:12]
LAST = 9
ROWS = "SELECT * EXCLUDE (block_id, first_sweep, stored_at) FROM raw.stored_probe ORDER BY scenario, batch_size"


@pytest.fixture(autouse=True)
def bucket(tmp_path, monkeypatch):
    """An empty bucket in memory, as the place of parts; files by name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", "memory://bucket/sweeps")
    files = fsspec.filesystem("memory")
    with suppress(FileNotFoundError):
        files.rm("/bucket", recursive=True)
    return files


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The rows of a store without parts."""
    url = f"sqlite:///{tmp_path_factory.mktemp('rows')}/store.sqlite"
    with open_store(url, create=True) as store:
        sweep_id = begin_sweep(store, sweep_record(key="a" * 32))
        for record, ref in zip(RECORDS, put_scenarios(store, sweep_id, RECORDS), strict=True):
            put(store, sweep_id, record, ref, first=1, last=LAST)
        finish_sweep(store, sweep_id, "finished")
    return rows(url)


def rows(url):
    with connect(url) as connection:
        return connection.execute(ROWS).fetchall()


def filled(store):
    """Store every scenario in two parts; returns their names."""
    sweep_id = begin_sweep(store, sweep_record(key="b" * 32))
    refs = put_scenarios(store, sweep_id, RECORDS)
    shelf = part_shelf(store)
    names = []
    for low, high in pairwise((0, 5, len(RECORDS))):
        blocks = [
            ShardBlock(
                scenario_id=ref.id,
                scenario_key=ref.key,
                replicas=record.subject.plan.dp * record.subject.plan.pp,
                record=block(record, 1, LAST),
            )
            for record, ref in list(zip(RECORDS, refs, strict=True))[low:high]
        ]
        file = write_part(shelf, f"{low:064d}", blocks)
        register_part(store, sweep_id, f"{low:064d}", file)
        names.append(file.name)
    finish_sweep(store, sweep_id, "finished")
    return names


def test_a_bucket_answers_as_rows_do_and_each_part_is_copied_once(store, expected, monkeypatch):
    fetched = []
    real = MemoryFileSystem.get_file
    monkeypatch.setattr(MemoryFileSystem, "get_file", lambda self, *a, **k: fetched.append(a[0]) or real(self, *a, **k))
    names = filled(store)
    assert rows(store.url) == expected
    assert rows(store.url) == expected
    assert sorted(path.rpartition("/")[2] for path in fetched) == sorted(names)
    report = check_store(store.location)
    assert (report.faults, report.orphans, report.probes) == ((), (), len(expected))


def test_files_that_no_row_names_are_reported_and_compaction_rewrites_in_the_bucket(
    store, expected, bucket, monkeypatch
):
    before = filled(store)
    shelf = part_shelf(store)
    stray = shelf.scratch / ".shard-stray.parquet"
    stray.write_bytes(b"half")
    shelf.put(stray, "shard-stray.parquet")
    assert check_store(store.location).orphans == (f"{WAITING}shard-stray.parquet",)
    done = compact_parts(store.location)
    assert (done.parts_before, done.parts, done.probes_rewritten, done.files_removed) == (2, 1, len(expected), 0)
    assert rows(store.url) == expected
    monkeypatch.setattr(compacting, "RETIRED_KEPT_S", -1.0)
    monkeypatch.setattr(compacting, "LEFT_S", -1.0)
    assert compact_parts(store.location).files_removed == 3
    (left,) = shelf.named()
    assert left not in before
    assert rows(store.url) == expected
    assert check_store(store.location).faults == ()


def lose(bucket, path):
    bucket.rm(path)


def change(bucket, path):
    whole = bytearray(bucket.cat(path))
    whole[len(whole) // 2] ^= 1
    bucket.pipe(path, bytes(whole))


@pytest.mark.parametrize(
    ("damage", "said", "found"),
    [
        (lose, "is not there", "cannot be read"),
        (change, "is not the file that was registered", "is not the file that was registered"),
    ],
)
def test_what_a_bucket_lost_or_changed_is_named(store, bucket, damage, said, found):
    name = filled(store)[1]
    damage(bucket, f"{part_shelf(store).address.removeprefix('memory:/')}/{name}")
    with pytest.raises(StoreError, match=said) as caught:
        rows(store.url)
    assert f"{part_shelf(store).address}/{name}" in caught.value.message
    assert any(found in fault and name in fault for fault in check_store(store.location).faults)
    with pytest.raises(StoreError, match="nothing is rewritten"):
        compact_parts(store.location)


def test_a_bucket_that_does_not_answer_is_named_and_what_was_copied_still_answers(store, expected, monkeypatch):
    names = filled(store)
    with connect(store.url) as connection:
        connection.narrow_to([1])
        connection.execute(ROWS)
        (copied,) = (path.name for path in connection.files)
    assert copied in names

    def gone(*_, **__):
        raise ConnectionError("no route to host")

    for operation in ("get_file", "put_file", "info", "exists", "open", "ls"):
        monkeypatch.setattr(MemoryFileSystem, operation, gone)
    with connect(store.url) as connection:
        connection.narrow_to([1])
        found = connection.execute(ROWS).fetchall()
    assert len(found) == LAST
    assert set(found) < set(expected)
    with pytest.raises(StoreError, match=r"does not answer: no route to host.*nowhere else"):
        rows(store.url)
    faults = check_store(store.location).faults
    assert sum("does not answer: no route to host" in fault for fault in faults) >= 2


def test_nothing_is_stored_of_an_upload_that_was_cut(store, monkeypatch):
    real = MemoryFileSystem.put_file

    def cut(self, local, remote, **options):
        real(self, local, remote, **options)
        self.pipe(remote, self.cat(remote)[:-1])

    monkeypatch.setattr(MemoryFileSystem, "put_file", cut)
    with pytest.raises(
        StoreError, match=r"could not be written to memory://bucket/sweeps/[-0-9a-f]+: [\d,]+ of [\d,]+ bytes arrived"
    ):
        filled(store)
    assert rows(store.url) == []


def test_copies_that_nobody_uses_make_room_and_those_in_use_stay(bucket, monkeypatch, tmp_path):
    shelf = shelf_at("memory://bucket/sweeps")
    digests = {}
    for number in range(3):
        name = f"shard-{number}.parquet"
        made = shelf.scratch / f".{name}"
        made.write_bytes(bytes([number]) * 1_000)
        shelf.put(made, name)
        shelf.settle(name)
        digests[name] = shelf.sha256(name)
    monkeypatch.setenv(buckets.COPIES, "0.000002")  # two of them
    for name, digest in digests.items():
        shelf.fetched(name, 1_000, digest)
    assert len(list(shelf.scratch.glob("shard-*"))) == 3  # all are in use
    left = shelf.scratch / ".shard-killed.parquet"
    left.write_bytes(b"half")
    monkeypatch.setattr(buckets, "_IN_USE_S", -1.0)
    (shelf.scratch / "shard-1.parquet").unlink()
    shelf.fetched("shard-0.parquet", 1_000, digests["shard-0.parquet"])  # used later than the third
    shelf.fetched("shard-1.parquet", 1_000, digests["shard-1.parquet"])
    assert {path.name for path in shelf.scratch.glob("shard-*")} == {"shard-0.parquet", "shard-1.parquet"}
    assert left.exists()  # of a process that may still write it
    os.utime(left, (0, 0))
    (shelf.scratch / "shard-1.parquet").unlink()
    shelf.fetched("shard-1.parquet", 1_000, digests["shard-1.parquet"])
    assert not left.exists()
    monkeypatch.setenv(buckets.COPIES, "plenty")
    with pytest.raises(InputError, match="a number of gigabytes is expected"):
        buckets.most_copies_bytes()


def test_an_address_that_nothing_reads_is_refused(monkeypatch, store):
    monkeypatch.setenv("SWEEPDB_PARTS", "nowhere://bucket/sweeps")
    with pytest.raises(InputError, match="no place for parts"):
        part_shelf(store)
