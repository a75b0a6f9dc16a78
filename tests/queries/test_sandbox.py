"""Analysts' statements only read the store, whatever they say, and end when they are told to."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time

import duckdb
import pytest
from generator import fill

from queries.sandbox import StatementLimits, run_sql, write_parquet
from store.errors import InputError
from store.location import parse_url
from store.sealing import seal_location

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def store_location(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sandbox")
    location = parse_url(f"sqlite:///{folder}/store.sqlite")
    fill(location.url, probes=500)
    seal_location(location)
    return location


@pytest.fixture
def part(store_location):
    """The snapshot part; a test that changes it fails here."""
    (path,) = store_location.path.with_name("store.sqlite.snapshots").glob("part-*.parquet")
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before


def rows(location, sql, **limits):
    with run_sql(location, sql, StatementLimits(**limits)) as result:
        return list(result)


def refused(location, sql, **limits):
    with pytest.raises(InputError) as caught:
        rows(location, sql, **limits)
    return str(caught.value)


def test_a_time_with_a_zone_is_a_value(store_location):
    ((moment,),) = rows(store_location, "SELECT TIMESTAMPTZ '2026-01-31 12:00:00+00'")
    assert (moment.isoformat(), moment.utcoffset().total_seconds()) == ("2026-01-31T12:00:00+00:00", 0)


def test_a_select_gives_names_types_and_rows(store_location):
    with run_sql(
        store_location, "SELECT phase, count(*) AS probes FROM raw.stored_probe GROUP BY ALL ORDER BY 1"
    ) as result:
        assert [(column.name, column.type) for column in result.columns] == [("phase", "VARCHAR"), ("probes", "BIGINT")]
        found = dict(result)
    assert set(found) <= {"prefill", "decode", "aggregated"}
    assert sum(found.values()) >= 500


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;",
        "-- a comment; with a semicolon\nSELECT 1 -- and another",
        "/* SELECT 2; */ SELECT 1",
        "FROM (VALUES (1)) AS t(x)",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a UNION ALL SELECT 2) SELECT min(x) FROM b",
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < 5) SELECT min(x) FROM t",
        "SELECT count(DISTINCT phase) > 0 FROM raw.stored_probe WHERE scenario_id IN (SELECT scenario_id FROM raw.scenario)",
        "(SELECT 1) UNION (SELECT 1)",
        "SELECT * FROM range(1, 2)",
    ],
)
def test_statements_that_read_are_run(store_location, sql):
    assert rows(store_location, sql) == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "DESCRIBE raw.sweep",
        "SUMMARIZE raw.sweep",
        "SHOW ALL TABLES",
        "SELECT table_name FROM information_schema.tables",
    ],
)
def test_statements_that_describe_are_run(store_location, sql):
    assert rows(store_location, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN SELECT count(*) FROM raw.stored_probe",
        "EXPLAIN ANALYZE SELECT count(*) FROM raw.stored_probe",
        "explain (format json) SELECT 1",
        "-- why\nEXPLAIN /* so */ SELECT 1",
        "EXPLAIN (SELECT 1)",
    ],
)
def test_explanations_of_reading_are_given(store_location, sql):
    ((_, plan),) = rows(store_location, sql)
    assert plan


WRITES = [
    "COPY (SELECT 1) TO '{part}'",
    "COPY (SELECT 1) TO '{part}' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{part}'",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{part}'",
    "EXPLAIN COPY (SELECT 1) TO '{part}'",
    "/* EXPLAIN SELECT 1 */ EXPLAIN ANALYZE /* SELECT 1 */ COPY (SELECT 1) TO '{part}'",
    "WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1",
    "SELECT * FROM (WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1)",
    "SELECT (WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1)",
    "SELECT 1 UNION ALL (WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1)",
    "WITH y AS (WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1) SELECT * FROM y",
    "EXPLAIN ANALYZE WITH x AS (COPY (SELECT 1) TO '{part}') SELECT 1",
    "SELECT * FROM query('WITH x AS (COPY (SELECT 1) TO ''{part}'') SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "PREPARE p AS COPY (SELECT 1) TO '{part}'",
    "EXECUTE p",
    "EXPORT DATABASE '{folder}'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE VIEW v AS SELECT 1",
    "CREATE MACRO m() AS 1",
    "CREATE SECRET s (TYPE http)",
    "INSERT INTO raw.sweep SELECT * FROM raw.sweep",
    "WITH x AS (INSERT INTO raw.hidden VALUES (1, 1, 1) RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM raw.sweep RETURNING *) SELECT * FROM x",
    "UPDATE raw.sweep SET label = 'x'",
    "DELETE FROM raw.sweep",
    "MERGE INTO raw.sweep USING raw.model ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
    "DROP VIEW raw.stored_probe",
    "ALTER TABLE raw.sweep ADD COLUMN x INTEGER",
    "TRUNCATE raw.sweep",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN",
    "ATTACH '{folder}/other.duckdb' AS other",
    "ATTACH '{store}' AS s (TYPE sqlite)",
    "DETACH memory",
    "USE raw",
    "SET memory_limit = '100GB'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA threads = 4",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL httpfs FROM community",
    "SET VARIABLE x = 1",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{part}'",
    "SELECT 1;; DROP VIEW raw.stored_probe",
    "",
    "   -- nothing\n",
    "SELEC 1",
    "SELECT 1 \0 SELECT 2",
]


@pytest.mark.parametrize("sql", WRITES)
def test_statements_that_do_anything_else_are_refused(store_location, part, sql):
    refused(store_location, sql.format(part=part, folder=part.parent, store=store_location.path))


READS_ELSEWHERE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_parquet('{folder}/*.parquet')",
    "SELECT * FROM read_duckdb('{folder}/x.duckdb')",
    "SELECT * FROM '/etc/passwd.csv'",
    "SELECT * FROM '{store}'",
    "FROM '{folder}/manifest.json'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('{part}')",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM sqlite_scan('{store}', 'probe')",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM seq_scan('x')",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM query_table(['raw.sweep'])",
]


@pytest.mark.parametrize("sql", READS_ELSEWHERE)
def test_nothing_but_the_store_can_be_read(store_location, part, sql):
    refused(store_location, sql.format(part=part, folder=part.parent, store=store_location.path))


def test_the_configuration_itself_refuses_what_the_parser_would_let_through(store_location, part, monkeypatch):
    """The fences do not lean on each other: without the first, files other than the parts stay closed."""
    monkeypatch.setattr("queries.sandbox._check_parts", lambda _: None)
    for sql in ("SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM glob('/etc/*')"):
        assert "disabled by configuration" in refused(store_location, sql)


def test_a_refusal_says_what_the_statement_is_and_what_to_do(store_location):
    assert "COPY" in refused(store_location, "COPY (SELECT 1) TO 'x'")
    assert "`output=FILE`" in refused(store_location, "COPY (SELECT 1) TO 'x'")
    assert "2" in refused(store_location, "SELECT 1; SELECT 2")
    assert "sweepdb sql `schema`" in refused(store_location, "SELECT no_such_column FROM raw.sweep")
    assert "IN (" in refused(store_location, "PIVOT raw.sweep ON status USING count(*)")


MEMORY_HOGS = [
    "SELECT list(i) FROM range(300000000) t(i)",
    "SELECT string_agg(i::VARCHAR, '') FROM range(300000000) t(i)",
    "SELECT * FROM range(1000000000) ORDER BY random()",
    "SELECT array_agg(repeat('x', 1000000)) FROM range(5000)",
    # What one call makes is not counted by DuckDB: 5.8 and 16.9 GB were used under a limit of 500 MB.
    "SELECT length(repeat('x', 3000000000))",
    "SELECT list_sum(range(600000000))",
]


@pytest.mark.parametrize("sql", MEMORY_HOGS)
def test_a_statement_that_needs_too_much_memory_is_stopped(store_location, sql):
    message = refused(store_location, sql, memory_bytes=256 * MEBIBYTE, threads=2, timeout_s=60)
    assert "0.25 GiB" in message
    assert "`memory_limit=GIB`" in message


def test_memory_stays_bounded_in_a_process_of_its_own(store_location):
    program = """
        import sys
        from queries.sandbox import StatementLimits, run_sql
        from store.errors import InputError
        from store.location import parse_url
        for sql in ("SELECT length(repeat('x', 3000000000))", "SELECT list_sum(range(600000000))"):
            try:
                with run_sql(parse_url(sys.argv[1]), sql, StatementLimits(memory_bytes=2**28, threads=2)) as result:
                    list(result)
            except InputError:
                # Not what getrusage says: that counts the memory of whoever started this process.
                print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), store_location.url], capture_output=True, text=True, check=True
    )
    used = [int(line) for line in result.stdout.split()]
    assert len(used) == 2
    assert max(used) < 1_300  # MiB: the limit of 256, half a GiB of slack and what the interpreter has


def test_limits_are_lifted_after_the_statement(store_location):
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    refused(store_location, "SELECT length(repeat('x', 3000000000))", memory_bytes=256 * MEBIBYTE)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytes(900 * MEBIBYTE)) == 900 * MEBIBYTE
    assert not [thread for thread in threading.enumerate() if thread.name == "sweepdb-deadline"]


TIME_HOGS = [
    "SELECT count(*) FROM range(100000000000000)",
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = 7",
    "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT max(x) FROM t",
]


@pytest.mark.parametrize("sql", TIME_HOGS)
def test_a_statement_that_takes_too_long_is_stopped(store_location, sql):
    started = time.monotonic()
    message = refused(store_location, sql, timeout_s=0.3, threads=2)
    assert time.monotonic() - started < 20
    assert "0.3 s" in message
    assert "`timeout=SECONDS`" in message


def test_the_deadline_covers_fetching_rows(store_location):
    message = refused(store_location, "SELECT 1 FROM range(100000000000000) t(i) WHERE i % 1000 = 0", timeout_s=0.3)
    assert "0.3 s" in message


def test_a_call_that_never_looks_up_ends_the_process(store_location):
    """One function call cannot be interrupted; whoever owns the process may give up on it."""
    program = """
        import os, sys
        from queries.sandbox import StatementLimits, run_sql
        from store.location import parse_url
        sql = "SELECT levenshtein(repeat('a', 5000000), repeat('b', 5000000))"
        with run_sql(parse_url(sys.argv[1]), sql, StatementLimits(timeout_s=1.0, when_stuck=lambda _: os._exit(77))) as result:
            list(result)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program), store_location.url], timeout=60)
    assert result.returncode == 77


def test_rows_are_written_as_parquet_whole_or_not_at_all(store_location, tmp_path, part):
    path = tmp_path / "it's.parquet"
    count = write_parquet(store_location, "SELECT phase, ttft_ms FROM raw.stored_probe; -- all of them", path)
    assert count >= 500
    quoted = str(path).replace("'", "''")
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM read_parquet('{quoted}')").fetchone() == (count,)
    with pytest.raises(InputError):
        write_parquet(store_location, "SELECT error('late') FROM range(3)", tmp_path / "none.parquet")
    with pytest.raises(InputError):
        write_parquet(store_location, f"COPY (SELECT 1) TO '{part}'", tmp_path / "none.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["it's.parquet"]
