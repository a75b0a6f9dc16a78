"""One flipped bit of a store's file is an error, a fault that the check names, or nothing that a reader would see."""

import random
import sqlite3
from contextlib import closing

import pytest
from conftest_cli import sweepdb
from generator import fill

from store.errors import StoreError
from store.location import parse_url
from store.opening import open_store
from store.sealing import seal
from store.upkeep import check_store

UNCOVERED = {"block": ("created_at",)}  # what no number depends on and no digest covers
NUMBERS = ("probe", "composition", "block")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The bytes of a sealed store without a log, and the rows that numbers are in."""
    path = tmp_path_factory.mktemp("flips") / "store.sqlite"
    fill(f"sqlite:///{path}", probes=2500, seed=64)
    with open_store(f"sqlite:///{path}") as store:
        seal(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes(), _numbers(path)


def _numbers(path):
    with closing(sqlite3.connect(path)) as connection:
        return [(table, connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()) for table in NUMBERS]


@pytest.mark.parametrize(
    ("named", "flipped"), [(b"serving_cost_ms", b"serving_cost_mr"), (b"trace_sha", b"trace_sh\xc1")]
)
def test_a_flipped_name_of_a_column_is_a_damaged_store(original, tmp_path, named, flipped):
    path = tmp_path / "store.sqlite"
    path.write_bytes(original[0].replace(named, flipped))
    outcome = sweepdb("db check", f"sqlite:///{path}")
    assert outcome.code == 3
    assert "damaged" in outcome.err
    asked = sweepdb("query best --tpot-limit 50", f"sqlite:///{path}")  # which may not need that column
    assert asked.code in {0, 3}


@pytest.mark.parametrize("rounds", [10, pytest.param(400, marks=pytest.mark.long)])
def test_a_flipped_bit_never_becomes_a_number(original, tmp_path, rounds):
    raw, rows = original
    chance = random.Random(2026)
    noticed = 0
    for number in range(rounds):
        path = tmp_path / f"{number}.sqlite"
        flipped = bytearray(raw)
        flipped[chance.randrange(100, len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            faults = check_store(parse_url(f"sqlite:///{path}")).faults
        except StoreError:
            noticed += 1
            continue
        noticed += bool(faults)
        if not faults:
            assert _only_uncovered(path, rows), number
        path.unlink()
    assert noticed > rounds / 3  # most of the file is numbers


def _by_column(path):
    with closing(sqlite3.connect(path)) as connection:
        for table in NUMBERS:
            yield table, [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _only_uncovered(path, rows):
    """Whether rows differ in nothing but columns that no digest covers."""
    columns = dict(_by_column(path))
    for table, now in _numbers(path):
        before = dict(rows)[table]
        if len(before) != len(now):
            return False
        kept = [index for index, name in enumerate(columns[table]) if name not in UNCOVERED.get(table, ())]
        if any(
            [one[index] for index in kept] != [other[index] for index in kept]
            for one, other in zip(before, now, strict=True)
        ):
            return False
    return True
