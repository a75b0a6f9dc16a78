"""Damages parts as people and disks do, and counts what becomes of it: `python tests/part_damage.py FLIPS`.

Prints a JSON line. Not here: what must become of it (tests/store/test_forged_parts.py)."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import closing

import duckdb
from part_cases import registered, rows

from store.errors import StoreError
from store.location import parse_url
from store.opening import open_store
from store.parts import part_shelf
from store.placing import footer_digest, parts_in_use
from store.reading import read_transaction
from store.schema.tables import MEASURES
from store.sealing import quoted
from store.sealing.part_files import PARQUET


def files_of(url):
    with open_store(url) as store:
        folder = part_shelf(store).path
    with read_transaction(parse_url(url)) as transaction:
        return [folder / part.name for part in parts_in_use(transaction)]


def as_if_untouched(url):
    """Make the database believe that files have always had their times and footers of now: what a disk does by itself."""
    with open_store(url) as store, store.writing() as connection:
        for path in files_of(url):
            found = path.stat()
            connection.exec_driver_sql(
                f"UPDATE part_file SET mtime_ns = {found.st_mtime_ns}, ctime_ns = {found.st_ctime_ns},"
                f" inode = {found.st_ino} WHERE name = '{path.name}'"
            )


def ten_times_faster(path):
    """Rewrite a part with every time divided by ten, padded to as many bytes, its time set back."""
    before, size = path.stat(), path.stat().st_size
    names = {column.name for column in MEASURES}
    with closing(duckdb.connect()) as connection:
        columns = [name for name, *_ in connection.execute(f"DESCRIBE FROM {quoted(path)}").fetchall()]
        selected = ", ".join(
            f"({name} / 10)::{'DOUBLE'} AS {name}" if name in names and name.endswith("_ms") else name
            for name in columns
        )
        connection.execute(f"CREATE TABLE forged AS SELECT {selected} FROM {quoted(path)}")
        padding = 0
        for _ in range(20):
            connection.execute(
                f"COPY forged TO {quoted(path)} ({PARQUET}, COMPRESSION_LEVEL 19, KV_METADATA {{pad: '{'x' * padding}'}})"
            )
            if path.stat().st_size == size:
                break
            padding += size - path.stat().st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, before.st_mtime_ns)


def page_flipped(path, chance=None):
    """Flip a bit of a page; the footer stays as it was."""
    whole, footer = bytearray(path.read_bytes()), footer_digest(path)
    place = (chance or random.Random(7)).randrange(4, len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"))
    whole[place] ^= 1 << (chance or random.Random(7)).randrange(8)
    path.write_bytes(bytes(whole))
    assert footer_digest(path) == footer


def outcome(url, expected, path):
    """What a question says of a part: the same rows, others, or a sentence that names it."""
    try:
        return "the same" if rows(url) == expected else "another number"
    except StoreError as error:
        return "named" if path.name in error.message and "db check" in (error.hint or "") else str(error)


def main() -> None:
    """Flip bits, half of them as a disk would, without a change of times; cut files; forge a part."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SWEEPDB_PARTS": f"{folder}/parts", "XDG_CACHE_HOME": f"{folder}/cache"}
        with open_store(f"sqlite:///{folder}/store.sqlite", create=True) as store:
            registered(store)
        expected, path, chance = rows(store.url), files_of(store.url)[0], random.Random(99)
        kept = path.read_bytes()
        end = len(kept) - 8 - int.from_bytes(kept[-8:-4], "little")
        for number in range(int(sys.argv[1])):
            whole, where = bytearray(kept), "footer" if number % 6 < 2 else "page"
            place = chance.randrange(end, len(kept)) if where == "footer" else chance.randrange(4, end)
            whole[place] ^= 1 << chance.randrange(8)
            path.write_bytes(bytes(whole))
            if number % 2:
                as_if_untouched(store.url)
            how = "by a disk" if number % 2 else "by a program"
            counts[f"{where} flipped {how}: {outcome(store.url, expected, path)}"] += 1
        for _ in range(30):
            path.write_bytes(kept[: chance.randrange(len(kept))])
            as_if_untouched(store.url)
            counts[f"cut: {outcome(store.url, expected, path)}"] += 1
        for name in files_of(store.url):
            path.write_bytes(kept)
            ten_times_faster(name)
            as_if_untouched(store.url)
            counts[f"forged: {outcome(store.url, expected, name)}"] += 1
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
