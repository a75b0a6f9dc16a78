"""The views that stores carry have the columns of the public views and hold what these hold, on both databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from conftest_cli import sweepdb
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import mission_records, write_sweep

from queries.connect import connect
from queries.dictionary import dictionary
from store.location import parse_url
from store.migrating import create_store
from store.schema.raw_relations import store_views

SHOWN = (
    "probe, plan, model, device, workload, phase, requests_per_s, input_tokens_per_s, output_tokens_per_s,"
    " output_tokens_per_s_twice, output_tokens_per_s_per_device, prefill_capacity_requests_per_s, prefill_ttft_requests_per_s,"
    " decode_minus_one_requests_per_s, decode_full_requests_per_s, tokens_per_s_per_user, input_length_bias"
)


def test_columns_of_probes_are_those_of_the_view_in_its_order(tmp_path):
    """SQLite says what its view has, DuckDB what the public one has."""
    (view,) = (relation for relation in dictionary() if relation.name == "probe")
    create_store(f"sqlite:///{tmp_path}/store.sqlite")
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        described = connection.execute("SELECT * FROM probes LIMIT 0").description
    assert [name for name, *_ in described] == [column.name for column in view.columns]


def rows(url, statement):
    """Rows of a store's own database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return sorted(connection.execute(statement).fetchall(), key=repr)
    import psycopg

    with psycopg.connect(parse_url(url).driver_url) as connection:
        return sorted(connection.execute(statement).fetchall(), key=repr)


def expected(url, statement):
    with connect(url) as connection:
        return sorted(connection.execute(statement).fetchall(), key=repr)


def test_views_hold_what_the_public_views_hold(store_url):
    mixed = [
        scenario(MODELS[0], WORKLOADS[5], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[3], phase=phase)
        for phase in ("prefill", "decode", "aggregated")
    ]
    records = [*mission_records(models=(MODELS[0], MODELS[7]), plans=PLANS[3:5], devices=DEVICES[:1]), *mixed]
    write_sweep(store_url, records[:6], key="a", sizes=4)
    write_sweep(store_url, records, key="b", sizes=7)
    write_sweep(store_url, records[-2:], key="c", sizes=5)
    for change in (None, "b" * 12, "a" * 12):
        if change is not None:
            assert sweepdb(["void", change, "--reason", "tested"], store_url).code == 0
        found = rows(store_url, f"SELECT {SHOWN} FROM probes")
        assert found == expected(store_url, f"SELECT {SHOWN} FROM probe") != []
        voided = "SELECT scenario, voided FROM scenario"
        assert [(key, bool(hidden)) for key, hidden in rows(store_url, f"{voided}s")] == expected(store_url, voided)
        assert rows(store_url, "SELECT count(*) FROM sweeps") == [(3,)]
    assert len(rows(store_url, "SELECT * FROM probes LIMIT 1")[0]) == len(
        next(one.columns for one in dictionary() if one.name == "probe")
    )
    for view in store_views():
        assert rows(store_url, f"SELECT count(*) FROM {view}")[0][0] >= 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_one_probe_is_looked_up_without_reading_the_store(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[:1], plans=PLANS[3:4]), key="a", sizes=3)
    plan = rows(url, "EXPLAIN QUERY PLAN SELECT ttft_ms FROM probes WHERE scenario_id = 1 AND batch_size = 2")
    assert not any("SCAN pb" in str(row) for row in plan)
