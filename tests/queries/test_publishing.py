"""Published tables hold what the public views hold, of every kind of target, and follow the store block by block."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import pytest
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

from queries.connect import connect
from queries.publishing import publish
from queries.publishing.targets import published_relations
from store.errors import InputError
from store.location import parse_url

KINDS = ("duckdb", "sqlite", "parquet", "postgresql")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A store of one sweep, which tests copy by publishing it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('published')}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[:1], plans=PLANS[3:4]), key="a", sizes=6)
    return url


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    """An address that nothing lies at."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return str(tmp_path / f"out.{request.param}")


def read(target, statement):
    """Rows of a published table, by a client of that database."""
    if target.startswith("postgresql"):
        import psycopg

        with psycopg.connect(parse_url(target).driver_url) as connection:
            return connection.execute(statement).fetchall()
    if target.endswith(".sqlite"):
        with closing(sqlite3.connect(target)) as connection:
            return connection.execute(statement).fetchall()
    if target.endswith(".duckdb"):
        with duckdb.connect(target, read_only=True) as connection:
            return connection.execute(statement).fetchall()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW probes AS FROM read_parquet('{target}/probes/*.parquet')")
        for relation in [*published_relations()[1:]]:
            connection.execute(f"CREATE VIEW {relation.name} AS FROM '{target}/{relation.name}.parquet'")
        connection.execute(f"CREATE VIEW dictionary AS FROM '{target}/dictionary.parquet'")
        return connection.execute(statement).fetchall()


SHOWN = "probe, plan, model, device, ttft_ms, output_tokens_per_s, requests_per_s, first_sweep"


def expected(url):
    with connect(url) as connection:
        return sorted(connection.execute(f"SELECT {SHOWN} FROM probe").fetchall(), key=repr)


def published(target):
    return sorted(read(target, f"SELECT {SHOWN} FROM probes"), key=repr)


def test_what_is_published_follows_the_store(target, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    records = mission_records(models=MODELS[:1], plans=PLANS[3:4])
    write_sweep(url, records[:4], key="a", sizes=6)
    location = parse_url(url)
    done = publish(location, target)
    assert (done.added, done.removed) == (done.probes, 0)
    assert published(target) == expected(url) != []
    assert (publish(location, target).added, published(target)) == (0, expected(url))
    write_sweep(url, records, key="b", sizes=6)  # two scenarios more
    more = publish(location, target)
    assert 0 < more.added < more.probes
    assert published(target) == expected(url)
    assert sweepdb(["void", "b" * 12, "--reason", "tested"], url).code == 0
    fewer = publish(location, target)
    assert (fewer.added, fewer.removed) == (0, more.added)
    assert published(target) == expected(url)
    assert read(target, "SELECT count(*) FROM sweeps") == [(2,)]
    assert sweepdb(["unvoid", "b" * 12], url).code == 0
    assert publish(location, target).added == more.added
    assert published(target) == expected(url)
    wide = read(target, "SELECT count(*) FROM sweep_intervals i JOIN probes p ON p.scenario_id = i.scenario_id"
                " AND p.batch_size BETWEEN i.first_batch_size AND i.last_batch_size")  # fmt: skip
    with connect(url) as connection:
        assert wide == connection.execute("SELECT count(*) FROM sweep_probe").fetchall()
    told = read(target, "SELECT unit FROM dictionary WHERE relation = 'probes' AND column_name = 'ttft_ms'")
    assert told == [("ms",)]


def test_columns_carry_their_meaning(first, tmp_path, postgresql_url):
    publish(parse_url(first), str(tmp_path / "out.duckdb"))
    publish(parse_url(first), postgresql_url)
    meaning = "generated tokens a second of one instance"
    statement = (
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'probes' AND column_name = 'output_tokens_per_s'"
    )
    ((said,),) = read(str(tmp_path / "out.duckdb"), statement)
    assert said.startswith(meaning)
    assert said.endswith("[tokens/s]")
    statement = (
        "SELECT col_description('probes'::regclass, attnum) FROM pg_attribute WHERE attname = 'output_tokens_per_s'"
    )
    assert (said,) in read(postgresql_url, statement)


def test_a_duckdb_file_is_read_by_programs_of_years_ago(first, tmp_path):
    target = tmp_path / "out.duckdb"
    for _ in range(2):  # made, and refreshed
        publish(parse_url(first), str(target))
        head = target.read_bytes()[:20]
        assert head[8:12] == b"DUCK"
        assert int.from_bytes(head[12:20], "little") == 65  # the format of DuckDB 1.2, of February 2025


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_what_somebody_else_wrote_is_left_alone(first, tmp_path, kind):
    path = tmp_path / f"theirs.{kind}"
    with closing((sqlite3 if kind == "sqlite" else duckdb).connect(str(path))) as connection:
        connection.execute("CREATE TABLE probes (theirs INTEGER)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(InputError, match="never replaced"):
        publish(parse_url(first), str(path))
    assert path.read_bytes() == before
    own = first.removeprefix("sqlite:///")
    with pytest.raises(InputError, match="never replaced"):
        publish(parse_url(first), own)  # the store itself


def test_another_store_is_published_elsewhere(first, tmp_path):
    other, target = f"sqlite:///{tmp_path}/other.sqlite", str(tmp_path / "out.sqlite")
    write_sweep(other, mission_records(models=MODELS[:1], plans=PLANS[3:4])[:1], key="a", sizes=2)
    publish(parse_url(other), target)
    before = published(target)
    with pytest.raises(InputError, match="another store"):
        publish(parse_url(first), target)
    assert published(target) == before
    for wrong in ("out.csv", "mysql://host/database"):
        with pytest.raises(InputError) as told:
            publish(parse_url(first), wrong)
        assert "FILE.duckdb" in told.value.hint


def test_the_command_tells_what_came(first, tmp_path):
    outcome = sweepdb(["publish", "--to", str(tmp_path / "out.parquet")], first)
    assert outcome.code == 0, outcome.err
    assert "36 probes, 36 added" in outcome.err
    assert "0 added" in sweepdb(["publish", "--to", str(tmp_path / "out.parquet")], first).err
