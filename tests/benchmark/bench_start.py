"""What a new process costs: help, a question, an evaluation, the first line on a terminal; and what is installed.

Run: python tests/benchmark/bench_start.py [RUNS] (default 20). Prints JSON lines, the median of runs in turn with the
floor: a Python that imports duckdb and typer. The store is made in a temporary folder. Installing is measured where
SWEEPDB_BENCHMARK_INSTALL=1: it takes a minute and the network, or a cache of packages."""

from __future__ import annotations

import os
import pty
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import say

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))


ROOT = Path(__file__).parents[2]
FLOOR = [sys.executable, "-c", "import duckdb, typer"]
SWEEPDB = [sys.executable, "-m", "cli.main"]
EXAMPLE = ["Qwen/Qwen3-32B-FP8", "--device", "h200_sxm", "--total-devices", "8", "--input-length", "3500",
           "--output-length", "1500"]  # fmt: skip
PLANNED = ["Qwen/Qwen3-32B-FP8", "--device", "h200_sxm", "--total-devices", "16", "--input-length", "3500",
           "--output-length", "1500", "--ttft-limit", "2000", "--tpot-limit", "30"]  # fmt: skip


def spent(command: list[str]) -> tuple[float, float]:
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command}: {said.decode()}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def paired(runs: int, url: str) -> None:
    """Help and a question, each run beside one of the floor."""
    question = [*SWEEPDB, "query", "best", "--tpot-limit", "30", "--store", url]
    for name, command, most_s, most_floors in (
        ("start_help", [*SWEEPDB, "--help"], 0.15, None),
        ("start_question", question, None, 1.8),
    ):
        spent(command)
        both = [(spent(FLOOR), spent(command)) for _ in range(runs)]
        floor_s, floor_cpu = (statistics.median(one[0][place] for one in both) for place in (0, 1))
        wall, cpu = (statistics.median(one[1][place] for one in both) for place in (0, 1))
        beside = {"cpu_s": round(cpu, 3), "floor_wall_s": round(floor_s, 3), "floor_cpu_s": round(floor_cpu, 3)}
        if most_s is not None:
            say(name, wall, "s", aim=f"<= {most_s}", **beside)
        if most_floors is not None:
            say(f"{name}_in_floors", cpu / floor_cpu, "floors, CPU", aim=f"<= {most_floors}", **beside)


def whole(folder: str) -> str:
    """The README's example and a plan, each from an empty store; returns the store of the example."""
    url = f"sqlite:///{folder}/example.sqlite"
    first = spent([*SWEEPDB, "evaluate", *EXAMPLE, "--store", url])
    then = spent([*SWEEPDB, "query", "best", "--tpot-limit", "30", "--store", url])
    wall, cpu = (one + other for one, other in zip(first, then, strict=True))
    say("evaluate_and_ask", wall, "s", aim="<= 1.5", cpu_s=round(cpu, 3))
    say("evaluate_and_ask_cpu", cpu, "s CPU", aim="<= 1.7")
    plan = [*SWEEPDB, "plan", *PLANNED, "--store", f"sqlite:///{folder}/plan.sqlite"]
    for name, most in (("plan_first", 3), ("plan_again", 1.2)):
        wall, cpu = spent(plan)
        say(name, wall, "s", aim=f"<= {most}", cpu_s=round(cpu, 3))
    return url


def first_line(folder: str) -> None:
    """Until a terminal shows the first words of an evaluation."""
    command = [*SWEEPDB, "evaluate", *EXAMPLE, "--store", f"sqlite:///{folder}/line.sqlite"]
    seconds = []
    for _ in range(5):
        reading, writing = pty.openpty()
        started = time.perf_counter()
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=writing) as process:
            os.close(writing)
            os.read(reading, 1)
            seconds.append(time.perf_counter() - started)
            process.kill()
        os.close(reading)
    say("first_line", statistics.median(seconds), "s", aim="<= 0.3")


def installed(folder: str) -> None:
    """What `make demo` installs, with the packages that pip has at hand."""
    environment = Path(folder) / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    sources = Path(folder) / "sources"  # building leaves files beside them
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(".*", "build", "tests", "docs"))
    pip = str(environment / "bin" / "pip")
    install = [pip, "install", "--quiet", "--constraint", "constraints.txt", f"{sources}[serve]"]
    wall, cpu = spent(install)
    size = sum(path.stat().st_blocks * 512 for path in environment.rglob("*") if not path.is_symlink())
    say("install_demo", wall, "s", aim="<= 40", cpu_s=round(cpu, 3))
    say("installed_demo", size / 2**20, "MiB", aim="<= 350")


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of modules would be compiled in each process
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        url = whole(folder)
        paired(runs, url)
        first_line(folder)
        if os.environ.get("SWEEPDB_BENCHMARK_INSTALL") == "1":
            installed(folder)


if __name__ == "__main__":
    main()
