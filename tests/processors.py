"""Runs a program under another processor's arithmetic: another kernel of the BLAS, fewer instructions of numpy's, threads."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick import quick

ROOT = Path(__file__).parents[1]
_CPUINFO = Path("/proc/cpuinfo")


def arithmetics() -> dict[str, dict[str, str]]:
    """Name -> environment of every arithmetic that this processor can play, the plain one first."""
    found = {"as it is": {}}
    if platform.machine() != "x86_64":
        return found
    flags = _CPUINFO.read_text().split() if _CPUINFO.exists() else []
    # Without AVX-512 numpy takes log, exp and power from the C library.
    if "avx2" in flags:
        found["Haswell, one thread"] = _environment("Haswell", threads=1, without="X86_V4")
    found["Nehalem, two threads"] = _environment("Nehalem", threads=2, without="X86_V4")
    if "avx512f" in flags:
        found["SkylakeX, two threads"] = _environment("SkylakeX", threads=2)
    return found


def others(*, rest: pytest.MarkDecorator) -> list[Any]:
    """Parameters of a test: names of every arithmetic but the plain one, all but the first of them marked."""
    return quick(list(arithmetics())[1:], rest=rest)


def without_vectors() -> str:
    """What `NPY_DISABLE_CPU_FEATURES` is set to so that numpy takes neither AVX2 nor AVX-512 for exp and log; nothing on
    a processor where numpy would not know the name."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return "X86_V3" if "X86_V3" in found else ""


def _environment(core: str, *, threads: int, without: str = "") -> dict[str, str]:
    return {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": str(threads), "NPY_DISABLE_CPU_FEATURES": without}


def printed_by(program: str, *arguments: str, arithmetic: dict[str, str]) -> Any:
    ours = {"OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES", "OMP_NUM_THREADS"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    # The folder of the tests comes first on a program's path and has a folder `evaluator` of its own.
    environment |= arithmetic | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "evaluator")))}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / program), *arguments],
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(without_vectors())
