"""Two trees asked the same random questions of the same store: where answers differ, and what each took.

Run: python tests/benchmark/old_against_new.py OLD_PYTHON NEW_PYTHON STORE [--count N] [--seed N] [--only REPORT] [--show]
Each interpreter is that of a tree's environment, and STORE a SQLite file, of which each tree upgrades a copy of its own.
Columns that the new tree adds are named and are no difference; another value, a missing column, another refusal are."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

LIMITS = {"ttft_limit": (30.0, 3000.0), "tpot_limit": (2.0, 80.0), "e2e_limit": (200.0, 20_000.0)}
OTHERS = {
    "num_devices": (2, 8, 32, 64), "top": (1, 3, 10, 40), "confidence": (0.8,), "reserved_memory_gb": (0.0, 30.5),
    "kv_charge": ("full", "mean"), "preset": ("upstream", "seed000", "seed001"), "kv_transfer_gb_per_s": (10.0, 50.0),
    "target_rate": (1.0, 20.0), "attainment": (0.5, 0.95), "marginal": (True,), "mode": ("aggregated", "prefill", "decode", "pd"),
    "all_versions": (True,), "instance_devices": (2, 4), "allocation": ("exact",), "min_tokens_per_s_per_user": (20.0, 90.0),
    "prefill_degradation": (0.9,), "decode_degradation": (0.9,), "rank_by": ("qps", "tpot", "system-requests-per-s", "requests-per-s-per-device"),
    "by": ("goodput",), "scale": (True,), "all_pairs": (True,),
}  # fmt: skip
NEEDED = {"sensitivity": {"vary": ("ttft", "tpot", "memory", "ttft,tpot")}, "compare": {"num_devices": (8, 32)}}
LEFT_OUT = {"why", "diff", "mix"}  # they compare what a store names


def questions(python: str, store: Path, count: int, seed: int, only: str) -> list[tuple[str, dict[str, object]]]:
    """Reports with options that each of them takes in the old tree, and values of this store."""
    taken = json.loads(
        subprocess.run([python, __file__, "--take"], stdout=subprocess.PIPE, check=True, text=True).stdout
    )
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        models = [row[0] for row in opened.execute("SELECT DISTINCT name FROM model ORDER BY name")]
    reports = sorted(name for name in taken if only in name and name not in LEFT_OUT)
    drawn = random.Random(seed)
    found = []
    for _ in range(count):
        report = drawn.choice(reports)
        options: dict[str, object] = {
            name: low * (high / low) ** drawn.random()
            for name, (low, high) in LIMITS.items()
            if name in taken[report] and drawn.random() < 0.5
        }
        options |= {
            name: drawn.choice(values)
            for name, values in OTHERS.items()
            if name in taken[report] and drawn.random() < (0.4 if name == "by" else 0.07)
        }
        options |= {name: drawn.choice(values) for name, values in NEEDED.get(report, {}).items()}
        if drawn.random() < 0.5 and "model" in taken[report]:
            options["model"] = drawn.choice(models)
        found.append((report, options))
    return found


def take() -> None:
    from queries.asking import asked_reports, keywords_of

    print(json.dumps({one.name: [keyword.name for keyword in keywords_of(one)] for one in asked_reports().values()}))


def answers(file: str, store: str) -> None:
    """Print the answer to each question of a file, as the tree of this interpreter gives it."""
    import sweepdb
    from store.errors import SweepdbError

    found: list[dict[str, object]] = []
    started = time.process_time()
    with sweepdb.open(f"sqlite:///{store}") as opened:
        for report, options in json.loads(Path(file).read_text(encoding="utf-8")):
            try:
                answer = opened.report(report, **options)
                found.append({"columns": answer.columns, "rows": [[repr(cell) for cell in row] for row in answer.rows]})
            except SweepdbError as error:
                found.append({"refused": str(error)})
    print(json.dumps([time.process_time() - started, found]))


def asked(python: str, file: Path, store: Path, folder: Path) -> tuple[float, list[dict[str, list[str]]]]:
    """What a tree answers over a copy of the store, upgraded by it, and the processor seconds that it took."""
    copy = folder / "store.sqlite"
    shutil.copy2(store, copy)
    if (parts := Path(f"{store}.snapshots")).is_dir():
        shutil.copytree(parts, f"{copy}.snapshots")
    program = str(Path(python).with_name("sweepdb"))
    subprocess.run([program, "db", "upgrade", "--store", f"sqlite:///{copy}"], capture_output=True, check=True)
    run = subprocess.run([python, __file__, "--ask", file, copy], stdout=subprocess.PIPE, check=True, text=True)
    seconds, found = json.loads(run.stdout)
    return seconds, found


def differences(old: dict[str, list[str]], new: dict[str, list[str]]) -> list[str]:
    if "refused" in old or "refused" in new:
        return [] if old.get("refused") == new.get("refused") else [f"refused: {new.get('refused', 'no longer')}"]
    if len(old["rows"]) != len(new["rows"]):
        return ["rows"]
    shared = [
        (place, new["columns"].index(name), name) for place, name in enumerate(old["columns"]) if name in new["columns"]
    ]
    missing = [f"{name}: missing" for name in old["columns"] if name not in new["columns"] and old["rows"]]
    rows = list(zip(old["rows"], new["rows"], strict=True))
    return missing + [name for i, j, name in shared if any(a[i] != b[j] for a, b in rows)]


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1] in {"--take", "--ask"}:
        (take if sys.argv[1] == "--take" else answers)(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("old", "new", "store"):
        parser.add_argument(name)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="print each question whose answers differ")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        drawn = questions(given.old, Path(given.store), given.count, given.seed, given.only)
        file = Path(first) / "questions.json"
        file.write_text(json.dumps(drawn), encoding="utf-8")
        old_s, old = asked(given.old, file, Path(given.store), Path(first))
        new_s, new = asked(given.new, file, Path(given.store), Path(second))
    counted: Counter[tuple[str, str]] = Counter()
    for question, before, after in zip(drawn, old, new, strict=True):
        found = differences(before, after)
        counted.update((question[0], one) for one in found)
        if found and given.show:
            print(*question, *found, sep="  ")
    answered = sum(bool(one.get("rows")) for one in old)
    print(f"{len(drawn)} questions, {answered} with rows, {old_s:.1f} s and {new_s:.1f} s of processor time: ", end="")
    print(f"{sum(counted.values())} differences")
    for (report, what), count in counted.most_common():
        print(f"{count} x {report}: {what}")
    raise SystemExit(bool(counted))


if __name__ == "__main__":
    main()
