"""Counts of instances by arithmetic are those of listing every number, over random rows of small budgets."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queries.asking.library import report
from queries.asking.macros import macros, macros_of, read_macros
from queries.asking.variables import known_variables
from queries.asking.variables import settings as set_variables

LISTED = read_macros(Path(__file__).with_name("listed_counts.sql").read_text(encoding="utf-8"))
SIZES = (1, 2, 3, 4, 8)
NO_OPTIONS = {"prefill_degradation": 1.0, "decode_degradation": 1.0, "allocation_rule": "budget"}
STUBS = {
    "engine_prefills": "SELECT * FROM prefill_rows",
    "engine_decodes": "SELECT * FROM decode_rows",
    "picked": "SELECT * FROM picked_rows WHERE wanted_phase IS NULL OR phase = wanted_phase",
    "admitted": "SELECT * FROM picked_rows WHERE phase = wanted_phase",
}
TAKEN = {"picked": "(wanted_phase, wanted_objective, every_row := FALSE)", "admitted": "(wanted_phase)"}
COMPARED = """SELECT * FROM {} QUALIFY row_number() OVER (
    PARTITION BY question_group, mode ORDER BY system_requests_per_s DESC, devices, prefill_instances, first_key, second_key
) = 1 ORDER BY ALL"""
CARRIED = """SELECT * FROM {} QUALIFY row_number() OVER (
    PARTITION BY question_group, mode ORDER BY system_requests_per_s >= getvariable('target_qps') DESC NULLS LAST,
        CASE WHEN system_requests_per_s >= getvariable('target_qps') THEN devices ELSE 0 END, system_requests_per_s DESC, devices,
        prefill_instances, first_key, second_key
) = 1 ORDER BY ALL"""
FRONTIER = """WITH most AS (
    SELECT * FROM {} QUALIFY row_number() OVER (
        PARTITION BY question_group, devices ORDER BY system_requests_per_s DESC, mode, prefill_instances, first_key, second_key
    ) = 1
)
SELECT * FROM most QUALIFY system_requests_per_s > coalesce(max(system_requests_per_s) OVER (
    PARTITION BY question_group ORDER BY devices ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
), 0) ORDER BY ALL"""

rates = st.floats(0.05, 30.0).map(lambda value: round(value, 3))
times = st.floats(1.0, 900.0).map(lambda value: round(value, 2))


@st.composite
def prefill_plans(draw):
    """A plan of prefill instances, as an engine serves it."""
    service, alone = draw(times), draw(times)
    servers = draw(st.sampled_from((1, 2, 4)))
    transfer = draw(st.floats(0.1, 50.0))
    return {"size": draw(st.sampled_from(SIZES)), "servers_each": servers, "alone_ms": alone, "handover_ms": 15.0,
            "service_ms": service, "qps": 1000.0 * servers / service, "kv_bytes_per_request": 1e6,
            "memory_free_bytes": 10**9, "transfer_ms": transfer, "first_share": draw(st.sampled_from((0.1, 0.5, 1.0))),
            "ttft_ratio": draw(st.sampled_from((1.0, 1.0, 1.3))), "lone_ms": alone + transfer + 15.0}  # fmt: skip


@st.composite
def decode_plans(draw):
    """The rows of a plan of decode instances: larger batches take longer, and carry more or, seldom, less."""
    tokens = draw(st.sampled_from((16.0, 200.0)))
    steps = sorted(draw(st.lists(st.floats(2.0, 80.0).map(lambda value: round(value, 2)), min_size=1, max_size=7)))
    ratio = draw(st.sampled_from((1.0, 1.2)))
    size = draw(st.sampled_from(SIZES))
    return [
        {"size": size, "batch_size": number, "concurrency": 3 * number, "tpot_ms": step, "tpot_exclusive_ms": step,
         "answer_tokens": tokens, "prompt_tokens": 100.0, "memory_free_bytes": 10**8, "prefix_cache_hit_rate": 0.0,
         "qps": 3000.0 * number / step / tokens, "answer_ms": (tokens - 1) * step, "slot_wait_ms": step / 2,
         "answer_ratio": ratio}
        for number, step in enumerate(steps, start=1)
    ]  # fmt: skip


@st.composite
def instances(draw, phase):
    """A row at its best batch size, of formulas or, aggregated, of anything."""
    return {"phase": phase, "num_devices": draw(st.sampled_from(SIZES)), "qps": draw(rates), "ttft_ms": draw(times),
            "tpot_ms": 10.0, "tpot_exclusive_ms": 10.0, "e2e_ms": 5000.0, "shortest_length": None, "output_length": 100.0,
            "concurrency": 4, "input_length_mean": 10.0, "memory_free_bytes": 10**9, "prefix_cache_hit_rate": 0.0,
            "host_hit_rate": 0.0, "ssd_hit_rate": 0.0, "remote_hit_rate": 0.0, "latency_ms": draw(times), "batch_size": 4,
            "kv_bytes_per_request": 1e6, "by_engine": False}  # fmt: skip


engines = st.tuples(st.lists(prefill_plans(), min_size=1, max_size=3), st.lists(decode_plans(), min_size=1, max_size=2))
formulas = st.tuples(*(st.lists(instances(phase), max_size=4) for phase in ("aggregated", "prefill", "decode")))
limits = st.fixed_dictionaries({
    "ttft_limit_ms": st.none() | st.floats(30.0, 3000.0),
    "e2e_limit_ms": st.none() | st.none() | st.floats(500.0, 20_000.0),
})  # fmt: skip


def named(rows, kind):
    """Rows of one group with what identifies each."""
    return [
        {"question_group": 0, "workload_key": "w", "scenario_id": number, "scenario": f"{kind}{number}",
         "probe": f"{kind}{number}:{row.get('batch_size', 1)}", "plan": f"tp{number}", "device": "d", **row}
        for number, row in rows
    ]  # fmt: skip


def fill(connection, table, rows, shape):
    """A table of rows, of the shape of one where there are none."""
    columns = list(named([(0, shape)], "x")[0])
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({', '.join(f'{n} {kind(n)}' for n in columns)})")
    if rows:
        places = ", ".join("?" for _ in columns)
        connection.executemany(
            f"INSERT INTO {table} VALUES ({places})", [[row[name] for name in columns] for row in rows]
        )


def kind(name):
    """DuckDB's type of a column, as views have it."""
    if name in {"workload_key", "scenario", "probe", "plan", "device", "phase"}:
        return "VARCHAR"
    if name in {"size", "num_devices", "batch_size", "concurrency", "servers_each", "question_group", "scenario_id",
                "memory_free_bytes"}:  # fmt: skip
        return "BIGINT"
    return "BOOLEAN" if name == "by_engine" else "DOUBLE"


PREFILL = dict.fromkeys(("size", "servers_each", "alone_ms", "handover_ms", "service_ms", "qps", "kv_bytes_per_request", "memory_free_bytes", "transfer_ms", "first_share", "ttft_ratio", "lone_ms"))  # fmt: skip
DECODE = dict.fromkeys(("size", "batch_size", "concurrency", "tpot_ms", "tpot_exclusive_ms", "answer_tokens", "prompt_tokens", "memory_free_bytes", "prefix_cache_hit_rate", "qps", "answer_ms", "slot_wait_ms", "answer_ratio"))  # fmt: skip
PICKED = dict.fromkeys(("phase", "num_devices", "qps", "ttft_ms", "tpot_ms", "tpot_exclusive_ms", "e2e_ms", "shortest_length", "output_length", "concurrency", "input_length_mean", "memory_free_bytes", "prefix_cache_hit_rate", "host_hit_rate", "ssd_hit_rate", "remote_hit_rate", "latency_ms", "batch_size", "kv_bytes_per_request", "by_engine"))  # fmt: skip


@pytest.fixture(scope="module")
def duck():
    """The macros of both ways over tables that an example fills."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for table, shape in (("prefill_rows", PREFILL), ("decode_rows", DECODE), ("picked_rows", PICKED)):
        fill(connection, table, [], shape)
    for name, sql in STUBS.items():
        taken = TAKEN.get(name, "()")
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {name}{taken} AS TABLE {sql}")
    for macro in macros_of("SELECT deployments(), engine_pairs(), takes_side(), exact_counts()"):
        if macro.name not in {*STUBS, "scoped", "judged_rows", "judged", "admitted", "ranked_rows", "stored_rows"}:
            connection.execute(macro.sql)
    ranked = macros()["ranked_pairs"].sql
    first, last = ranked.index("turns AS ("), ranked.index("ranked AS (\n")
    connection.execute(
        f"CREATE TEMP TABLE allocated_pairs (question_group BIGINT, place BIGINT, prefill_rank BIGINT, decode_rank BIGINT,"
        f" prefill_requests_per_s DOUBLE, decode_requests_per_s DOUBLE, prefill_size BIGINT, decode_size BIGINT, pd_ratio DOUBLE);"
        f"CREATE TEMP MACRO arithmetic_allocation() AS TABLE WITH pairs AS (SELECT * FROM allocated_pairs),"
        f" {ranked[first:last].rstrip().rstrip(',')} SELECT * FROM allocation"
    )
    for macro in LISTED.values():
        connection.execute(macro.sql)
    yield connection
    connection.close()


def stored(duck, engine, formula, values):
    """Fill the tables with an example, and set what is asked."""
    prefills, decodes = engine
    fill(duck, "prefill_rows", named(enumerate(prefills), "p"), PREFILL)
    fill(duck, "decode_rows", named([(n, row) for n, rows in enumerate(decodes) for row in rows], "d"), DECODE)
    fill(duck, "picked_rows", named(enumerate(row for rows in formula for row in rows), "s"), PICKED)
    given = {**dict.fromkeys(known_variables()), **NO_OPTIONS, **values}
    for statement in set_variables(given).values():
        duck.execute(statement)


def rows_of(duck, sql):
    """The rows of a statement, by column."""
    answer = duck.execute(sql)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def held(examples_):
    """How many examples, at no deadline."""
    return settings(max_examples=examples(examples_), deadline=None, suppress_health_check=list(HealthCheck))


@held(36)
@given(
    rows=st.tuples(engines, formulas), limit=limits, devices=st.none() | st.integers(1, 40),
    target=st.none() | st.floats(0.1, 60.0), every_mode=st.booleans(),
    consumed=st.sampled_from(((COMPARED, False), (CARRIED, False), (FRONTIER, True))),
)  # fmt: skip
def test_deployments_are_those_of_listing_every_count(duck, *, rows, limit, devices, target, every_mode, consumed):
    engine, formula = rows
    stored(duck, engine, formula, {**limit, "num_devices": devices, "target_qps": target})
    asked = f"getvariable('target_qps'), {every_mode}"
    statement, stepwise = consumed
    new = f"deployments(getvariable('target_qps'), NULL, {every_mode}, NULL::BIGINT[], {stepwise})"
    assert rows_of(duck, statement.format(new)) == rows_of(duck, statement.format(f"listed_deployments({asked})"))


@held(36)
@given(engine=engines, limit=limits, devices=st.none() | st.integers(1, 40), exact=st.booleans(),
       ranked=st.tuples(st.sampled_from(("system_requests_per_s", "requests_per_s_per_device", "balanced_requests_per_s")), st.sampled_from((1, 3, 10))))  # fmt: skip
def test_pairs_of_an_engine_are_those_of_listing_every_count(duck, *, engine, limit, devices, exact, ranked):
    objective, kept = ranked
    stored(duck, engine, ((), (), ()), {**limit, "num_devices": devices})
    rule = "exact" if exact and devices is not None else "budget"
    best = f"('{rule}', getvariable('num_devices'), FALSE, {kept}, '{objective}') ORDER BY {objective} DESC, ALL LIMIT {kept}"
    best = best.replace(", ALL", ", prefill_rank, decode_rank")
    assert rows_of(duck, f"FROM engine_pairs{best}") == rows_of(duck, f"FROM listed_pairs{best}")


@held(90)
@given(pairs=st.lists(st.tuples(rates, rates, st.sampled_from(SIZES), st.sampled_from(SIZES)), min_size=1, max_size=4),
       devices=st.integers(1, 60), exact=st.booleans())  # fmt: skip
def test_counts_of_formulas_are_those_of_listing_every_count(duck, pairs, devices, exact):
    values = {"num_devices": devices, "allocation_rule": "exact" if exact else "budget"}
    stored(duck, ((), ()), ((), (), ()), values)
    duck.execute("DELETE FROM allocated_pairs")
    duck.executemany(
        "INSERT INTO allocated_pairs VALUES (0, 0, ?, 0, ?, ?, ?, ?, ?)",
        [[number, p, d, *sizes, d / p] for number, (p, d, *sizes) in enumerate(pairs)],
    )
    sql = "FROM {}() ORDER BY ALL"
    assert rows_of(duck, sql.format("arithmetic_allocation")) == rows_of(duck, sql.format("listed_allocation"))


def counted(duck, name):
    """The rows of a report of counts as it stands."""
    return rows_of(duck, report(name).sql)


@held(60)
@given(prefill=st.tuples(rates, st.sampled_from(SIZES)), decode=st.tuples(rates, st.sampled_from(SIZES)),
       devices=st.integers(2, 60))  # fmt: skip
def test_every_count_of_a_pair_of_formulas_is_listed(duck, prefill, decode, devices):
    sides = {
        "prefill_requests_per_s": prefill[0],
        "prefill_size": prefill[1],
        "decode_requests_per_s": decode[0],
        "decode_size": decode[1],
    }
    stored(duck, ((), ()), ((), (), ()), {"num_devices": devices, **sides, "prefill_probe": "p", "decode_probe": "d"})
    assert counted(duck, "pd-counts") == rows_of(duck, "FROM listed_counts()")


@held(30)
@given(engine=engines, limit=limits, devices=st.integers(2, 30))
def test_every_count_of_a_pair_of_an_engine_is_listed(duck, engine, limit, devices):
    values = {**limit, "num_devices": devices, "prefill_scenario": "p0", "decode_scenario": "d0"}
    stored(duck, engine, ((), (), ()), values)
    assert counted(duck, "pd-counts-served") == rows_of(duck, "FROM listed_served_counts()")


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (1, 3), (8, 1)])
def test_of_many_counts_those_that_carry_most_are_listed(duck, sizes):
    """At 400 devices there are more than 10,000: the listed ones are the first of all, and as many as are promised."""
    sides = {
        "prefill_requests_per_s": 1.7,
        "prefill_size": sizes[0],
        "decode_requests_per_s": 0.9,
        "decode_size": sizes[1],
    }
    stored(duck, ((), ()), ((), (), ()), {"num_devices": 400, **sides, "prefill_probe": "p", "decode_probe": "d"})
    most = counted(duck, "pd-counts")
    every = rows_of(duck, "FROM listed_counts()")
    assert most == every[:10_000]
    assert len(most) == min(len(every), 10_000)


@held(3)
@given(engine=engines, limit=limits)
def test_of_many_counts_of_an_engine_those_that_carry_most_are_listed(duck, engine, limit):
    values = {**limit, "num_devices": 160, "prefill_scenario": "p0", "decode_scenario": "d0"}
    stored(duck, engine, ((), (), ()), values)
    every = rows_of(duck, "FROM listed_served_counts()")
    most = counted(duck, "pd-counts-served")
    carrying = [row for row in every if row["system_requests_per_s"] is not None]
    assert most == (every if len(every) <= 10_000 else carrying[:10_000])
