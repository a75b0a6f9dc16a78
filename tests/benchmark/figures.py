"""Figures of benchmarks: a JSON line each, with the machine; and seconds of work."""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )
    return f"{os.cpu_count()} x {model}, {platform.system()}"


def say(name: str, value: float, unit: str, **more: object) -> None:
    """Print one figure; an `aim` is such as "<= 10"."""
    figure = {"name": name, "value": round(value, 4), "unit": unit, **more, "machine": machine()}
    print(json.dumps(figure), flush=True)


def cpu_s() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def least_s(action: Callable[[], object], runs: int = 3) -> float:
    times = []
    for _ in range(runs):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)
