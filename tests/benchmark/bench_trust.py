"""What digests cost: CPU seconds of storing, sealing, a cold question and a check, and bytes laid down. A JSON line each.

Run: python tests/benchmark/bench_trust.py [probes] [folder of another checkout, which is then measured in turn]"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 3
MEASURED = """
import json, resource, subprocess, sys
from pathlib import Path
from generator import fill

def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

def timed(name, done):
    before = spent()
    done()
    found[name + "_s"] = round(spent() - before, 3)

path, probes = Path(sys.argv[1]), int(sys.argv[2])
found, url = {}, f"sqlite:///{path}"

def run(text):
    command = [sys.executable, "-m", "cli.main", *text.split(), "--store", url]
    return lambda: subprocess.run(command, check=text != "db check", capture_output=True)  # generated specs are none

timed("store", lambda: fill(url, probes=probes, seed=1))
run("db current")()
timed("start", run("db current"))
timed("seal", run("db seal"))
for _ in range(2):
    timed("question", run("query best --tpot-limit 50 --format csv"))
timed("check", run("db check"))
found["snapshot_bytes"] = sum(item.stat().st_size for item in path.parent.rglob("*.parquet"))
found["store_bytes"] = path.stat().st_size
print(json.dumps(found))
"""


def measured(root: Path, probes: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", MEASURED, f"{folder}/store.sqlite", str(probes)]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure this checkout, and another in turn with it; the least of three rounds each."""
    probes = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    roots = [ROOT, *map(Path, sys.argv[2:])]
    rounds: dict[Path, list[dict[str, float]]] = {root: [] for root in roots}
    for _ in range(ROUNDS):
        for root in roots:
            rounds[root].append(measured(root.resolve(), probes))
    for root, found in rounds.items():
        least = {name: min(one[name] for one in found) for name in found[0]}
        print(json.dumps({"name": "trust", "checkout": root.name, "probes": probes, **least}), flush=True)


if __name__ == "__main__":
    main()
