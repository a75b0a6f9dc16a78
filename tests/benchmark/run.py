"""Run every benchmark, each in a process of its own, and pass on its JSON lines; at last, which of their aims are met.

Run: python tests/benchmark/run.py [NAME ...]; names as in bench_NAME.py. A figure that has an aim says it, as "<= 10". Other
output goes to standard error. Each is ended after LIMIT_S, and those that take a size get one that is over long before; by
themselves they take what they are given."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LIMIT_S = 600.0
SIZES = {"read": ["1000000"], "write": ["500000"], "trust": ["100000"]}


def benchmarks(names: list[str]) -> list[Path]:
    found = {path.stem.removeprefix("bench_"): path for path in sorted(FOLDER.glob("bench_*.py"))}
    if unknown := set(names) - set(found):
        sys.exit(f"no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    return [path for name, path in found.items() if not names or name in names]


def figure_of(line: str) -> dict[str, Any] | None:
    try:
        figure = json.loads(line)
    except json.JSONDecodeError:
        return None
    return figure if isinstance(figure, dict) and {"name", "value", "unit"} <= figure.keys() else None


def is_met(figure: dict[str, Any]) -> bool:
    sign, _, wanted = figure["aim"].partition(" ")
    if sign not in {"<=", ">="}:
        raise ValueError(f"no aim: {figure['aim']}")
    return figure["value"] <= float(wanted) if sign == "<=" else figure["value"] >= float(wanted)


def run(path: Path, aimed: list[dict[str, Any]]) -> int:
    """Run one benchmark and print its figures as they come, its own time last; return its exit code.

    Figures with an aim are added to `aimed`."""
    name, started = path.stem.removeprefix("bench_"), time.monotonic()
    line = [sys.executable, str(path), *SIZES.get(name, [])]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        late = threading.Timer(LIMIT_S, partial(os.killpg, process.pid, signal.SIGKILL))  # with what it has started
        late.start()
        for printed in process.stdout or ():
            figure = figure_of(printed)
            print(printed, end="", flush=True, file=sys.stderr if figure is None else sys.stdout)
            aimed.extend([figure] if figure is not None and "aim" in figure else [])
        process.wait()
        late.cancel()
    took = {"name": f"the benchmark {name}", "value": round(time.monotonic() - started, 1), "unit": "s"}
    print(json.dumps({**took, "limit": LIMIT_S}), flush=True)
    return process.returncode


def main() -> int:
    """Run what was asked for; fail when one failed, after the others have run. An aim that is missed fails nothing."""
    aimed: list[dict[str, Any]] = []
    failed = [path.name for path in benchmarks(sys.argv[1:]) if run(path, aimed)]
    missed = [f"{one['name']}: {one['value']} {one['unit']}, aim {one['aim']}" for one in aimed if not is_met(one)]
    reached = {"name": "aims that are met", "value": len(aimed) - len(missed), "unit": f"of {len(aimed)}"}
    print(json.dumps({**reached, "missed": missed}), flush=True)
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
