"""Run every benchmark, each in a process of its own, and pass on its JSON lines.

Run: python tests/benchmark/run.py [NAME ...]; names as in bench_NAME.py. Other output goes to standard error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def benchmarks(names: list[str]) -> list[Path]:
    """Every benchmark, or those that were named."""
    found = {path.stem.removeprefix("bench_"): path for path in sorted(FOLDER.glob("bench_*.py"))}
    if unknown := set(names) - set(found):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    return [path for name, path in found.items() if not names or name in names]


def is_figure(line: str) -> bool:
    """Whether a line is a figure: a JSON object with a name and a value."""
    try:
        figure = json.loads(line)
    except json.JSONDecodeError:
        return False
    return isinstance(figure, dict) and {"name", "value", "unit"} <= figure.keys()


def run(path: Path) -> int:
    """Run one benchmark and print its figures as they come; return its exit code."""
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True, file=sys.stdout if is_figure(line) else sys.stderr)
    return process.returncode


def main() -> int:
    """Run what was asked for; fail when one failed, after the others have run."""
    failed = [path.name for path in benchmarks(sys.argv[1:]) if run(path)]
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
