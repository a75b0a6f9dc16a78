"""Measures what questions cost: a new limit on a million probes in a new process, and pairing a million rows a side.

Run: python tests/benchmark/bench_queries.py. Prints JSON lines; asserts nothing."""

from __future__ import annotations

import json
import os
import platform
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

from generator import DEVICES, MODELS, PHASES, PLANS
from queries_stores import mission_records, write_sweep

from queries.library import report

MACHINE = {"machine": platform.machine(), "cores": os.cpu_count(), "duckdb": duckdb.__version__}


def show(name, value, unit, **details):
    """One figure as a JSON line."""
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit, **details, **MACHINE}), flush=True)


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
        program = f"import queries; print(queries.open({url!r}).best(tpot_limits=50).probes_considered)"
        times = []
        for _ in range(5):
            started = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            times.append(time.perf_counter() - started)
    show("new_limit_whole_process", min(times), "s", probes=probes, looked_at=int(done.stdout))


def pairing(rows, budget):
    """Seconds of the pairing SQL over a million admitted rows a side, top 20, everything else already there."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE sides AS SELECT 0 AS question_group, s.side AS phase, i.range % 5000 AS scenario_id,"
        " hash(i.range)::VARCHAR AS scenario, 1 + i.range // 5000 AS batch_size, random() * 100 AS qps,"
        " random() * 500 AS latency_ms, [1, 2, 4, 8, 16][1 + (i.range % 5)] AS num_devices, 'd' AS device"
        f" FROM range({rows}) i, (VALUES ('prefill'), ('decode')) s(side)"
    )
    connection.execute(
        "CREATE MACRO side(wanted, a, b, c, d, e, f, g, h, i, j) AS TABLE SELECT * FROM sides WHERE phase = wanted"
    )
    text = report("pd-ratio").sql
    engine = text[text.index("WITH prefill_candidates") : text.index("SELECT\n    ranked.question_group, rank")]
    statement = engine + "SELECT * FROM ranked WHERE rank <= $top ORDER BY rank"
    parameters = dict.fromkeys(re.findall(r"\$(\w+)", statement)) | {
        "prefill_degradation": 1.0, "decode_degradation": 1.0, "kept": 20, "top": 20, "num_devices": budget,
        "allocation_rule": "budget", "objective": "balanced_qps" if budget is None else "system_qps",
        "all_pairs": True, "reserved_gib": 10.0, "kv_charge": "full", "tpot_rule": "inclusive",
        "prefill_qps_rule": "capacity", "decode_qps_rule": "minus-one", "throughput_rule": "once",
    }  # fmt: skip
    times = []
    for _ in range(5):
        started = time.perf_counter()
        connection.execute(statement, parameters).fetchall()
        times.append(time.perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    show(
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
        pairing(1_000_000, budget)
    new_limit(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
