"""How long measured rows take from a table of our own into SQLite. Prints one JSON line.

Run: python tests/benchmark/bench_import.py [rows]. `database_us_a_row` is what SQLite alone takes for the same rows: the
fields that they say, every key and index on, in one transaction."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from sweepdb.measuring import import_measurements

MODELS = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B-Instruct", "deepseek-ai/DeepSeek-V3")


def table(path: Path, rows: int) -> None:
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("model,device,engine,precision,tp,input_length,output_length,concurrency,measured_at,measured_by,"
                   "ttft_ms_mean,ttft_ms_p99,tpot_exclusive_ms_mean,output_tokens_per_s\n")  # fmt: skip
        for _ in range(rows):
            setting = (draw.choice(MODELS), "h100_sxm", "vllm", "fp8", draw.choice((1, 2, 4, 8)),
                       draw.choice((128, 1024, 8192)), draw.choice((128, 1024)), 2 ** draw.randrange(8),
                       f"2026-{draw.randrange(1, 13):02d}-{draw.randrange(1, 29):02d}", "ann")  # fmt: skip
            ttft, tail, tpot = draw.uniform(300, 500), draw.uniform(500, 900), draw.uniform(10, 50)
            length, users = setting[6:8]
            values = ttft, tail, tpot, 1e3 * users * length / (ttft + (length - 1) * tpot)
            file.write(",".join(map(str, (*setting, *(f"{value:.4f}" for value in values)))) + "\n")


def database_alone(store: Path, copy: Path) -> float:
    with sqlite3.connect(store) as source, sqlite3.connect(copy) as target:
        for (statement,) in source.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name = 'measurement' AND sql IS NOT NULL ORDER BY type DESC"
        ):
            target.execute(statement)
        columns = [row[1] for row in source.execute("PRAGMA table_info(measurement)")]
        said = [name for name, count in zip(columns, source.execute(
            f"SELECT {', '.join(f'count({name})' for name in columns)} FROM measurement").fetchone(), strict=True)
            if count and name != "id"]  # fmt: skip
        names = ", ".join(said)
        rows = source.execute(f"SELECT {names} FROM measurement ORDER BY id").fetchall()
        start = time.process_time()
        target.executemany(f"INSERT INTO measurement ({names}) VALUES ({', '.join('?' * len(said))})", rows)
        target.commit()
        return time.process_time() - start


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path, store = Path(folder) / "runs.csv", Path(folder) / "store.db"
        table(path, rows)
        seconds = []
        for _ in range(2):
            start = time.process_time()
            added = import_measurements([path], f"sqlite:///{store}").added
            seconds.append(time.process_time() - start)
        print(json.dumps({
            "rows": rows, "added_again": added,
            "import_us_a_row": round(seconds[0] / rows * 1e6, 1), "again_us_a_row": round(seconds[1] / rows * 1e6, 1),
            "database_us_a_row": round(database_alone(store, Path(folder) / "copy.db") / rows * 1e6, 1),
        }))  # fmt: skip


if __name__ == "__main__":
    main()
