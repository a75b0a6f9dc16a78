"""A store of 10^8 real rows in parts, written through the real writers, and one of 10^9 by hard links to its files.

Run: python tests/benchmark/large_store.py FOLDER [probes [times linked]]; prints what it took, a JSON line each. `FOLDER/real.sqlite` and
`FOLDER/linked.sqlite` are for bench_scale.py; nothing here is deleted. A linked part has rows of a catalogue of its own (models,
subjects, scenarios, blocks), whose file holds the rows of another: what is asked there reads nothing, so ask about what is real."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from itertools import count, product
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import generator

from store.opening import Store, open_store
from store.parts import PartFile, ShardBlock, part_shelf, register_part, write_part
from store.placing import Shelf
from store.records import ScenarioRecord
from store.writing import begin_sweep, finish_sweep, put_scenarios

BATCHES = 1_000
SCENARIOS_A_PART = 1_000
WORKERS = 2
LENGTHS = tuple((length, output, 0.0, 0) for length in range(1_000, 10_000, 1_000) for output in (200, 1_000))
COPIED = ("model", "subject", "scenario", "block", "part", "part_block", "part_subject")


def records(seed: int = 1) -> Iterator[ScenarioRecord]:
    """Scenarios that can be evaluated: models, lengths and devices as a shuffled list of sweeps, each whole."""
    groups = list(product(generator.MODELS, LENGTHS, generator.DEVICES))
    Random(seed).shuffle(groups)
    for model, workload, device in groups:
        for precision, plan, phase in product(generator.PRECISIONS, generator.PLANS, generator.PHASES):
            record = generator.scenario(model, workload, device, precision=precision, plan=plan, phase=phase)
            if record.status == "ok":
                yield record


def written(shelf: Shelf, number: int, group: list[tuple[int, str, ScenarioRecord]]) -> tuple[str, PartFile, float]:
    """Make the rows of some scenarios and write their part, in a worker; also the CPU seconds it took."""
    started = time.process_time()
    blocks = []
    for scenario_id, key, record in group:
        plan = record.subject.plan
        made = generator.block(record, 1, BATCHES)
        blocks.append(ShardBlock(scenario_id=scenario_id, scenario_key=key, replicas=plan.dp * plan.pp, record=made))
    shard = f"{number:064x}"
    return shard, write_part(shelf, shard, blocks), time.process_time() - started


def make(url: str, probes: int) -> dict[str, object]:
    started, cpu = time.perf_counter(), time.process_time()
    done = in_workers = parts = size = 0
    with open_store(url, create=True) as store, ProcessPoolExecutor(WORKERS) as pool:
        sweep_id = begin_sweep(store, generator.sweep_record(key="large"))
        shelf = part_shelf(store)
        source = records()
        running: set[Future[tuple[str, PartFile, float]]] = set()
        for number in count():
            group = [
                record
                for record, _ in zip(source, range(min(SCENARIOS_A_PART, (probes - done) // BATCHES)), strict=False)
            ]
            while running and (not group or len(running) > WORKERS):
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    shard, file, spent = future.result()
                    register_part(store, sweep_id, shard, file)
                    in_workers += spent
                    parts += 1
                    size += file.bytes
            if not group:
                break
            refs = _reserved(store, sweep_id, group)
            running.add(pool.submit(written, shelf, number, refs))
            done += len(group) * BATCHES
        finish_sweep(store, sweep_id, "finished")
    return {
        "probes": done,
        "parts": parts,
        "bytes_a_probe": round(size / done, 2),
        "database_bytes": Path(url.removeprefix("sqlite:///")).stat().st_size,
        "cpu_s": round(time.process_time() - cpu + in_workers, 1),
        "cpu_s_in_workers": round(in_workers, 1),
        "wall_s": round(time.perf_counter() - started, 1),
    }


def _reserved(store: Store, sweep_id: int, group: list[ScenarioRecord]) -> list[tuple[int, str, ScenarioRecord]]:
    refs = put_scenarios(store, sweep_id, group)
    return [(ref.id, ref.key, record) for record, ref in zip(group, refs, strict=True)]


def link(real: Path, linked: Path, times: int) -> dict[str, object]:
    """Copy a store's database, and name each of its parts `times` times, by hard links, under other models."""
    started = time.perf_counter()
    shutil.copy(real, linked)
    with closing(sqlite3.connect(linked, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")
        steps = {name: database.execute(f"SELECT MAX(id) FROM {name}").fetchone()[0] for name in COPIED[:5]}
        names = [name for (name,) in database.execute("SELECT name FROM part WHERE retired_at IS NULL")]
        before = Path(database.execute("SELECT folder FROM part WHERE retired_at IS NULL").fetchone()[0])
        folder = linked.with_name(f"{linked.name}.parts") / before.name
        folder.mkdir(parents=True)
        database.execute("UPDATE part SET folder = ?", (str(folder),))
        database.execute(_NO_TIMES)  # a link changes those of the file
        for name in names:
            os.link(before / name, folder / name)
        for copy in range(1, times):
            for table in COPIED:
                _copied(database, table, copy, steps)
            for name in names:
                os.link(before / name, folder / f"{copy:03d}-{name}")
            database.execute(
                f"INSERT INTO part_file (name, footer) SELECT '{copy:03d}-' || name, footer FROM part_file"
                " WHERE name LIKE 'shard-%'"
            )
        database.execute("COMMIT")
        database.execute("ANALYZE")
        rows, parts = database.execute("SELECT SUM(row_count), COUNT(*) FROM part").fetchone()
        scenarios = database.execute("SELECT COUNT(*) FROM scenario").fetchone()[0]
    with closing(sqlite3.connect(real, isolation_level=None)) as database:
        database.execute(_NO_TIMES)
    return {
        "probes": rows,
        "parts": parts,
        "scenarios": scenarios,
        "real_parts": len(names),
        "database_bytes": linked.stat().st_size,
        "wall_s": round(time.perf_counter() - started, 1),
    }


_NO_TIMES = "UPDATE part_file SET mtime_ns = NULL, ctime_ns = NULL, inode = NULL"
_IDS = {"id", "model_id", "subject_id", "scenario_id", "part_id", "first_block", "last_block"}
_TABLES_OF = {
    "model_id": "model", "subject_id": "subject", "scenario_id": "scenario", "part_id": "part",
    "first_block": "block", "last_block": "block",
}  # fmt: skip


def _copied(database: sqlite3.Connection, table: str, copy: int, steps: dict[str, int]) -> None:
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    selected = []
    for column in columns:
        if column in _IDS:
            selected.append(f"{column} + {copy * steps[_TABLES_OF.get(column, table)]}")
        elif column == "key":
            selected.append(f"'x{copy:03d}' || substr(key, 5)")  # no hexadecimal digit: of no real key
        elif column == "name" and table == "part":
            selected.append(f"'{copy:03d}-' || name")
        elif column == "name":
            selected.append(f"name || ' {copy}'")
        else:
            selected.append(column)
    first = next(column for column in columns if column in _IDS)
    most = steps[_TABLES_OF.get(first, table)]
    database.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(selected)} FROM {table} WHERE {first} <= {most}"
    )


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    probes = int(float(sys.argv[2])) if len(sys.argv) > 2 else 100_000_000
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    if not (folder / "real.sqlite").exists():
        print(json.dumps({"name": "large_store_made", **make(f"sqlite:///{folder}/real.sqlite", probes)}), flush=True)
    print(json.dumps({"name": "large_store_linked", **link(folder / "real.sqlite", folder / "linked.sqlite", times)}))


if __name__ == "__main__":
    main()
