"""Commands under a watchdog, so that they end with us; session and mark find remains."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from store.errors import SweepdbError
from sweepdb.running import watchdog

_MARK = "SWEEPDB_RUN"
_SESSION, _STARTED = 3, 19  # of the fields after a process' name in /proc


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Tells a command's processes from others, after a restart too."""

    token: str  # in their environment
    session: int  # of the watchdog, which leads it
    started: int  # ticks from the machine's start to the watchdog's
    boot: str  # which start of the machine


@dataclass(frozen=True, slots=True)
class Guarded:
    mark: Mark
    process: subprocess.Popen[bytes]

    def ended(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()
        end_marked(self.mark)


@contextmanager
def guarded(
    command: Sequence[str], *, folder: Path, log: BinaryIO, environment: Mapping[str, str] | None = None
) -> Iterator[Guarded]:
    """However the block or this process ends, the command ends too."""
    if not Path("/proc/self/stat").exists():
        raise SweepdbError("Servers are started on Linux alone: their processes are found through /proc.")
    token = secrets.token_hex(8)
    process = subprocess.Popen(  # noqa: S603  scripts of `launch`
        [sys.executable, "-I", "-S", str(watchdog.__file__), *command],
        cwd=folder, env={**os.environ, **(environment or {}), _MARK: token}, stdin=subprocess.PIPE, stdout=log,
        stderr=log, start_new_session=True,
    )  # fmt: skip
    fields = watchdog.stat_of(process.pid)
    started = int(fields[_STARTED]) if fields else 0
    one = Guarded(Mark(token=token, session=process.pid, started=started, boot=_boot()), process)
    try:
        yield one
    finally:
        one.stop()


def marked(mark: Mark) -> set[int]:
    """Only those still there."""
    if mark.boot != _boot():
        return set()
    there = watchdog.running()
    leader = there.get(mark.session)
    # A number is given again: a session of the same number has another leader, which started later.
    ours = leader is None or int(leader[_STARTED]) == mark.started
    in_session = {process for process, fields in there.items() if int(fields[_SESSION]) == mark.session}
    # Programs that leave the session keep the environment; those that write over it (vLLM's engines) do not leave.
    return {process for process in there if _token_of(process) == mark.token} | (in_session if ours else set())


def end_marked(mark: Mark) -> int:
    found = len(marked(mark))
    if left := watchdog.end_all(lambda: marked(mark)):
        numbers = ", ".join(map(str, sorted(left)))
        hint = "A driver may hold it: `nvidia-smi` shows who uses a device."
        raise SweepdbError(f"Process {numbers} does not end, even by SIGKILL.", hint=hint)
    return found


def _token_of(process: int) -> str | None:
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another person's
        return None
    named = f"{_MARK}=".encode()
    return next((one[len(named) :].decode(errors="replace") for one in variables if one.startswith(named)), None)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
