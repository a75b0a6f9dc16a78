"""What a moved limit costs: a new limit in an open session, and in a new process, over a million probes.

Run: python tests/benchmark/bench_drag.py [probes] (default 1e6). Prints JSON lines: processor time of all threads, the
least of a few, with wall time beside it; asserts nothing. The store is that of bench_read.py, made once and kept."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from bench_read import ROOT, sealed_store
from figures import machine

from queries import session as session_module
from queries.asking import Answer, question_of
from queries.session import Session
from store.location import parse_url

RUNS = 6
ONE = {"model": "Qwen/Qwen3-8B", "convention": "physical"}
FRONTIER = ONE | {"workload": "1024/1024", "quantization": "FP8"}
EVERY = {"convention": "physical"}
PICTURE = {"max_points": 400}
ASKED = (  # name, report, options
    ("best_every_model", "best", EVERY),
    ("best_one_model", "best", ONE),
    ("pareto_one_model", "pareto", ONE | PICTURE),
    ("pareto_one_frontier", "pareto", FRONTIER | PICTURE),
    ("best_one_frontier", "best", FRONTIER),
    ("pd_ratio_one_model", "pd-ratio", ONE | {"num_devices": 32}),
    ("deployments_one_model", "deployments", ONE | {"num_devices": 32}),
    ("sensitivity_one_model", "sensitivity", ONE | {"vary": "ttft"}),
)
FLOOR = "import duckdb, typer"
AIMS = {  # ms of processor time under a new limit, in a store of a million probes; at ten million
    1_000_000: {"best_every_model_moved": 35, "pareto_one_frontier_moved": 20, "pd_ratio_one_model_moved": 60},
    10_000_000: {"best_every_model_moved": 150, "pareto_one_frontier_moved": 20, "pd_ratio_one_model_moved": 60},
}
ERROR_AIM_MS, PROCESS_AIM = 3, 1.7  # the expected error of an answer; a process, in times its floor


def spent(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def show(name: str, cpu: list[float], wall: list[float], **details: object) -> None:
    line = {"name": name, "value": round(min(cpu) * 1000, 1), "unit": "ms CPU", "wall_ms": round(min(wall) * 1000, 1)}
    print(json.dumps({**line, **details, "machine": machine()}), flush=True)


def expected_error(url: str) -> None:
    told = session_module.with_expected_errors
    cpu: list[float] = []
    wall: list[float] = []

    def timed(*arguments: object) -> Answer:
        before, started = spent(resource.RUSAGE_SELF), time.perf_counter()
        answer = told(*arguments)
        cpu.append(spent(resource.RUSAGE_SELF) - before)
        wall.append(time.perf_counter() - started)
        return answer

    session_module.with_expected_errors = timed
    try:
        for name, report, options in ASKED:
            with Session(parse_url(url)) as session:
                for number in range(RUNS + 2):
                    session.ask(question_of(report, {**options, "tpot_limit": 40.0 + number}))
            show(f"expected_error_of_{name}", cpu[-RUNS:], wall[-RUNS:], aim=f"<= {ERROR_AIM_MS}")
    finally:
        session_module.with_expected_errors = told


def moved(url: str, aims: dict[str, int]) -> None:
    """A new limit in a session that was asked before; the question that comes first by itself."""
    for name, report, options in ASKED:
        with Session(parse_url(url)) as session:
            cpu, wall = [], []
            for number in range(RUNS + 2):
                question = question_of(report, {**options, "tpot_limit": 40.0 + number})
                before, started = spent(resource.RUSAGE_SELF), time.perf_counter()
                answer = session.ask(question)
                cpu.append(spent(resource.RUSAGE_SELF) - before)
                wall.append(time.perf_counter() - started)
            about = {"looked_at": answer.probes_considered, "rows": len(answer.rows)}
            show(f"{name}_first", cpu[:1], wall[:1], **about)
            show(f"{name}_second", cpu[1:2], wall[1:2], **about)
            aim = {"aim": f"<= {most}"} if (most := aims.get(f"{name}_moved")) else {}
            show(f"{name}_moved", cpu[2:], wall[2:], **aim, **about)


def processes(url: str) -> None:
    """A whole process that answers under a new limit, and the least that such a process could cost."""
    asked = [sys.executable, "-m", "cli.main", "query", "best", "--tpot-limit", "50", "--store", url]
    one = [*asked, "--model", ONE["model"], "--workload", "1024/1024"]
    floor = 0.0
    for name, command in (
        ("floor_of_a_process", [sys.executable, "-c", FLOOR]),
        ("best_whole_process", asked),
        ("best_whole_process_one_workload", one),
    ):
        cpu, wall = [], []
        for _ in range(RUNS):
            before, started = spent(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            cpu.append(spent(resource.RUSAGE_CHILDREN) - before)
            wall.append(time.perf_counter() - started)
        floor = floor or 1000 * min(cpu)
        aim = {} if name.startswith("floor") else {"aim": f"<= {PROCESS_AIM * floor:.0f}"}
        show(name, cpu, wall, times_the_floor=round(1000 * min(cpu) / floor, 1), **aim)


def main() -> None:
    probes = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    url = sealed_store(probes)
    moved(url, AIMS.get(probes, {}))
    expected_error(url)
    processes(url)


if __name__ == "__main__":
    main()
