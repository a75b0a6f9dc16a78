"""What rows that can win save: a page's questions about wide scopes, with thinned files and without, each in a process of its own.

Run: python tests/benchmark/bench_thinned.py, over two million probes that it makes, or ... FOLDER [every] over what
`python tests/benchmark/large_store.py FOLDER PROBES 0` made; thinned files are written where they are missing. Prints a JSON line a figure; `every` asks
about every model, too. Sessions keep what one of a server may; files are dropped from memory before each process."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import large_store
from bench_scale import forget_files
from figures import cpu_s, say

from queries import thinned as binding
from queries.asking import question_of
from queries.session import Session
from store.location import parse_url
from store.placing import parts_in_use, thinned_in_use
from store.reading import read_transaction
from sweepdb.upkeep import thin_parts

SHARE = 0.25  # of a session's memory, as sweepdb.web.pool gives
MOST_POINTS = 400  # of a frontier, as the page asks
FRONTIER = {"max_points": MOST_POINTS}
ASKED = (
    ("first picture", "pareto", {**FRONTIER, "tpot_limit": 50.0}),
    ("its table", "best", {"tpot_limit": 50.0}),
    ("second picture", "pareto", {**FRONTIER, "tpot_limit": 60.0}),
    ("second table", "best", {"tpot_limit": 60.0}),
    ("moved picture", "pareto", {**FRONTIER, "tpot_limit": 40.0}),
    ("moved table", "best", {"tpot_limit": 40.0}),
)


def asked(url: str, scope: dict[str, object], thinned: bool, about: str) -> None:
    """Ask in this process, with thinned files or as if there were none."""
    if not thinned:
        binding.thinned_in_use = lambda _: []
    how = {"about": about, "thinned": thinned}
    with Session(parse_url(url), memory_share=SHARE) as session:
        for step, report, options in ASKED:
            if "all" in scope and report != "best":  # nobody draws a frontier of every model
                continue
            cpu, wall = cpu_s(), time.perf_counter()
            answer = session.ask(question_of(report, {**options, **scope}))
            took = {"wall_s": round(time.perf_counter() - wall, 3), "rows": len(answer.rows)}
            say(
                f"thinned_{step.replace(' ', '_')}",
                cpu_s() - cpu,
                "s CPU",
                looked_at=answer.probes_considered,
                **took,
                **how,
            )
    say("thinned_memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", **how)


def main() -> None:
    if len(sys.argv) > 1:
        figures(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        large_store.make(f"sqlite:///{folder}/real.sqlite", 2_000_000)
        figures(Path(folder))


def figures(folder: Path) -> None:
    url = f"sqlite:///{folder}/real.sqlite"
    record = next(large_store.records())
    model, workload = record.subject.model.name, record.subject.workload.label
    scopes: dict[str, dict[str, object]] = {
        "a model and workload": {"model": (model,), "workload": workload},
        "a model": {"model": (model,)},
        "every model": {"all": True},
    }
    if sys.argv[2:3] == ["--ask"]:
        about = sys.argv[4]
        asked(url, scopes[about], sys.argv[3] == "thinned", about)
        return
    cpu = cpu_s()
    written = thin_parts(parse_url(url)).written
    if written:
        say("thinned_written", cpu_s() - cpu, "s CPU", files=written)
    with read_transaction(parse_url(url)) as transaction:
        parts, thin = parts_in_use(transaction), thinned_in_use(transaction)
    rows, kept = sum(part.row_count for part in parts), sum(one.row_count for one in thin)
    say("thinned_rows", kept / rows, "of all", rows=rows, kept=kept, parts=len(parts), files=len(thin))
    of_parts, of_thin = sum(part.bytes for part in parts), sum(one.bytes for one in thin)
    say("thinned_bytes", of_thin / of_parts, "of the parts", parts=of_parts, thinned=of_thin)
    for about in list(scopes)[: 3 if sys.argv[2:] == ["every"] else 2]:
        for how in ("thinned", "whole"):
            forget_files(folder)
            subprocess.run([sys.executable, __file__, str(folder), "--ask", how, about], check=True)


if __name__ == "__main__":
    main()
