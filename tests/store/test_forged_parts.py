"""Files of parts that somebody or a disk has changed: noticed at opening, by a proof, and by a check; never a traceback."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from examples import examples
from generator import interval_length, put
from part_cases import RECORDS, begun, registered, rows, shard_blocks
from part_damage import as_if_untouched, files_of, page_flipped, ten_times_faster

from queries.asking.question import Question
from queries.connect import connect
from queries.proofs import verify_proof, write_proof
from queries.sandbox import run_sql
from queries.session import Session
from store.errors import StoreError
from store.location import parse_url
from store.opening import open_store
from store.parts import adopt_parts, compact_parts, part_shelf, register_part, write_part
from store.sealing import list_parts, seal, snapshots
from store.upkeep import check_store
from sweepdb.sharing import export_bundle
from sweepdb.upkeep import thin_parts

QUESTION = Question(report="best")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))


@pytest.fixture
def url(tmp_path):
    """A store of two parts."""
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        registered(store)
    return store.url


def test_a_forged_part_of_the_same_size_and_time_is_noticed_at_opening_by_its_footer(url, tmp_path):
    path = files_of(url)[0]
    ten_times_faster(path)
    as_if_untouched(url)  # as if nothing but the footer told
    with pytest.raises(StoreError, match=rf"{path.name} .*its footer is another") as caught:
        rows(url)
    assert "sweepdb db check" in caught.value.hint
    with Session(parse_url(url)) as session, pytest.raises(StoreError, match="its footer is another"):
        session.ask(QUESTION)
    with pytest.raises(StoreError, match="its footer is another"), run_sql(parse_url(url), "FROM probe") as result:
        list(result)
    assert any(path.name in fault for fault in check_store(parse_url(url)).faults)


def test_a_page_that_was_changed_is_noticed_at_opening_by_the_times_of_its_file(url):
    path = files_of(url)[0]
    before = path.stat()
    page_flipped(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # nobody sets the other time back
    with pytest.raises(StoreError, match=rf"{path.name} .*it was changed after it was written"):
        rows(url)


@pytest.mark.parametrize("how", ["copied", "touched", "linked"])
def test_a_file_that_is_what_was_registered_answers_whatever_its_times(url, how, tmp_path):
    expected, path = rows(url), files_of(url)[0]
    if how == "copied":
        shutil.copy(path, tmp_path / "copy")
        path.unlink()
        (tmp_path / "copy").rename(path)
    elif how == "touched":
        os.utime(path, (0, 0))
    else:
        os.link(path, tmp_path / "link")
    assert rows(url) == expected
    assert check_store(parse_url(url)).faults == ()


def proof_of(url, path):
    with Session(parse_url(url)) as session:
        write_proof(session.ask(QUESTION), path, parse_url(url), session.pinned())


def silently_wrong(url):
    """Flip bits of pages, as a disk would, until a row that the question looks at has another number."""
    with Session(parse_url(url)) as session:
        session.ask(QUESTION)
        keys = {key for key, *_ in session.pinned()}
    looked_at = lambda: [row for row in rows(url) if row[0] in keys]  # noqa: E731
    expected, chance = looked_at(), random.Random(11)
    for path in files_of(url) * 50:
        kept = path.read_bytes()
        page_flipped(path, chance)
        as_if_untouched(url)
        with suppress(StoreError):
            if looked_at() != expected:
                return path
        path.write_bytes(kept)
    raise AssertionError("no flip changed a number")


def test_a_rotten_page_is_noticed_by_a_proof_by_verify_and_by_a_check(url, tmp_path):
    proof_of(url, tmp_path / "before.json")
    assert verify_proof(tmp_path / "before.json", parse_url(url)).startswith("verified")
    path = silently_wrong(url)  # a question looks at times and footers, which a disk does not change
    with pytest.raises(StoreError, match="are not those that were committed"):
        proof_of(url, tmp_path / "after.json")
    assert not (tmp_path / "after.json").exists()
    with pytest.raises(StoreError, match="are not those"):
        verify_proof(tmp_path / "before.json", parse_url(url))
    for refused in (compact_parts, thin_parts):
        with pytest.raises(StoreError, match=rf"{path.name} .*so nothing is rewritten"):
            refused(parse_url(url))
    with pytest.raises(StoreError, match="are not those that were committed"):
        export_bundle(tmp_path / "bundle", store=url)
    faults = check_store(parse_url(url)).faults
    assert any(path.name in fault for fault in faults)
    assert any("are not those that were committed" in fault for fault in faults)


def test_a_proof_of_forged_rows_is_not_verified_either(url, tmp_path, monkeypatch):
    """A proof that somebody made of a rotten part by a program that did not look."""
    silently_wrong(url)
    with monkeypatch.context() as patch:
        patch.setattr("queries.proofs.scope_rows._require_committed", lambda *_: None)
        proof_of(url, tmp_path / "forged.json")
    with pytest.raises(StoreError, match="are not those that were committed"):
        verify_proof(tmp_path / "forged.json", parse_url(url))


def test_flips_anywhere_are_an_answer_or_a_sentence_that_names_the_part(url):
    """Of a file whose times say that nobody touched it: the worst case, in which DuckDB meets the damage."""
    expected, path = rows(url), files_of(url)[0]
    kept, chance = path.read_bytes(), random.Random(2026)
    counts = dict.fromkeys(("same", "other", "said"), 0)
    for number in range(examples(90)):
        whole = bytearray(kept)
        low = len(kept) - 700 if number % 3 == 0 else 0  # pages, and the footer
        whole[chance.randrange(low, len(kept))] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(whole))
        as_if_untouched(url)
        try:
            counts["same" if rows(url) == expected else "other"] += 1
        except StoreError as error:
            assert path.name in error.message  # noqa: PT017  any error but this one is the fault looked for
            assert "db check" in error.hint  # noqa: PT017
            counts["said"] += 1
    assert counts["said"] > sum(counts.values()) / 4


@pytest.mark.parametrize("cut", [1, 8, 500, 5_000])
def test_cut_files_are_named(url, cut):
    path = files_of(url)[0]
    path.write_bytes(path.read_bytes()[:-cut])
    as_if_untouched(url)
    with pytest.raises(StoreError, match=rf"{path.name} .*were written"):
        rows(url)


def test_a_part_of_before_whose_footer_nobody_kept_is_compared_whole(url):
    with open_store(url) as store, store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM part_file")
    expected, path = rows(url), files_of(url)[0]
    kept = path.read_bytes()
    page_flipped(path)
    with pytest.raises(StoreError, match="it was changed after it was written"):
        rows(url)
    path.write_bytes(kept)
    assert rows(url) == expected
    assert adopt_parts(parse_url(url), move=True).noted == 2


def test_adopting_notes_new_times_only_of_files_that_are_right(url, tmp_path):
    expected, paths = rows(url), files_of(url)
    copy = tmp_path / "copy.sqlite"
    shutil.copy(parse_url(url).path, copy)
    os.utime(paths[0], (0, 0))
    assert adopt_parts(parse_url(str(copy)), move=True).noted == 1
    assert rows(str(copy)) == expected
    page_flipped(paths[1])
    shutil.copy(copy, tmp_path / "third.sqlite")
    for move in (True, False):
        with pytest.raises(StoreError, match=f"{paths[1].name} .*is not the file that was registered"):
            adopt_parts(parse_url(str(tmp_path / "third.sqlite")), move=move)


def test_a_copy_in_the_cache_of_a_bucket_is_compared_by_its_footer(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEPDB_PARTS", "memory://forged/sweeps")
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        sweep_id, refs = begun(store)
        file = write_part(part_shelf(store), "1" * 64, shard_blocks(refs))
        register_part(store, sweep_id, "1" * 64, file)
        assert len(rows(store.url)) > 0
        ten_times_faster(part_shelf(store).scratch / file.name)
        with pytest.raises(StoreError, match="its footer is another"):
            rows(store.url)


def test_a_damaged_snapshot_is_named_where_duckdb_meets_it(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/store.sqlite", create=True) as store:
        sweep_id, refs = begun(store)
        for record, ref in zip(RECORDS, refs, strict=True):
            put(store, sweep_id, record, ref, first=1, last=interval_length(record, 20))
        seal(store)
        (part,) = list_parts(store.location, store.store_id)
        whole = bytearray(part.path.read_bytes())
        whole[4 : len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")] = bytes(
            len(whole) - 12 - int.from_bytes(whole[-8:-4], "little")
        )
        part.path.write_bytes(bytes(whole))
        manifest = snapshots.read_manifest(part.path.parent)
        rotten = tuple(snapshots.with_current_times(one) for one in manifest.parts)
        snapshots.write_manifest(part.path.parent, snapshots.Manifest(parts=rotten))
        with pytest.raises(StoreError, match=rf"snapshot .*{part.path.name} of .* is damaged") as caught:
            rows(store.url)
        assert "repair" in caught.value.hint
        with pytest.raises(StoreError, match="is damaged"):
            proof_of(store.url, tmp_path / "proof.json")


def test_an_error_in_a_statement_is_still_one_of_the_statement(url):
    with connect(url) as connection, pytest.raises(duckdb.Error, match="no_such_column"):
        connection.execute("SELECT no_such_column FROM raw.stored_probe")
    assert Path(files_of(url)[0]).exists()
