"""How long a new process takes to list the newest sweeps of a store with 10,000. Prints one JSON line.

Run: python tests/benchmark/bench_sweeps.py. The median of several processes, imports included, warm page cache."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from figures import machine
from generator import START, fill
from sqlalchemy import insert

from store.opening import open_store
from store.schema.sql_tables import SWEEP

ROOT = Path(__file__).parents[2]
SWEEPS = 10_000
RUNS = 9


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/store.sqlite"
        fill(url, probes=100_000)
        rows = [
            {
                "key": f"{number:032x}", "arguments": json.dumps({"models": ["a"] * 20}), "program_version": "0.1.0",
                "started_at": START + timedelta(minutes=number), "status": "finished", "probes_stored": number,
                "probes_known": 0, "scenarios_failed": 0,
            }
            for number in range(SWEEPS)
        ]  # fmt: skip
        with open_store(url) as store, store.writing() as connection:
            connection.execute(insert(SWEEP), rows)
        command = [sys.executable, "-m", "cli.main", "sweeps", "--store", url, "--format", "json"]
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            listed = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
            seconds.append(time.perf_counter() - started)
        assert len(listed) == 20
    line = {"name": "list_sweeps_cold", "value": round(statistics.median(seconds), 3), "unit": "s", "rows": SWEEPS}
    print(json.dumps({**line, "machine": machine()}))


if __name__ == "__main__":
    main()
