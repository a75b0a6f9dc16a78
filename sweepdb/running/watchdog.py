"""Runs one command, and ends all it started when standard input closes.

The kernel closes that pipe at any end of the starter, SIGKILL included. Standard library only. Linux: adopts orphans
(prctl), reads /proc."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_LOOK_EVERY_S = 0.05
TO_END_S = 10.0  # from SIGTERM to SIGKILL: engines let go of devices in it
GIVEN_UP_S = 60.0  # a process that a driver holds does not end even by SIGKILL
_PARENT = 1  # of the fields after a process' name: state, parent, group, session


def stat_of(process: int) -> list[str]:
    """Fields after the name, which may hold blanks and brackets; none where it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def running() -> dict[int, list[str]]:
    found = {int(one.name): stat_of(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdecimal()}
    return {process: fields for process, fields in found.items() if fields and fields[0] not in "ZX"}


def _descendants() -> set[int]:
    parents = {process: int(fields[_PARENT]) for process, fields in running().items()}
    found = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _reaped(child: int) -> int | None:
    """Reaps all; returns the child's status, if among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                status = os.waitstatus_to_exitcode(ended[1])
    return status


def _end(processes: set[int], kind: signal.Signals) -> None:
    """To each still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, kind)


def end_all(found: Callable[[], set[int]]) -> set[int]:
    began = time.monotonic()
    _end(left := found(), signal.SIGTERM)
    while left and time.monotonic() < began + GIVEN_UP_S:
        if time.monotonic() > began + TO_END_S:
            _end(left, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)
        left = found()
    return left


def _left(child: int) -> set[int]:
    _reaped(child)
    return _descendants()


def main(command: list[str]) -> int:
    """Until the command ends, or nobody waits."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the pipe says when to end
        signal.signal(kind, lambda *_: None)
    ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  what it is for
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    child, status = started.pid, None  # `started` lives on: as garbage it would take in the child's status by itself
    while status is None and not select.select([0], [], [], _LOOK_EVERY_S)[0]:
        status = _reaped(child)
    end_all(lambda: _left(child))
    started.returncode = status or 0
    return 0 if status is None else status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
