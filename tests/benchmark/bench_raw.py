"""Two commands beside the parts that their processor time is made of: a known model, and a million probes of a sweep file.

Run: python tests/benchmark/bench_raw.py. Prints one JSON line a figure, in seconds of processor time of all threads.
A part is timed inside the command, on its own thread; its raw cost is that of the same numbers moved by the driver or by
DuckDB into a bare table or file."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import duckdb
import numpy as np
from bench_evaluate import MILLION, QWEN, ROOT
from evaluated_blocks import evaluate_all
from figures import say

from evaluator.graph.operators import OperatorSet
from evaluator.probe_block import ProbeBlock
from sweepdb.evaluating.option_values import options_of
from sweepdb.evaluating.requests import build_request

ROWS_A_STATEMENT = 31
# Runs the command line with the functions that write timed by thread; the seconds are the last line of stderr.
TIMED = """
import atexit, json, sys, time
from cli.main import main
import evaluator.sweep, evaluator.together.readying, evaluator.together.side_evaluation
import store.writing.blocks, store.sealing.laying_down
spent = {}
def timed(module, name, part):
    inner = getattr(module, name)
    def called(*args, **kwargs):
        started = time.thread_time()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[part] = spent.get(part, 0.0) + time.thread_time() - started
    setattr(module, name, called)
timed(evaluator.together.side_evaluation, "_evaluated", "evaluation")
timed(evaluator.together.readying.Readying, "_provide", "operators")
timed(evaluator.sweep, "put_blocks", "rows")
timed(store.writing.blocks, "insert_block_arrays", "rows: inserting")
timed(evaluator.sweep, "seal", "sealing")
timed(store.sealing.laying_down, "changed_blocks", "sealing: digests")
timed(store.sealing.laying_down._Sealing, "_copy", "sealing: the file")
atexit.register(lambda: sys.stderr.write("\\n" + json.dumps(spent) + "\\n"))
sys.argv = ["sweepdb", *sys.argv[1:]]
main()
"""


def children_cpu_s(line: list[str]) -> float:
    return with_errors(line)[0]


def with_errors(line: list[str]) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    errors = subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, errors.strip().rpartition("\n")[2]


def imports_cpu_s(arguments: list[str]) -> float:
    listed = "import atexit, sys; atexit.register(lambda: print('\\n' + ' '.join(sys.modules)))"
    program = f"{listed}; sys.argv = ['sweepdb'] + {arguments!r}; from cli.main import main; main()"
    printed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [name for name in printed.stdout.splitlines()[-1].split() if not name.startswith("_")]
    importing = f"import importlib, contextlib\nfor name in {names!r}:\n with contextlib.suppress(Exception): importlib.import_module(name)"
    return min(children_cpu_s([sys.executable, "-c", importing]) for _ in range(2))


def own_cpu_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def known_model(folder: Path) -> None:
    """A model whose operators the store knows, on another device."""
    known = ["evaluate", *QWEN.split(), "--store", f"sqlite:///{folder}/known.sqlite", "--device"]
    children_cpu_s([sys.executable, "-m", "cli.main", *known, "TEST_DEVICE"])
    asked = [*known, "ATLAS_800_A2_376T_64G"]
    whole, parts = with_errors([sys.executable, "-c", TIMED, *asked])
    imports = imports_cpu_s([*asked, "--batch-range", "1"])
    say("a known model, beyond imports", whole - imports, "s CPU", aim="<= 0.9", whole=round(whole, 2))
    for part, seconds in json.loads(parts).items():
        say(f"a known model, {part}", seconds, "s CPU")


def million(folder: Path) -> None:
    """A million probes of a sweep file, by rows that are sealed and as parts, and again; then what the numbers alone cost."""
    file = folder / "million.yaml"
    file.write_text(MILLION)
    for name, more, aim in (("rows", [], {"aim": "<= 10"}), ("parts", ["--workers", "shard:1/1"], {})):
        asked = ["evaluate", "--sweep", str(file), "--store", f"sqlite:///{folder}/{name}.sqlite", *more]
        whole, parts = with_errors([sys.executable, "-c", TIMED, *asked])
        say(f"a million probes as {name}", whole, "s CPU", **aim)
        for part, seconds in json.loads(parts).items() if name == "rows" else ():
            say(f"a million probes as {name}, {part}", seconds, "s CPU")
        again = children_cpu_s([sys.executable, "-m", "cli.main", *asked])
        say(f"a million probes as {name}, again", again, "s CPU")
        say(f"a million probes as {name}, imports", imports_cpu_s(asked), "s CPU")
    built = build_request(options_of({}), file, None).parts
    operators: dict[str, OperatorSet] = {}
    capture = own_cpu_s(lambda: list(islice(evaluate_all(built, operators), 1)))
    say("a million probes, raw: torch and the first operators", capture, "s CPU")
    blocks: list[ProbeBlock] = []
    evaluation = own_cpu_s(lambda: blocks.extend(evaluate_all(built, operators)))
    probes = sum(block.batch_size.size for block in blocks)
    say("a million probes, raw: evaluation", evaluation, "s CPU", probes=probes)
    tables = [table_of(block, number) for number, block in enumerate(blocks)]
    say("a million probes, raw: rows", own_cpu_s(lambda: insert_raw(folder / "raw.sqlite", tables)), "s CPU")
    say("a million probes, raw: Parquet", own_cpu_s(lambda: copy_raw(folder / "raw.parquet", blocks)), "s CPU")


def table_of(block: ProbeBlock, number: int) -> np.ndarray:
    columns = [values for values in block.columns().values() if values is not None]
    return np.stack([np.full(block.batch_size.size, number), block.batch_size, *columns], axis=1).astype(float)


def insert_raw(path: Path, tables: list[np.ndarray]) -> None:
    """Rows into a bare table in the order of its key: no reference, no check, eight blocks a transaction."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    width = max(table.shape[1] for table in tables)
    names = [f"c{number}" for number in range(width)]
    connection.execute(f"CREATE TABLE raw ({', '.join(names)}, PRIMARY KEY (c0, c1)) WITHOUT ROWID")
    for first in range(0, len(tables), 8):
        connection.execute("BEGIN")
        for table in tables[first : first + 8]:
            wide = table.shape[1]
            even = len(table) - len(table) % ROWS_A_STATEMENT
            row = f"({', '.join('?' * wide)})"
            into = f"INSERT INTO raw ({', '.join(names[:wide])}) VALUES "
            runs = table[:even].reshape(-1, ROWS_A_STATEMENT * wide)
            connection.executemany(into + ", ".join([row] * ROWS_A_STATEMENT), runs.tolist())
            connection.executemany(into + row, table[even:].tolist())
        connection.execute("COMMIT")
    connection.close()


def copy_raw(path: Path, blocks: list[ProbeBlock]) -> None:
    """The measures alone as a Parquet file."""
    names = {name for block in blocks for name, values in block.columns().items() if values is not None}
    sizes = [block.batch_size.size for block in blocks]
    arrays = {
        name: np.concatenate(
            [
                np.full(size, np.nan) if (values := block.columns().get(name)) is None else values.astype(float)
                for block, size in zip(blocks, sizes, strict=True)
            ]
        )
        for name in sorted(names)
    }
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("arrays", arrays)
        connection.execute(f"COPY (FROM arrays) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        known_model(Path(directory))
        million(Path(directory))


if __name__ == "__main__":
    main()
