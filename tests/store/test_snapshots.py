"""Snapshots change no answer, whatever happens to their files."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest
from generator import fill
from part_cases import whole_snapshot
from quick import quick

from queries.connect import connect
from store.errors import StoreBusyError, StoreError
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.sealing import laying_down, seal, seal_location, snapshots
from store.sealing.laying_down import LARGEST_PART_ROWS, SealStep, plan_steps
from store.sealing.ranges import LARGEST_KEY, complement, merged, overlap, ranges_of
from store.sealing.snapshots import MANIFEST, Contents, Part, list_parts, load_snapshot
from store.sealing.unsealed import UnsealedBlock

PROBES = 2_000


def rows(url: str) -> list[tuple[object, ...]]:
    """Every visible probe, in a fixed order, with where it came from left out."""
    with connect(url) as connection:
        return connection.execute(
            "SELECT * FROM raw.stored_probe ORDER BY scenario_id, batch_size, block_id"
        ).fetchall()


def sources(url: str) -> tuple[int, int, tuple[str, ...]]:
    """Probes read from parts, probes read from the store, and why parts were left aside."""
    with connect(url) as connection:
        connection.provide(["stored_probe"])
        reasons = tuple(part.reason for part in connection.snapshot.rejected)
        return connection.snapshot.rows, connection.unsealed_probes, reasons


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def sealed_template(tmp_path_factory):
    """A sealed SQLite store in two parts; tests damage copies of it."""
    folder = tmp_path_factory.mktemp("template")
    url = f"sqlite:///{folder}/store.sqlite"
    fill(url, probes=PROBES)
    seal_location(parse_url(url))
    fill(url, probes=PROBES // 2, seed=1)
    patch = pytest.MonkeyPatch()
    patch.setattr(laying_down, "_ALWAYS_MERGED_ROWS", 0)
    patch.setattr(laying_down, "LARGEST_PART_ROWS", PROBES)
    seal_location(parse_url(url))
    patch.undo()
    return folder, rows(url)


@pytest.fixture
def sealed(sealed_template, tmp_path):
    """The address of a sealed store of one's own, its parts, and what every answer must be."""
    template, expected = sealed_template
    folder = tmp_path / "copy"
    shutil.copytree(template, folder)  # keeps times of change
    parts = sorted((folder / "store.sqlite.snapshots").glob("part-*.parquet"))
    assert len(parts) == 2
    return f"sqlite:///{folder}/store.sqlite", parts, expected


def test_deleting_every_snapshot_changes_no_answer(store):
    fill(store.url, probes=PROBES)
    from_store = rows(store.url)
    assert sources(store.url) == (0, len(from_store), ())
    report = seal(store)
    assert report.probes_sealed == len(from_store) >= PROBES
    assert sources(store.url) == (len(from_store), 0, ())
    assert rows(store.url) == from_store
    shutil.rmtree(report.directory)
    assert rows(store.url) == from_store


def test_new_blocks_are_read_from_the_store_until_they_are_sealed(store):
    fill(store.url, probes=PROBES)
    first = seal(store)
    assert seal(store).parts_written == 0
    added = fill(store.url, probes=PROBES, seed=2).probes
    assert added > 0
    assert sources(store.url) == (first.probes_sealed, added, ())
    both = rows(store.url)
    assert len(both) == first.probes_sealed + added
    second = seal(store)
    assert (second.probes_sealed, second.parts) == (added, 1)  # merged with the first, which was small
    assert sources(store.url) == (first.probes_sealed + added, 0, ())
    assert rows(store.url) == both


def truncate(part: Path, other: Path) -> None:
    with part.open("r+b") as file:
        file.truncate(part.stat().st_size // 2)


def empty(part: Path, other: Path) -> None:
    part.write_bytes(b"")


def edit(part: Path, other: Path) -> None:
    content = bytearray(part.read_bytes())
    content[len(content) // 3] ^= 0xFF
    part.write_bytes(content)


def swap(part: Path, other: Path) -> None:
    aside = part.with_suffix(".aside")
    part.rename(aside)
    other.rename(part)
    aside.rename(other)


def delete(part: Path, other: Path) -> None:
    part.unlink()


def replace_by_text(part: Path, other: Path) -> None:
    status = part.stat()
    part.write_bytes(b"x" * status.st_size)
    os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))


def rewrite_without_footer(part: Path, other: Path) -> None:
    """The same rows and, as far as the manifest can tell, the same file; only our footer is missing."""
    copy = part.with_name("copy.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM read_parquet('{part}')) TO '{copy}' (FORMAT parquet, COMPRESSION zstd)")
    copy.replace(part)
    manifest = part.with_name(MANIFEST)
    document = json.loads(manifest.read_text())
    entry = next(entry for entry in document["parts"] if entry["name"] == part.name)
    entry.update(size=part.stat().st_size, mtime_ns=part.stat().st_mtime_ns, sha256=snapshots.hash_file(part))
    manifest.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "damage", quick([truncate, edit, delete, empty, swap, replace_by_text, rewrite_without_footer], 3)
)
def test_a_damaged_part_is_left_aside_and_rebuilt(sealed, damage):
    url, (part, other), expected = sealed
    damage(part, other)
    from_parts, from_store, reasons = sources(url)
    assert len(reasons) == (2 if damage is swap else 1)
    assert from_parts + from_store == len(expected)
    assert rows(url) == expected
    report = seal_location(parse_url(url))
    assert len(report.rejected) == len(reasons)
    assert sources(url) == (len(expected), 0, ())
    assert rows(url) == expected


def test_an_edit_that_hides_behind_the_old_time_is_found_by_the_full_hash(sealed):
    url, (part, other), _ = sealed
    status = part.stat()
    edit(part, other)
    os.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
    with open_store(url) as store:
        checked = whole_snapshot(store)
    assert [(rejected.path, rejected.reason) for rejected in checked.rejected] == [
        (part, "the file was changed after it was written")
    ]


def test_a_copied_part_with_another_time_is_read_after_its_full_hash_agrees(sealed, monkeypatch):
    monkeypatch.setattr(laying_down, "_ALWAYS_MERGED_ROWS", 0)
    url, (part, _), expected = sealed
    os.utime(part)
    assert sources(url) == (len(expected), 0, ())
    seal_location(parse_url(url))
    document = json.loads(part.with_name(MANIFEST).read_text())
    entry = next(entry for entry in document["parts"] if entry["name"] == part.name)
    assert entry["mtime_ns"] == part.stat().st_mtime_ns


@pytest.mark.parametrize(
    "text", quick(["{", '{"format": 99}', "", "[]", '{"format": 1, "parts": [{}], "retired": []}'], 2)
)
def test_a_damaged_manifest_names_no_parts(sealed, text):
    url, (part, _), expected = sealed
    part.with_name(MANIFEST).write_text(text)
    assert sources(url) == (0, len(expected), ())
    assert rows(url) == expected
    seal_location(parse_url(url))
    assert sources(url) == (len(expected), 0, ())
    assert not part.exists()  # nothing names it any more


def test_a_manifest_cannot_name_files_elsewhere(sealed, tmp_path):
    url, (part, _), expected = sealed
    manifest = part.with_name(MANIFEST)
    manifest.write_text(manifest.read_text().replace(part.name, f"../{part.name}"))
    assert sources(url)[0] == 0
    assert rows(url) == expected


def test_parts_of_another_store_are_left_aside(sealed, tmp_path):
    _, (part, _), _ = sealed
    other_url = f"sqlite:///{tmp_path}/other.sqlite"
    fill(other_url, probes=PROBES // 4)
    expected = rows(other_url)
    shutil.copytree(part.parent, tmp_path / "other.sqlite.snapshots")
    assert sources(other_url) == (0, len(expected), ("the part belongs to another store",) * 2)
    assert rows(other_url) == expected


def test_a_store_restored_from_a_backup_and_continued_is_told_from_what_it_was(tmp_path):
    path = tmp_path / "store.sqlite"
    url = f"sqlite:///{path}"
    fill(url, probes=500)
    backup = tmp_path / "backup.sqlite"
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    fill(url, probes=500, seed=1)
    seal_location(parse_url(url))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(backup, path)
    assert sources(url)[2] == ("the store holds other blocks than the part",)
    fill(url, probes=500, seed=2)  # the same block ids come again, with other probes in them
    assert sources(url)[2] == ("the store holds other blocks than the part",)
    expected = rows(url)
    seal_location(parse_url(url))
    assert rows(url) == expected


def test_a_renamed_model_is_seen_at_once(sealed):
    url, _, _ = sealed
    with sqlite3.connect(parse_url(url).path) as database:
        database.execute("UPDATE model SET name = 'renamed' WHERE id = 1")
    database.close()
    assert set(sources(url)[2]) == {"a model or workload has been renamed"}
    names = {row[0] for row in connect(url).execute("SELECT DISTINCT model FROM raw.stored_probe").fetchall()}
    assert "renamed" in names


def test_a_part_of_another_revision_or_layout_is_left_aside(sealed, monkeypatch):
    url, _, expected = sealed
    monkeypatch.setattr(snapshots, "layout_digest", lambda: "another")
    from_parts, from_store, reasons = sources(url)
    assert (from_parts, from_store) == (0, len(expected))
    assert all("other columns" in reason for reason in reasons)


def test_sealers_at_once_lay_each_block_down_once(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=PROBES)
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(seal_location(parse_url(url)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.parts_written for report in reports) == [0, 0, 0, 1]
    assert sources(url)[1:] == (0, ())


def test_a_reader_survives_the_removal_of_the_parts_it_listed(sealed, monkeypatch):
    url, parts, expected = sealed
    monkeypatch.setattr(laying_down, "RETIRED_KEPT_S", 0.0)
    with connect(url) as connection:
        connection.provide(["stored_probe"])
        seal_location(parse_url(url))  # merges both parts into one,
        seal_location(parse_url(url))  # and now the old ones go
        assert not any(part.exists() for part in parts)
        count = connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone()
    assert count == (len(expected),)


def test_replaced_parts_stay_for_readers_that_listed_them(sealed):
    url, parts, _ = sealed
    report = seal_location(parse_url(url))
    assert report.parts == 1
    assert all(part.exists() for part in parts)


def test_parts_laid_down_while_a_reader_opens_do_not_concern_it(sealed):
    url, parts, expected = sealed
    location = parse_url(url)
    with read_transaction(location) as transaction, duckdb.connect() as connection:
        listed = list_parts(location, transaction.store_id)
        fill(url, probes=PROBES, seed=3)
        assert seal_location(location).parts == 1  # old and new blocks are now in one part
        snapshot = load_snapshot(connection, transaction, location, transaction.store_id, listed=listed)
        assert {part.path for part in snapshot.parts} == set(parts)
        assert snapshot.rejected == ()
        late = load_snapshot(connection, transaction, location, transaction.store_id)
        assert late.rows > len(expected)
        assert late.rejected == ()


def test_reading_lays_down_what_is_missing_where_it_is_much(sealed, monkeypatch):
    url, parts, expected = sealed
    monkeypatch.setattr("queries.connect._WORTH_SEALING", 100)
    for part in parts:
        part.unlink()
    assert rows(url) == expected
    assert sources(url) == (len(expected), 0, ())


def test_reading_answers_where_nothing_can_be_laid_down(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=500)
    expected = rows(url)
    monkeypatch.setattr("queries.connect._WORTH_SEALING", 100)
    (tmp_path / "store.sqlite.snapshots").write_text("in the way")
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert rows(url) == expected
    assert sources(url) == (0, len(expected), ())


def test_leftovers_of_a_killed_sealer_are_removed(sealed):
    url, (part, _), _ = sealed
    orphan = part.with_name("part-000000000000.parquet")
    unfinished = part.with_name(".part-111111111111.parquet.4711")
    orphan.write_bytes(b"")
    unfinished.write_bytes(b"PAR1")
    seal_location(parse_url(url))
    assert not orphan.exists()
    assert not unfinished.exists()


def test_the_file_of_a_sealer_that_lives_is_no_leftover(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=500)
    compared, beside = laying_down._Sealing._compare, []

    def compare(sealing, written, contents):
        with pytest.raises(StoreBusyError, match="laying down snapshots"):
            seal_location(parse_url(url), wait_s=0.0)
        beside.append((written.name.startswith(".part-"), written.exists()))
        compared(sealing, written, contents)

    monkeypatch.setattr(laying_down._Sealing, "_compare", compare)
    assert seal_location(parse_url(url)).parts == 1
    assert beside == [(True, True)]
    assert sources(url)[1:] == (0, ())


def test_where_the_place_beside_the_store_cannot_be_written_the_cache_is_used(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=500)
    expected = rows(url)
    (tmp_path / "store.sqlite.snapshots").write_text("in the way")
    report = seal_location(parse_url(url))
    assert report.directory.is_relative_to(tmp_path / "cache" / "sweepdb")
    assert sources(url) == (len(expected), 0, ())
    assert rows(url) == expected


@contextmanager
def unprivileged():
    """Drop root's rights for a while: root may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("log_left", [False, True])
def test_a_store_in_a_read_only_directory_is_read_and_sealed_into_the_cache(monkeypatch, log_left):
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, cache = Path(name) / "shelf", Path(name) / "cache"
        folder.mkdir()
        cache.mkdir()
        url = f"sqlite:///{folder}/store.sqlite"
        fill(url, probes=500)
        if log_left:  # a reader leaves an empty log behind
            rows(url)
            assert (folder / "store.sqlite-shm").exists()
        for path in (Path(name), cache):
            path.chmod(0o777)
        folder.chmod(0o555)
        stack.callback(folder.chmod, 0o755)
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        with unprivileged():
            expected = rows(url)
            report = seal_location(parse_url(url))
            assert report.directory.is_relative_to(cache)
            assert report.probes_sealed == len(expected) >= 500
            assert sources(url) == (len(expected), 0, ())
            assert rows(url) == expected


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=PROBES)
    expected = rows(url)
    program = (
        "import resource, sys\n"
        "from store.errors import StoreError\n"
        "from store.location import parse_url\n"
        "from store.sealing import seal_location\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "try: seal_location(parse_url(sys.argv[1]))\n"
        "except StoreError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)
    assert "could not be written" in result.stdout
    assert "Nothing is lost" in result.stdout
    assert [path.name for path in (tmp_path / "store.sqlite.snapshots").glob("*part*")] == []
    assert rows(url) == expected
    assert seal_location(parse_url(url)).probes == len(expected)


def test_no_directory_at_all_is_a_clear_error(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    fill(url, probes=100)
    (tmp_path / "store.sqlite.snapshots").write_text("in the way")
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="XDG_CACHE_HOME"):
        seal_location(parse_url(url))
    assert sources(url)[1] > 0


def part_of(row_count: int) -> Part:
    contents = Contents(
        store_id="", revision="", layout="", blocks=(), rows=row_count, block_count=0, digests="",
        models=(), workloads=(), names="",
    )  # fmt: skip
    return Part(path=Path(f"part-{row_count}.parquet"), size=0, mtime_ns=0, ctime_ns=0, sha256="", contents=contents)


def blocks(*counts: int) -> list[UnsealedBlock]:
    return [UnsealedBlock(id=number, probe_count=count) for number, count in enumerate(counts, start=1)]


def test_nothing_to_lay_down_and_one_small_part_is_left_alone():
    assert plan_steps([], [part_of(100)]) == []
    assert plan_steps([], []) == []


def test_small_parts_are_merged_even_when_nothing_is_new():
    small = [part_of(10), part_of(20)]
    assert plan_steps([], small) == [SealStep(merged=tuple(small))]


def test_a_large_part_is_not_rewritten_for_a_few_new_rows():
    assert plan_steps(blocks(1000), [part_of(900_000)]) == [SealStep(blocks=((1, 1),))]


def test_parts_of_similar_size_are_merged():
    # 400,000 new rows take in a part of up to 800,000: 700,000 is merged, 1,100,000 + 800,000 exceeds the largest part.
    assert plan_steps(blocks(400_000), [part_of(700_000), part_of(800_000)]) == [
        SealStep(blocks=((1, 1),), merged=(part_of(700_000),))
    ]


def test_many_rows_are_cut_into_parts_of_bounded_size():
    steps = plan_steps(blocks(LARGEST_PART_ROWS - 1, 2, LARGEST_PART_ROWS, 5), [])
    assert [step.blocks for step in steps] == [((1, 1),), ((2, 2),), ((3, 3),), ((4, 4),)]


def test_sealing_often_leaves_few_parts_and_rewrites_rarely():
    parts, rewritten = [], 0
    for _ in range(200):
        for step in plan_steps(blocks(40_000), parts):
            size = 40_000 + sum(part.contents.rows for part in step.merged)
            rewritten += size
            parts = [part for part in parts if part not in step.merged] + [part_of(size)]
    assert sum(part.contents.rows for part in parts) == 200 * 40_000
    assert len(parts) <= 12
    assert rewritten <= 6 * 200 * 40_000


def test_ranges():
    assert ranges_of([5, 1, 2, 3, 7, 8]) == ((1, 3), (5, 5), (7, 8))
    assert merged([(1, 3), (4, 6), (8, 9), (2, 2)]) == ((1, 6), (8, 9))
    assert complement(((1, 3), (5, 5))) == ((0, 0), (4, 4), (6, LARGEST_KEY))
    assert complement(()) == ((0, LARGEST_KEY),)
    assert overlap([(1, 3)], [(3, 4)])
    assert not overlap([(1, 3), (9, 9)], [(4, 8)])
