"""Reading a store: each probe once, names joined, voided ones left out, only what is needed brought in."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, block, fill, put, scenario, sweep_record
from hypothesis import given
from hypothesis import strategies as st
from measured_points import point

from queries import vocabulary as vocabulary_module
from queries.connect import PROBE_ROWS, connect
from queries.scoping.voided import _difference, read_hidden
from store.errors import NotAStoreError, RevisionError, StoreError
from store.location import parse_url
from store.reading import read_transaction
from store.records import RunRecord
from store.revision import HEAD_REVISION
from store.schema.probe_columns import MEASURE_COLUMNS, NAMED_COLUMNS, PROBE_COLUMNS
from store.schema.raw_relations import raw_tables
from store.schema.sql_tables import METADATA, TOMBSTONE
from store.sealing import LOAD_RELATIONS, columns_of, into_duckdb, seal
from store.sealing.snapshots import load_snapshot
from store.writing import begin_sweep, finish_sweep, put_measurements, put_scenarios

DUCKDB_TYPES = {
    sqlalchemy.DateTime: "TIMESTAMP",
    sqlalchemy.Boolean: "BOOLEAN",
    sqlalchemy.Double: "DOUBLE",
    sqlalchemy.SmallInteger: "INTEGER",
    sqlalchemy.BigInteger: "BIGINT",
    sqlalchemy.Integer: "INTEGER",
    sqlalchemy.String: "VARCHAR",
    sqlalchemy.Text: "VARCHAR",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def one(url, sql):
    with connect(url) as connection:
        return connection.execute(sql).fetchone()


def make(model=0, workload=0, device=0, *, phase="aggregated", version=2):
    """A scenario that is ok."""
    return scenario(
        MODELS[6 + model], WORKLOADS[workload], DEVICES[device],
        precision=PRECISIONS[0], plan=PLANS[1], phase=phase, version=version,
    )  # fmt: skip


def evaluate(store, key, records, *, first=1, last=20):
    """A finished sweep over some scenarios; returns its id."""
    sweep_id = begin_sweep(store, sweep_record(key=key))
    for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
        put(store, sweep_id, record, ref, first=first, last=last)
    finish_sweep(store, sweep_id, "finished")
    return sweep_id


def void(store, *, sweep_id=None, scenario_key=None, lifted=False):
    """Write a tombstone as `sweepdb void` does."""
    scenario_table = METADATA.tables["scenario"]
    with store.writing() as connection:
        scenario_id = connection.scalar(
            sqlalchemy.select(scenario_table.c.id).where(scenario_table.c.key == scenario_key)
        ) if scenario_key else None  # fmt: skip
        row = {"sweep_id": sweep_id, "scenario_id": scenario_id, "reason": "wrong driver"}
        moments = {"voided_at": datetime.now(UTC), "lifted_at": datetime.now(UTC) if lifted else None}
        connection.execute(sqlalchemy.insert(TOMBSTONE).values(**row, **moments))


def test_an_empty_store_has_no_probes_and_every_column(store):
    with connect(store.url) as connection:
        assert connection.execute("SELECT * FROM raw.stored_probe").fetchall() == []
        described = connection.execute("DESCRIBE raw.stored_probe").fetchall()
    assert [(name, type_) for name, type_, *_ in described] == [(column.name, column.type) for column in PROBE_COLUMNS]


def test_every_stored_value_comes_back_with_its_names(store):
    record = make(workload=3, phase="aggregated")
    sweep_id = evaluate(store, "a" * 32, [record], first=3, last=5)
    assert sweep_id > 0
    stored = block(record, 3, 5)
    with connect(store.url) as connection:
        cursor = connection.execute("SELECT * FROM raw.stored_probe ORDER BY batch_size")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    assert [row["batch_size"] for row in rows] == [3, 4, 5]
    for number, row in enumerate(rows):
        for column in MEASURE_COLUMNS[1:]:
            values = stored.columns[column.name]
            expected = None if values is None else values[number]
            tolerance = 1e-6 if column.type == "FLOAT" else 0.0
            assert row[column.name] == (None if expected is None else pytest.approx(expected, rel=tolerance, abs=0))
    row = rows[0]
    assert (row["model"], row["architecture"], row["device"]) == ("Qwen/Qwen3-8B", "qwen3", "H100_SXM")
    assert (row["tp"], row["pp"], row["dp"], row["num_devices"]) == (2, 1, 1, 2)
    assert (row["workload"], row["input_length"], row["output_length"]) == ("2048/256", 2048, 256.0)
    assert (row["scenario"], row["subject"], row["first_sweep"]) == (record.key, record.subject.key, "a" * 32)
    assert (row["phase"], row["convention"], row["compile"]) == ("aggregated", "physical", True)
    assert abs((datetime.now(UTC).replace(tzinfo=None) - row["stored_at"]).total_seconds()) < 60


def test_rows_handed_over_as_json_and_as_arrays_agree(store, monkeypatch):
    fill(store.url, probes=6_000)
    everything = "SELECT * FROM raw.stored_probe ORDER BY scenario_id, batch_size"
    with connect(store.url) as connection:
        as_arrays = connection.execute(everything).fetchall()
    monkeypatch.setattr(into_duckdb, "_FEW_ROWS", 10**6)
    with connect(store.url) as connection:
        as_json = connection.execute(everything).fetchall()
    assert len(as_arrays) >= 6_000
    assert as_arrays == as_json


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_points_are_read_as_they_were_stored_however_many_come_at_once(store, monkeypatch):
    began = datetime(2026, 3, 1, 12, 30, 0, 250_000, tzinfo=UTC)
    points = [
        replace(
            point(number, device=DEVICES[number % 2][0], tp=1 + number % 2, users=1 + number / 3, ttft_ms_mean=1 / 3),
            measured_at=began + timedelta(hours=number) if number % 3 else None,
            output_length=None if number % 5 == 0 else 256 + number / 7,
            precision='a "name", of ünusual signs' if number % 4 else None,
            run=RunRecord(host=f"node-{number % 2}", completed_requests=1_000 + number),
        )
        for number in range(40)
    ]
    put_measurements(store, points)
    monkeypatch.setattr(into_duckdb, "_FEW_ROWS", 7)  # the first as JSON, the others as arrays
    read = (
        "SELECT key, device, decode_tp, concurrency, ttft_ms, measured_at, output_length, precision, host,"
        " completed_requests FROM measurement ORDER BY source"
    )
    with connect(store.url) as connection:
        found = connection.execute(read).fetchall()
    assert found == [
        (one.key, one.device, one.decode.tp, one.concurrency, 1 / 3,
         None if one.measured_at is None else one.measured_at.replace(tzinfo=None), one.output_length, one.precision,
         one.run.host, one.run.completed_requests)
        for one in sorted(points, key=lambda one: one.source)
    ]  # fmt: skip


def test_columns_of_points_that_were_not_read_come_where_a_statement_wants_them(store):
    put_measurements(store, [point(1, device="H100_SXM", tp=1, users=4, ttft_ms_mean=80.0)])
    read = "SELECT device, source, ttft_ms FROM measurement"
    with connect(store.url) as connection:
        connection.provide({"measurement"}, points_by=lambda: {"device", "metrics"})
        assert connection.duckdb.execute(read).fetchall() == [("H100_SXM", None, 80.0)]
        assert connection.execute(read).fetchall() == [("H100_SXM", "file:1", 80.0)]


def test_the_raw_relations_mirror_the_schema():
    for table in raw_tables():
        if table.name == "scenario":
            continue  # joined: its columns are those of stored probes
        if table.name in LOAD_RELATIONS and table.name != "load":  # the store has bytes, of which these are made
            assert [(c.name, c.type) for c in table.columns] == columns_of(table.name)
            continue
        stored = METADATA.tables[table.name]
        columns = {column.name: column for column in stored.columns}
        if table.name == "measurement":  # with what its rows share, in the order in which proofs have digested them
            columns = {**METADATA.tables["measurement_facts"].columns, **columns}
            columns = {column.name: columns[column.name] for column in table.columns} | columns
            del columns["facts_id"]
        expected = [
            (column.name, DUCKDB_TYPES[type(column.type)], *re.fullmatch(r"(.*) \[(.*)\]", column.comment).groups())
            for column in columns.values()
            if not isinstance(column.type, sqlalchemy.LargeBinary)
        ]
        assert [(c.name, c.type, c.meaning, c.unit) for c in table.columns if c.name != "voided"] == expected
        assert table.meaning == stored.comment


def test_units_of_joined_columns_are_those_of_the_schema():
    aliases = {"b": "block", "sj": "subject", "sc": "scenario", "sw": "sweep", "d": "device", "m": "model", "p": "plan",
               "pr": "precision", "w": "workload"}  # fmt: skip
    for column in NAMED_COLUMNS:
        for alias, name in re.findall(r"\b([a-z]+)\.(\w+)", column.source):
            stored = METADATA.tables[aliases[alias]].columns[name]
            unit = stored.comment.rpartition("[")[2].rstrip("]")
            assert unit == ("tokens" if (name, column.name) == ("label", "workload") else column.unit), column.name


@pytest.mark.parametrize("store", ["sqlite", "postgresql"], indirect=True)
def test_every_raw_relation_can_be_read(store):
    fill(store.url, probes=500)
    for table in raw_tables():
        source = "load_cell" if table.name in {"load_margin", "load_uneven", "load_span"} else table.name
        with store.reading() as connection:
            expected = connection.scalar(sqlalchemy.text(f"SELECT count(*) FROM {source}"))
        assert one(store.url, f"SELECT count(*) FROM raw.{table.name}") == (expected,)


def test_only_what_a_statement_needs_is_brought_in(sqlite_url):
    fill(sqlite_url, probes=200)
    present = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'raw' AND estimated_size > 0"
    with connect(sqlite_url) as connection:
        connection.execute("WITH s AS (SELECT * FROM raw.sweep) SELECT model FROM (SELECT 1 AS model) JOIN s ON true")
        assert connection.duckdb.execute(present).fetchall() == [("sweep",)]


def test_a_list_of_relations_shows_all_of_them_without_reading_them(sqlite_url):
    filled = fill(sqlite_url, probes=200)
    with connect(sqlite_url) as connection:
        listed = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'raw'"
        ).fetchall()
        assert {table.name for table in raw_tables()} | {"stored_probe"} <= {name for (name,) in listed}
        sweeps = connection.execute("SELECT count(*) FROM raw.sweep").fetchone()  # and they can be read after
        assert sweeps == (len(filled.sweeps),)
        assert connection.execute("SELECT count(*) >= 200 FROM raw.stored_probe").fetchone() == (True,)


def test_views_and_macros_are_created_with_what_they_are_built_on(sqlite_url, tmp_path, monkeypatch):
    filled = fill(sqlite_url, probes=200)
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "a_top.sql").write_text(
        "-- raw.model is only a comment\nCREATE VIEW a_top AS SELECT * FROM base WHERE big(n)"
    )
    (folder / "base.sql").write_text("CREATE VIEW base AS SELECT count(*) AS n FROM raw.sweep;")
    (folder / "big.sql").write_text("CREATE MACRO big(n) AS n > 0;")
    (folder / "rows_of.sql").write_text("CREATE MACRO rows_of(name) AS TABLE SELECT name AS name, n FROM a_top;")
    monkeypatch.setattr(vocabulary_module, "VIEWS", folder)
    vocabulary_module.vocabulary.cache_clear()
    try:
        with connect(sqlite_url) as connection:
            assert connection.execute("SELECT * FROM rows_of('top')").fetchall() == [("top", len(filled.sweeps))]
            tables = connection.duckdb.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'raw'")
            assert tables.fetchall() == [("sweep",)]
    finally:
        vocabulary_module.vocabulary.cache_clear()


def test_a_connection_shows_one_moment_until_it_is_refreshed(store):
    evaluate(store, "a" * 32, [make()])
    with connect(store.url) as connection:
        assert connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone() == (20,)
        evaluate(store, "b" * 32, [make(device=1)])
        assert connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone() == (20,)
        connection.refresh()
        assert connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone() == (40,)


def test_what_is_brought_in_later_is_of_the_same_moment_as_what_is_there(store):
    evaluate(store, "a" * 32, [make()])
    with connect(store.url) as connection:
        assert connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone() == (20,)
        evaluate(store, "b" * 32, [make(device=1)])
        both = "SELECT (SELECT count(*) FROM raw.sweep), (SELECT count(*) FROM raw.stored_probe)"
        assert connection.execute(both).fetchone() == (2, 40)


@pytest.mark.parametrize("viewed", [True, False])
def test_a_part_that_vanishes_before_it_is_read_is_looked_up_again(store, monkeypatch, viewed):
    evaluate(store, "a" * 32, [make()])
    seal(store)
    vanished = []

    def load_then_compact(*arguments, **options):
        snapshot = load_snapshot(*arguments, **options)
        if not vanished:  # what a sealer does to a reader that has listed its parts and was then held up
            vanished.extend(part.path for part in snapshot.parts)
            evaluate(store, "b" * 32, [make(device=1)])
            seal(store)
            seal(store)
        return snapshot

    monkeypatch.setattr("store.sealing.laying_down.RETIRED_KEPT_S", 0.0)
    monkeypatch.setattr("store.sealing.load_snapshot", load_then_compact)
    with connect(store.url) as connection:
        connection.provide({"stored_probe" if viewed else PROBE_ROWS})
        rows = connection.stored_rows()
        assert rows.startswith("read_parquet(")
        asked = f"SELECT count(*) FROM {'raw.stored_probe' if viewed else rows}"
        assert connection.duckdb.execute(asked).fetchone() == (40,)
    assert vanished
    assert not any(path.exists() for path in vanished)


@pytest.mark.parametrize("sealed", [False, True])
def test_voided_probes_are_hidden_and_come_back(store, sealed):
    first, second = make(), make(device=1)
    sweep_a = evaluate(store, "a" * 32, [first, second], last=20)
    sweep_b = evaluate(store, "b" * 32, [second], last=30)  # 1 to 20 known, 21 to 30 new
    if sealed:
        seal(store)
    by_device = "SELECT device, count(*), max(batch_size) FROM raw.stored_probe GROUP BY 1 ORDER BY 1"

    def visible():
        with connect(store.url) as connection:
            return connection.execute(by_device).fetchall()

    everything = [("H100_SXM", 20, 20), ("H200_SXM", 30, 30)]
    assert visible() == everything
    void(store, sweep_id=sweep_a, lifted=True)
    assert visible() == everything
    void(store, sweep_id=sweep_a)
    assert visible() == [("H200_SXM", 30, 30)]  # sweep b asked for 1 to 30 of the second as well
    with connect(store.url) as connection:
        flags = connection.execute("SELECT device, voided FROM raw.scenario ORDER BY device").fetchall()
        assert flags == [("H100_SXM", True), ("H200_SXM", False)]
        assert connection.execute("SELECT voided FROM raw.sweep ORDER BY id").fetchall() == [(True,), (False,)]
    void(store, scenario_key=second.key)
    assert visible() == []
    with store.writing() as connection:
        connection.execute(sqlalchemy.update(TOMBSTONE).values(lifted_at=datetime.now(UTC)))
    assert visible() == everything
    void(store, sweep_id=sweep_b)
    assert visible() == [("H100_SXM", 20, 20), ("H200_SXM", 20, 20)]  # 21 to 30 only sweep b asked for


intervals = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair))), max_size=5
)


@given(voided=intervals, visible=intervals)
def test_hidden_is_what_only_voided_sweeps_asked_for(voided, visible):
    hidden = {size for low, high in _difference(voided, visible) for size in range(max(low, 1), min(high, 60) + 1)}
    asked = {size for low, high in voided for size in range(low, high + 1)}
    kept = {size for low, high in visible for size in range(low, high + 1)}
    stored = asked | kept  # every stored probe was asked for by some sweep
    assert hidden & stored == asked - kept


def test_nothing_is_hidden_without_tombstones(store):
    evaluate(store, "a" * 32, [make()])
    with read_transaction(store.location) as transaction:
        assert read_hidden(transaction).rows == []


def test_reading_a_sealed_store_imports_nothing_heavy(sqlite_url):
    fill(sqlite_url, probes=500)
    program = (
        "import sys\n"
        "from queries.connect import connect\n"
        "connection = connect(sys.argv[1])\n"
        "count = connection.execute('SELECT count(*) FROM raw.stored_probe JOIN raw.scenario USING (scenario_id)')\n"
        "assert count.fetchone()[0] >= 500\n"
        "heavy = {'sqlalchemy', 'alembic', 'pandas', 'torch', 'numpy', 'typer', 'yaml'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )

    def heavy():
        return subprocess.run(
            [sys.executable, "-c", program, sqlite_url], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert heavy() == "[]"  # a few hundred unsealed rows need no numpy
    fill(sqlite_url, probes=10_000, seed=1)
    assert heavy() == "['numpy']"
    from store.sealing import seal_location

    seal_location(parse_url(sqlite_url))
    assert heavy() == "[]"


@pytest.mark.parametrize("found", ["0000", "9999"])
def test_another_revision_is_an_error_that_names_both(sqlite_url, found):
    fill(sqlite_url, probes=100)
    with sqlite3.connect(parse_url(sqlite_url).path) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (found,))
    database.close()
    with pytest.raises(RevisionError) as caught:
        one(sqlite_url, "SELECT count(*) FROM raw.stored_probe")
    assert found in str(caught.value)
    assert HEAD_REVISION in str(caught.value)
    assert "sweepdb db upgrade" in str(caught.value)


def test_what_is_no_store_is_an_error_that_says_what_it_is(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all")
    with pytest.raises(NotAStoreError, match="not a sweepdb store"):
        one(f"sqlite:///{text}", "SELECT * FROM raw.sweep")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE unrelated (a)")
    database.close()
    with pytest.raises(NotAStoreError, match="unrelated"):
        one(f"sqlite:///{other}", "SELECT * FROM raw.sweep")
    with pytest.raises(StoreError, match="no store"):
        one(f"sqlite:///{tmp_path}/missing.sqlite", "SELECT * FROM raw.sweep")


def test_a_name_is_never_a_python_variable(sqlite_url):
    fill(sqlite_url, probes=50)
    secret = [{"a": 1}]
    with connect(sqlite_url) as connection, pytest.raises(Exception, match="secret"):
        connection.execute("SELECT * FROM secret")
    assert secret
