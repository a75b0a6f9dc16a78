"""Measures what questions cost: a new limit on a million probes in a new process, and pairing a million rows a side.

Run: python tests/benchmark/bench_queries.py. Prints JSON lines; asserts nothing."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2]))

from figures import say
from generator import DEVICES, MODELS, PHASES, PLANS
from queries_stores import mission_records, write_sweep
from question_variables import set_variables

from queries.asking.macros import macros, macros_of


def new_limit(probes):
    """Seconds of a whole new process that answers `best` under a limit, cold code, warm file cache; the least of five."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.sqlite"
        records = [
            r
            for r in mission_records(models=MODELS[6:7], devices=DEVICES, phases=PHASES, plans=PLANS)
            if r.status == "ok"
        ]
        write_sweep(url, records, key="a", sizes=-(-probes // len(records)))
        program = f"import queries; print(queries.open({url!r}).best(tpot_limit=50).probes_considered)"
        times = []
        for _ in range(5):
            started = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            times.append(time.perf_counter() - started)
    say("new_limit_whole_process", min(times), "s", probes=probes, looked_at=int(done.stdout))


SERVED = """
    CREATE TABLE scoped AS
    WITH plan AS (
        SELECT range AS i, [4, 8, 16][1 + range % 3] AS num_devices, [1, 2, 4][1 + range // 3 % 3] AS dp FROM range($plans)
    ),
    served AS (
        SELECT *, 'prefill' AS phase, 1 AS batch_size, 50 + i * 61 % 250 AS prompt_service_ms,
            20 + 1.2 * prompt_service_ms AS ttft_ms, ttft_ms - 20 AS makespan_ms, NULL AS tpot_exclusive_ms
        FROM plan
        UNION ALL
        SELECT plan.*, 'decode', range, NULL, NULL, NULL, 5 + i % 7 + 0.04 * range FROM plan, range(1, $batches + 1)
    )
    SELECT *, 0 AS question_group, i AS scenario_id, md5(concat(phase, i)) AS scenario, 'p' AS probe, 'vllm' AS serving_model,
        2 AS formula_version, 'd' AS device, 'd' AS device_key, 'x' AS plan, num_devices // dp AS tp, 1 AS pp, 1 AS ep,
        1 AS moe_tp, 1 AS moe_dp, batch_size * dp AS concurrency, 1000 AS input_length, 1000.0 AS input_length_mean, 1000.0 AS output_length,
        0.0 AS prefix_cache_hit_rate, 0.0 AS host_hit_rate, 0.0 AS ssd_hit_rate, 0.0 AS remote_hit_rate,
        10 AS prompts_per_user, 0.99 AS shortest_length, 'w' AS workload_key, tpot_exclusive_ms AS tpot_inclusive_ms, NULL::DOUBLE AS e2e_ms,
        tpot_exclusive_ms AS decode_step_ms, 1.0 AS tokens_per_step, 1000 / tpot_exclusive_ms AS tokens_per_s_per_user,
        1.0 AS prefill_capacity_requests_per_s, 1.0 AS prefill_ttft_requests_per_s,
        1000 * concurrency / (tpot_exclusive_ms * 999) AS decode_minus_one_requests_per_s, 1.0 AS decode_full_requests_per_s,
        1.0 AS requests_per_s, 1.0 AS input_tokens_per_s, 1.0 AS output_tokens_per_s, 1.0 AS output_tokens_per_s_twice,
        80 * 1073741824::BIGINT AS device_memory_bytes, 0 AS weight_bytes, 0 AS activation_bytes, 0 AS kv_cache_bytes,
        0 AS kv_cache_mean_bytes, 10000000 AS kv_bytes_per_request, ttft_ms AS ttft_ms_bound, ttft_ms AS pair_ttft_bound_ms,
        tpot_exclusive_ms AS tpot_inclusive_ms_bound, tpot_exclusive_ms AS tpot_exclusive_ms_bound,
        NULL::DOUBLE AS e2e_ms_bound, tokens_per_s_per_user AS tokens_per_s_per_user_bound
    FROM served
"""


def served_pairing(plans, batches, budget):
    """Seconds of pairing an engine's rows under a TTFT limit: so many plans a side, decode batches each, top 10."""
    connection = duckdb.connect()
    set_variables(connection, tpot_rule="exclusive", ttft_limit_ms=500.0)
    connection.execute(SERVED, {"plans": plans, "batches": batches})
    connection.execute("CREATE TABLE device AS SELECT 'd' AS key, '25e9 | 9e11' AS link_bandwidths")
    for macro in macros_of("FROM engine_pairs()"):
        if macro.name != "scoped":
            connection.execute(macro.sql)
    objective = "requests_per_s_per_device" if budget is None else "system_requests_per_s"
    statement = "SELECT * FROM engine_pairs('budget', $budget, FALSE, 10, $objective)"
    times = []
    for _ in range(5):
        started = time.perf_counter()
        connection.execute(statement, {"budget": budget, "objective": objective}).fetchall()
        times.append(time.perf_counter() - started)
    details = {"plans_a_side": plans, "decode_rows": plans * batches, "num_devices": budget, "top": 10}
    say("pd_ratio_under_an_engine", min(times), "s", **details)


def pairing(rows, budget):
    """Seconds of the pairing SQL over a million admitted rows a side, top 20, everything else already there."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE admitted_sides AS SELECT 0 AS question_group, s.side AS phase, i.range % 5000 AS scenario_id,"
        " hash(i.range)::VARCHAR AS scenario, 1 + i.range // 5000 AS batch_size, random() * 100 AS qps,"
        " random() * 500 AS latency_ms, [1, 2, 4, 8, 16][1 + (i.range % 5)] AS num_devices, 'd' AS device,"
        " false AS by_engine"
        f" FROM range({rows}) i, (VALUES ('prefill'), ('decode')) s(side)"
    )
    for macro in macros_of("SELECT pair_objective(), pairs_kept(), counts_around(), exact_counts(), needed_prefills()"):
        connection.execute(macro.sql)
    connection.execute(macros()["needed_decodes"].sql)
    connection.execute("CREATE MACRO formula_sides() AS TABLE SELECT * FROM admitted_sides")
    text = re.sub(r"\bmost_listed\b", "20", re.sub(r"\bsame_device\b", "FALSE", macros()["ranked_pairs"].sql))
    engine = text[text.index("WITH candidates") : text.index(",\nseeded AS (")]
    statement = engine + " SELECT * FROM ranked WHERE rank <= 20 ORDER BY rank"
    objective = "balanced_requests_per_s" if budget is None else "system_requests_per_s"
    set_variables(connection, pruned=True, num_devices=budget, objective=objective, all_pairs=True)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        connection.execute(statement).fetchall()
        times.append(time.perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    say(
        "pd_ratio_pairing",
        min(times),
        "s",
        rows_a_side=rows,
        num_devices=budget,
        top=20,
        peak_memory_gib=round(memory, 2),
    )


if __name__ == "__main__":
    for budget in (None, 64):
        served_pairing(40, 400, budget)
        pairing(1_000_000, budget)
    new_limit(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
