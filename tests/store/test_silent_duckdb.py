"""DuckDB in memory prints nothing, wherever it runs."""

import subprocess
import sys
from pathlib import Path

from store.reading import in_memory

ROOT = Path(__file__).parents[2]
PACKAGES = ("store", "evaluator", "queries", "sweepdb", "cli")
# In a program without a file, which DuckDB takes for a notebook; its bar would come after a thousandth of a second.
SLOW = """
from store.reading import in_memory
with in_memory() as connection:
    connection.execute("SET progress_bar_time = 1")
    connection.execute("SELECT sum(a.range * b.range % 7) FROM range(20000) a, range(20000) b").fetchall()
"""


def test_a_long_statement_draws_no_bar():
    done = subprocess.run([sys.executable, "-c", SLOW], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_every_duckdb_of_the_program_is_made_there():
    found = [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "duckdb.connect(" in path.read_text()
    ]
    assert found == ["store/reading/silent_duckdb.py"]
    with in_memory() as connection:
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (False,)
