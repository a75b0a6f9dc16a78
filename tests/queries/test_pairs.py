"""Pairs of an engine's rows in SQL against the closed form in Python, tried over every row and every count."""

from __future__ import annotations

import math
from dataclasses import dataclass

import duckdb
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from question_variables import set_variables

from evaluator.serving.pairs import (
    DecodeSide,
    PairLoad,
    PairTimes,
    PrefillSide,
    moving_bytes_per_s,
    pair_times,
    transfer_ms,
)
from queries.asking.macros import macros_of

GIB = 2**30
OUTPUT = 101
COUNTS_WITHOUT_BUDGET = 8
# What the macros read of a probe; the rest of its columns are NULL.
COLUMNS = {
    "question_group": "INTEGER", "scenario_id": "BIGINT", "scenario": "VARCHAR", "probe": "VARCHAR", "phase": "VARCHAR",
    "serving_model": "VARCHAR", "formula_version": "INTEGER", "device": "VARCHAR", "device_key": "VARCHAR",
    "plan": "VARCHAR", "tp": "INTEGER", "pp": "INTEGER", "dp": "INTEGER", "ep": "INTEGER", "moe_tp": "INTEGER",
    "moe_dp": "INTEGER", "num_devices": "INTEGER", "batch_size": "INTEGER", "concurrency": "INTEGER",
    "input_length": "INTEGER", "input_length_mean": "DOUBLE", "prefix_cache_hit_rate": "DOUBLE",
    "host_hit_rate": "DOUBLE", "ssd_hit_rate": "DOUBLE", "remote_hit_rate": "DOUBLE",
    "output_length": "DOUBLE", "ttft_ms": "DOUBLE", "makespan_ms": "DOUBLE",
    "prompt_service_ms": "DOUBLE", "prompts_per_user": "INTEGER", "shortest_length": "DOUBLE", "workload_key": "VARCHAR", "tpot_exclusive_ms": "DOUBLE",
    "tpot_inclusive_ms": "DOUBLE", "e2e_ms": "DOUBLE", "decode_step_ms": "DOUBLE", "tokens_per_step": "DOUBLE",
    "tokens_per_s_per_user": "DOUBLE", "prefill_capacity_requests_per_s": "DOUBLE", "prefill_ttft_requests_per_s": "DOUBLE",
    "decode_minus_one_requests_per_s": "DOUBLE", "decode_full_requests_per_s": "DOUBLE", "requests_per_s": "DOUBLE",
    "input_tokens_per_s": "DOUBLE", "output_tokens_per_s": "DOUBLE", "output_tokens_per_s_twice": "DOUBLE",
    "device_memory_bytes": "BIGINT", "weight_bytes": "BIGINT", "activation_bytes": "BIGINT", "kv_cache_bytes": "BIGINT",
    "kv_cache_mean_bytes": "BIGINT", "kv_bytes_per_request": "BIGINT", "ttft_ms_bound": "DOUBLE",
    "tpot_inclusive_ms_bound": "DOUBLE", "tpot_exclusive_ms_bound": "DOUBLE", "e2e_ms_bound": "DOUBLE",
    "tokens_per_s_per_user_bound": "DOUBLE", "pair_ttft_bound_ms": "DOUBLE",
}  # fmt: skip
BARE = {
    "question_group": 0, "serving_model": "vllm", "formula_version": 2, "device": "d", "device_key": "d", "pp": 1,
    "output_length": float(OUTPUT), "device_memory_bytes": 80 * GIB, "weight_bytes": GIB, "activation_bytes": 0,
    "kv_cache_bytes": 0, "kv_cache_mean_bytes": 0, "kv_bytes_per_request": 10_000_000,
    "workload_key": "w",
}  # fmt: skip
LINK = 25e9


@dataclass(frozen=True)
class Asked:
    """Limits and counts of a question."""

    ttft: float | None = None
    e2e: float | None = None
    budget: int | None = None
    objective: str = "system_requests_per_s"
    top: int = 3
    exact: bool = False
    all_pairs: bool = False


def prefill(number, *, size=1, dp=1, alone=120.0, service=100.0, request=20.0, prompts_per_user=None, shortest=None):
    """The lone prompt of a plan."""
    name = f"p{number:03}"
    return BARE | {
        "scenario_id": number, "scenario": name, "probe": f"{name}:1", "phase": "prefill", "plan": name, "tp": size // dp,
        "dp": dp, "num_devices": size, "batch_size": 1, "concurrency": dp, "ttft_ms": alone,
        "makespan_ms": alone - request, "prompt_service_ms": service, "prompts_per_user": prompts_per_user,
        "ttft_ms_bound": alone, "pair_ttft_bound_ms": alone, "shortest_length": shortest, "prefill_capacity_requests_per_s": 1000.0 * dp / (alone - request), "prefill_ttft_requests_per_s": 1000.0 * dp / alone,
    }  # fmt: skip


def decode(number, batch, tpot, *, size=1, dp=1, shortest=None):
    """A batch size of a decode plan."""
    name = f"d{number:03}"
    return BARE | {
        "scenario_id": 1000 + number, "scenario": name, "probe": f"{name}:{batch}", "phase": "decode", "plan": name,
        "tp": size // dp, "dp": dp, "num_devices": size, "batch_size": batch, "concurrency": batch * dp,
        "tpot_exclusive_ms": tpot, "tpot_inclusive_ms": tpot, "tpot_exclusive_ms_bound": tpot,
        "tpot_inclusive_ms_bound": tpot, "tokens_per_s_per_user_bound": 1000.0 / tpot, "decode_step_ms": tpot, "tokens_per_step": 1.0,
        "tokens_per_s_per_user": 1000.0 / tpot, "decode_minus_one_requests_per_s": 1000.0 * batch * dp / (tpot * (OUTPUT - 1)),
        "decode_full_requests_per_s": 1000.0 * batch * dp / (tpot * OUTPUT), "requests_per_s": 1000.0 * batch * dp / (tpot * 100),
        "output_tokens_per_s": 1000.0 * batch * dp / tpot, "shortest_length": shortest,
    }  # fmt: skip


@pytest.fixture(scope="module")
def empty():
    """A connection with the macros of questions, and a scope without rows."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE scoped ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})")
    connection.execute(f"CREATE TABLE device AS SELECT 'd' AS key, '{LINK:g} | 9e11' AS link_bandwidths")
    for macro in macros_of("FROM engine_pairs() JOIN deployments()"):
        if macro.name != "scoped":
            connection.execute(macro.sql)
    yield connection
    connection.close()


def filled(connection, rows):
    """The connection with these rows as its scope."""
    marks = ", ".join(f"({', '.join('?' for _ in COLUMNS)})" for _ in rows)
    connection.execute("DELETE FROM scoped")
    connection.execute(f"INSERT INTO scoped VALUES {marks}", [row.get(name) for row in rows for name in COLUMNS])
    return connection


def dicts(cursor):
    """Rows as mappings."""
    names = [item[0] for item in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def paired(connection, asked):
    """The macro's best pairs, ranked as the report ranks them."""
    set_variables(connection, ttft_limit_ms=asked.ttft, e2e_limit_ms=asked.e2e, all_pairs=asked.all_pairs)
    rows = dicts(
        connection.execute(
            "SELECT * FROM engine_pairs($rule, $budget, FALSE, $top, $objective)",
            {
                "budget": asked.budget, "top": asked.top, "objective": asked.objective,
                "rule": "exact" if asked.exact else "budget",
            },
        )
    )  # fmt: skip
    return sorted(rows, key=lambda row: (-row[asked.objective], row["prefill_rank"], row["decode_rank"]))[: asked.top]


def played(p, d, x, y):
    """The closed form of a pair: x instances of a prefill row, y of a decode row, at the client's mean lengths."""
    mean = (1.0 + (1.0 if p["shortest_length"] is None else p["shortest_length"])) / 2
    request = p["ttft_ms"] - p["makespan_ms"]
    return pair_times(
        PrefillSide(
            alone_ms=mean * (p["ttft_ms"] - request) + request,
            service_ms=mean * p["prompt_service_ms"],
            servers=x * p["dp"],
            request_ms=request,
        ),
        DecodeSide(decoding=y * d["concurrency"], tpot_ms=d["tpot_exclusive_ms"]),
        PairLoad(
            output_length=mean * OUTPUT,
            transfer_ms=mean * transfer_ms(p["kv_bytes_per_request"], p["tp"], moving_bytes_per_s(LINK)),
            prompts_per_user=p["prompts_per_user"] or 10,
        ),
    )


def rate_of(d):
    """Requests/s of a decode row, of answers of the client's mean length."""
    mean = (1.0 + (1.0 if d["shortest_length"] is None else d["shortest_length"])) / 2
    return d["decode_minus_one_requests_per_s"] * (OUTPUT - 1.0) / max(mean * OUTPUT - 1.0, 1.0)


def tried(p, decodes, asked):
    """The best (order, x, y, row, times) of a prefill plan and the rows of a decode plan, by trying everything."""
    most = COUNTS_WITHOUT_BUDGET if asked.budget is None else asked.budget
    best = None
    for d in decodes:
        for x in range(1, most + 1):
            for y in range(1, most + 1):
                devices = x * p["num_devices"] + y * d["num_devices"]
                if asked.budget is not None and (devices > asked.budget or (asked.exact and devices < asked.budget)):
                    continue
                times = played(p, d, x, y)
                if times is None or not admitted(times, asked):
                    continue
                # The same product as the SQL: its ties are ours.
                rate = y * rate_of(d)
                order = (-rate / (1 if asked.budget else devices), devices, x, d["batch_size"])
                if best is None or order < best[0]:
                    best = (order, x, y, d, times)
    return best


def admitted(times: PairTimes, asked):
    """Whether a pair meets the limits."""
    return times.ttft_ms <= (asked.ttft or math.inf) and times.e2e_ms <= (asked.e2e or math.inf)


def brute(rows, asked):
    """Every pair of plans at its best counts and row, ranked."""
    prefills = sorted(
        (row for row in rows if row["phase"] == "prefill"),
        key=lambda row: (-1000.0 * row["dp"] / row["prompt_service_ms"], row["ttft_ms"], row["scenario"]),
    )
    plans = {}
    for row in rows:
        if row["phase"] == "decode":
            plans.setdefault((row["scenario"], row["batch_size"] if asked.all_pairs else 0), []).append(row)
    decodes = sorted(
        plans.items(), key=lambda item: (-max(row["decode_minus_one_requests_per_s"] for row in item[1]), item[0])
    )
    # Prefill plans whose lone prompt misses the limit take no rank in the SQL; the order of the others stays.
    found = []
    for place, p in enumerate(prefills):
        for other, (_, some) in enumerate(decodes):
            best = tried(p, some, asked)
            if best is None:
                continue
            _, x, y, d, times = best
            rate = y * rate_of(d)
            devices = x * p["num_devices"] + y * d["num_devices"]
            measure = rate if asked.objective == "system_requests_per_s" else rate / devices
            found.append(((-measure, place, other), p, d, x, y, times))
    return sorted(found, key=lambda item: item[0])[: asked.top]


SIZES = st.sampled_from((1, 2, 4))


@st.composite
def tables(draw):
    """A few prefill plans, and decode plans with a few batch sizes each."""
    times = st.floats(5.0, 400.0).map(lambda value: round(value, 3))
    client = {"shortest": draw(st.sampled_from((None, 1.0, 0.6)))}
    rows = []
    for number in range(draw(st.integers(1, 3))):
        size = draw(SIZES)
        service = draw(times)
        rows.append(
            prefill(
                number,
                size=size,
                dp=draw(st.sampled_from([dp for dp in (1, 2, 4) if size % dp == 0])),
                service=service,
                alone=service * draw(st.sampled_from((1.0, 1.3))) + 20.0,
                prompts_per_user=draw(st.sampled_from((None, 1, 4))),
                **client,
            )
        )
    for number in range(draw(st.integers(1, 3))):
        size, tpot = draw(SIZES), draw(st.floats(1.0, 40.0))
        dp = draw(st.sampled_from([dp for dp in (1, 2, 4) if size % dp == 0]))
        for batch in sorted(draw(st.sets(st.integers(1, 300), min_size=1, max_size=4))):
            tpot = round(tpot * draw(st.sampled_from((1.0, 1.2, 2.0))), 3)
            rows.append(decode(number, batch, tpot, size=size, dp=dp, **client))
    return rows


QUESTIONS = st.builds(
    Asked,
    ttft=st.sampled_from((None, 150.0, 300.0, 1000.0)),
    e2e=st.sampled_from((None, 1500.0)),
    budget=st.sampled_from((None, 3, 9, 12)),
    objective=st.sampled_from(("system_requests_per_s", "requests_per_s_per_device")),
    top=st.integers(1, 4),
    exact=st.booleans(),
    all_pairs=st.booleans(),
).map(lambda asked: asked if asked.budget else Asked(ttft=asked.ttft, e2e=asked.e2e, objective="requests_per_s_per_device",
                                                     top=asked.top, all_pairs=asked.all_pairs))  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(rows=tables(), asked=QUESTIONS)
def test_the_best_pairs_are_those_of_trying_everything(empty, rows, asked):
    answered = paired(filled(empty, rows), asked)
    expected = brute(rows, asked)
    assert [(row["prefill_plan"], row["decode_probe"], row["prefill_instances"], row["decode_instances"])
            for row in answered] == [(p["plan"], d["probe"], x, y) for _, p, d, x, y, _ in expected]  # fmt: skip
    for row, (_, _, _, _, _, times) in zip(answered, expected, strict=True):
        assert row["system_requests_per_s"] == pytest.approx(times.requests_per_s, rel=1e-9)
        assert row["ttft_ms"] == pytest.approx(times.ttft_ms, rel=1e-9)
        assert row["e2e_ms"] == pytest.approx(times.e2e_ms, rel=1e-9)
        assert row["wait_ms"] == pytest.approx(times.wait_ms, rel=1e-9, abs=1e-9)
        assert row["burst_ms"] == pytest.approx(times.burst_ms, rel=1e-9, abs=1e-9)
        assert row["users"] == pytest.approx(times.users, rel=1e-9)
        assert row["prefill_utilisation"] == pytest.approx(times.prefill_utilisation, rel=1e-9)


def split(connection, *, budget=None, target=None, ttft=None):
    """Deployments of pairs, by their number of devices."""
    set_variables(connection, ttft_limit_ms=ttft, num_devices=budget)
    return dicts(
        connection.execute(
            "SELECT devices, max(system_requests_per_s) AS system_requests_per_s, max(ttft_ms) AS ttft_ms"
            " FROM deployments($target, NULL, FALSE, NULL::BIGINT[], TRUE) WHERE mode = 'pd' GROUP BY devices ORDER BY devices",
            {"target": target},
        )
    )


def carried(rows, devices, ttft):
    """The most requests/s of pairs on exactly so many devices, by trying everything."""
    prefills = [row for row in rows if row["phase"] == "prefill"]
    decodes = [row for row in rows if row["phase"] == "decode"]
    asked = Asked(ttft=ttft, budget=devices, exact=True)
    found = [tried(p, decodes, asked) for p in prefills]
    return max((best[4].requests_per_s for best in found if best is not None), default=None)


@settings(max_examples=examples(25), deadline=None)
@given(rows=tables(), budget=st.integers(2, 10), ttft=st.sampled_from((None, 200.0, 600.0)))
def test_the_frontier_of_devices_is_that_of_trying_everything(empty, rows, budget, ttft):
    answered = split(filled(empty, rows), budget=budget, ttft=ttft)
    expected = {devices: carried(rows, devices, ttft) or 0.0 for devices in range(1, budget + 1)}
    for most in expected:  # numbers of devices that carry no more than fewer are not all answered
        least = max((row["system_requests_per_s"] for row in answered if row["devices"] <= most), default=0.0)
        assert least == pytest.approx(max(expected[devices] for devices in range(1, most + 1)), rel=1e-9)
    assert all(row["ttft_ms"] <= (ttft or math.inf) for row in answered)


@settings(max_examples=examples(15), deadline=None)
@given(rows=tables(), target=st.floats(0.5, 30.0), ttft=st.sampled_from((None, 600.0)))
def test_the_frontier_ends_where_the_target_is_carried_first(empty, rows, target, ttft):
    answered = split(filled(empty, rows), target=target, ttft=ttft)
    carrying = [row["devices"] for row in answered if row["system_requests_per_s"] >= target]
    if not carrying or max(carrying) > 24:
        return
    fewest = next(n for n in range(2, 25) if (carried(rows, n, ttft) or 0.0) >= target * (1 - 1e-12))
    assert carrying == [fewest]
