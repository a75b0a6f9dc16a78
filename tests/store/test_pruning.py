"""Leaving parts aside changes no answer, however blocks are spread over parts and whatever happened to the parts."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import duckdb
import pytest
from examples import examples
from generator import fill
from hypothesis import given, settings
from hypothesis import strategies as st

from queries.asking.options import Scope
from queries.asking.question import Question
from queries.connect import connect
from queries.session import Session
from store.location import parse_url
from store.reading import read_transaction, transactions
from store.sealing import blocks_within, footers, laying_down, ranges_of, unsealed
from store.sealing.laying_down import SealStep, _Sealing
from store.sealing.ranges import LARGEST_KEY, meets, merged, overlap, within
from store.sealing.snapshots import snapshot_directories

MOST_PARTS = 6
ROWS = "SELECT * FROM raw.stored_probe ORDER BY scenario_id, batch_size, block_id"
FATES = ("whole", "whole", "whole", "gone", "edited")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store without parts, its rows by scenario, and its blocks."""
    folder = tmp_path_factory.mktemp("filled")
    url = f"sqlite:///{folder}/store.sqlite"
    fill(url, probes=500, batch_sizes=24)
    with connect(url) as connection:
        rows = connection.execute(ROWS).fetchall()
    with read_transaction(parse_url(url)) as transaction:
        blocks = [block.id for block in blocks_within(transaction, ((0, LARGEST_KEY),))]
    return url, rows, blocks


@pytest.fixture(autouse=True)
def _prune_always(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr(unsealed, "FEW_PARTS", 0)


def lay_down(url: str, layout: list[set[int]]) -> list:
    """Lay each set of blocks down as a part of its own, and nothing else."""
    location = parse_url(url)
    with read_transaction(location) as transaction, duckdb.connect() as connection:
        (directory, _) = snapshot_directories(location, transaction.store_id)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        sealing = _Sealing(connection, transaction, location, transaction.store_id, directory)
        parts = [sealing._write(SealStep(blocks=ranges_of(blocks))) for blocks in layout if blocks]
        sealing._publish(tuple(parts))
    return parts


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_pruning_changes_no_answer_whatever_the_layout(filled, data):
    url, expected, blocks = filled
    places = data.draw(st.lists(st.integers(0, MOST_PARTS), min_size=len(blocks), max_size=len(blocks)))
    layout = [
        {block for block, place in zip(blocks, places, strict=True) if place == number} for number in range(MOST_PARTS)
    ]  # place MOST_PARTS: in no part
    parts = lay_down(url, layout)
    for part in parts:
        fate = data.draw(st.sampled_from(FATES))
        if fate == "gone":
            part.path.unlink()
        elif fate == "edited":
            part.path.write_bytes(part.path.read_bytes()[:-1] + b"!")
    scenarios = sorted({row[0] for row in expected})
    wanted = data.draw(st.sets(st.sampled_from(scenarios), min_size=1))
    with connect(url) as connection:
        connection.narrow_to(wanted)
        found = [row for row in connection.execute(ROWS).fetchall() if row[0] in wanted]
        opened = {part.path for part in connection.snapshot.parts}
    assert found == [row for row in expected if row[0] in wanted]
    held = {row[1] for row in expected if row[0] in wanted}
    needed = {part.path for part in parts if any(within(block, part.contents.blocks) for block in held)}
    assert opened <= needed


def test_only_the_parts_of_the_scope_are_opened(filled, monkeypatch):
    url, expected, blocks = filled
    lay_down(url, [{block} for block in blocks])
    looked_at: list[int] = []
    real = footers._footers
    monkeypatch.setattr(footers, "_footers", lambda c, paths: looked_at.append(len(paths)) or real(c, paths))
    scenario = expected[0][0]
    held = {row[1] for row in expected if row[0] == scenario}
    with connect(url) as connection:
        connection.narrow_to([scenario])
        connection.provide({"probe"})
        assert len(connection.snapshot.parts) == len(held) < len(blocks)
    assert looked_at == [len(held)]
    with connect(url) as connection:  # the same process has read those footers
        connection.narrow_to([scenario])
        connection.provide({"probe"})
        assert looked_at == [len(held), 0]
        connection.narrow_to([scenario, expected[-1][0]])  # of a scenario that was not read yet
        connection.provide({"probe"})
        assert {row[0] for row in connection.execute(ROWS).fetchall()} == {scenario, expected[-1][0]}
        connection.narrow_to([scenario])
        loaded = connection.loaded
        connection.provide({"probe"})
        assert connection.loaded == loaded


def test_what_a_large_store_tells_of_its_tables_does_not_turn_a_lookup_round(filled, tmp_path, monkeypatch):
    """A million scenarios and three number formats: a planner that is told so must still begin with the blocks asked for."""
    url, expected, blocks = filled
    lay_down(url, [{block} for block in blocks])
    copy = tmp_path / "large.sqlite"
    shutil.copy(parse_url(url).path, copy)
    sizes = {
        "scenario": 1_000_000,
        "subject": 1_000_000,
        "block": 1_000_000,
        "workload": 18,
        "precision": 3,
        "plan": 10,
    }
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.execute("ANALYZE")
        for table, rows in sizes.items():
            database.execute("DELETE FROM sqlite_stat1 WHERE tbl = ?", (table,))
            database.execute("INSERT INTO sqlite_stat1 VALUES (?, NULL, ?)", (table, str(rows)))
    asked: list[tuple[str, tuple]] = []
    real = transactions._Sqlite._chunks
    monkeypatch.setattr(
        transactions._Sqlite, "_chunks", lambda self, *asking: asked.append(asking) or real(self, *asking)
    )
    with connect(f"sqlite:///{copy}") as connection:
        connection.narrow_to([expected[0][0]])
        connection.provide({"probe"})
    with closing(sqlite3.connect(copy)) as database:
        plans = [
            [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", tuple(parameters))]
            for statement, parameters in asked
            if "json_each" in statement
        ]
    assert len(plans) >= 3
    assert all(plan[0].startswith("SCAN json_each") for plan in plans), plans
    assert not [step for plan in plans for step in plan if step.startswith(("SCAN b", "SCAN sc", "SCAN sj"))], plans


def test_a_session_that_moves_from_scope_to_scope_answers_as_one_part_does(filled, monkeypatch):
    url, _, blocks = filled
    with connect(url) as connection:
        models = [row[0] for row in connection.execute("SELECT DISTINCT model FROM probe ORDER BY 1").fetchall()]
    asked = [Question(report="best", scope=Scope(models=(model,))) for model in (*models, *reversed(models))]
    answers = []
    for layout in ([set(blocks)], [{block} for block in blocks]):
        lay_down(url, layout)
        with Session(parse_url(url)) as session:
            answers.append([(answer.columns, answer.rows) for answer in map(session.ask, asked)])
    assert answers[0] == answers[1]
    assert any(rows for _, rows in answers[0])


def test_a_store_of_few_parts_is_read_whole(filled, monkeypatch):
    url, expected, _ = filled
    monkeypatch.setattr(unsealed, "FEW_PARTS", 16)
    monkeypatch.setattr(laying_down, "LARGEST_PART_ROWS", 400)
    lay_down(url, [])
    laying_down.seal_location(parse_url(url))
    with connect(url) as connection:
        connection.narrow_to([expected[0][0]])
        assert len(connection.execute(ROWS).fetchall()) == len(expected)


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=8).map(
    lambda pairs: merged((low, low + length) for low, length in pairs)
)


@given(left=RANGES, right=RANGES, key=st.integers(0, 70))
def test_what_ranges_share(left, right, key):
    keys = [{number for low, high in ranges for number in range(low, high + 1)} for ranges in (left, right)]
    assert meets(left, right) == meets(right, left) == bool(keys[0] & keys[1]) == overlap(left, right)
    assert within(key, left) == (key in keys[0])
