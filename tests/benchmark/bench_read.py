"""How fast questions are answered from a sealed store, each in a new process or in one that has asked before.

Run: python tests/benchmark/bench_read.py [probes ...] (default 1e6 1e7). Prints one JSON line a figure. `cold` is a new
process with its imports, the files in the page cache; `warm` the second time in one process. A store is made once and
kept in the temporary directory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from figures import machine

from store.location import parse_url
from store.revision import HEAD_REVISION

RUNS = 5
ROOT = Path(__file__).parents[2]

COUNT = "SELECT count(*) FROM probe"
# Filter by limits, best batch size a plan, the best 20.
BEST = """
WITH fitting AS (
    SELECT * FROM fits(10, 'full')
    WHERE phase = 'aggregated' AND ttft_ms <= 5000 AND tpot_inclusive_ms <= 50 {only}
),
best AS (
    SELECT arg_max(
        {{'model': model, 'workload': workload, 'device': device, 'plan': plan, 'precision': linear_quantization,
          'batch_size': batch_size, 'ttft_ms': ttft_ms, 'tpot_ms': tpot_inclusive_ms, 'scenario': scenario,
          'rate': output_tokens_per_s_per_device}},
        output_tokens_per_s_per_device
    ) AS row
    FROM fitting
    GROUP BY scenario_id
)
SELECT unnest(row) FROM best ORDER BY row.output_tokens_per_s DESC, row.scenario LIMIT 20
"""
ONE = "AND model = '{model}' AND workload = '{workload}'"
SWEEPS = "SELECT key, label, started_at, status, probes_stored FROM sweep ORDER BY id DESC LIMIT 20"

PROGRAM = """
import sys, time
from queries.sandbox import run_sql
from store.location import parse_url
seconds = []
for _ in range(int(sys.argv[3])):
    started = time.perf_counter()
    with run_sql(parse_url(sys.argv[1]), sys.argv[2]) as result:
        rows = len(list(result))
    seconds.append(time.perf_counter() - started)
print(rows, seconds[-1])
"""


def ask(url: str, sql: str, times: int = 1) -> tuple[float, float, int]:
    """Ask in a new process; return its whole duration, that of the last asking, and the number of rows."""
    started = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, sql, str(times)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    duration = time.perf_counter() - started
    rows, last = result.stdout.split()
    return duration, float(last), int(rows)


def emit(name: str, seconds: list[float], rows: int) -> None:
    value = round(statistics.median(seconds), 3)
    print(json.dumps({"name": name, "value": value, "unit": "s", "rows": rows, "machine": machine()}), flush=True)


def cold(name: str, url: str, sql: str, probes: int) -> None:
    ask(url, sql)  # brings the files into the page cache
    emit(name, [ask(url, sql)[0] for _ in range(RUNS)], probes)


def warm(name: str, url: str, sql: str, probes: int) -> None:
    emit(name, [ask(url, sql, 2)[1] for _ in range(RUNS)], probes)


def sealed_store(probes: int) -> str:
    from generator import fill

    from store.sealing import seal_location

    folder = Path(os.environ.get("SWEEPDB_BENCHMARK_DIRECTORY", tempfile.gettempdir())) / "sweepdb-benchmark"
    folder.mkdir(exist_ok=True)
    path = folder / f"read-{HEAD_REVISION}-{probes}.sqlite"
    url = f"sqlite:///{path}"
    if not path.exists():
        fill(url, probes=probes)
    report = seal_location(parse_url(url))
    size = {"name": f"snapshot_bytes_per_probe_{probes}", "value": round(report.bytes / report.probes, 1)}
    print(json.dumps({**size, "unit": "bytes", "rows": report.probes, "machine": machine()}), flush=True)
    return url


def sweep_listing(count: int) -> None:
    from generator import sweep_record

    from store.opening import open_store
    from store.writing import begin_sweep

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/sweeps.sqlite"
        with open_store(url, create=True) as store:
            for number in range(count):
                begin_sweep(store, sweep_record(key=f"{number:032x}", label=f"sweep {number}"), held=False)
        cold("read_sweeps_cold", url, SWEEPS, count)


def figures(probes: int) -> None:
    url = sealed_store(probes)
    busiest = "SELECT model, workload FROM aggregated GROUP BY ALL ORDER BY count(*) DESC, model, workload LIMIT 1"
    from queries.connect import connect

    with connect(url) as connection:
        model, workload = connection.execute(busiest).fetchone()
    one = BEST.format(only=ONE.format(model=model, workload=workload))
    every = BEST.format(only="")
    cold(f"read_count_cold_{probes}", url, COUNT, probes)
    cold(f"read_best_of_one_cold_{probes}", url, one, probes)
    warm(f"read_best_of_one_warm_{probes}", url, one, probes)
    cold(f"read_best_of_all_cold_{probes}", url, every, probes)
    warm(f"read_best_of_all_warm_{probes}", url, every, probes)


def main() -> None:
    sizes = [int(float(text)) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    for probes in sizes:
        figures(probes)
    sweep_listing(10_000)


if __name__ == "__main__":
    main()
