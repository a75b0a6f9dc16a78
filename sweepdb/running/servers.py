"""A launched folder as a running server: free port, wait, watch, stop."""

from __future__ import annotations

import http.client
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from store.errors import InputError, SweepdbError
from sweepdb.launching import HEALTH, START
from sweepdb.running.guarded import Guarded, Mark, guarded

SCRIPT, LOG = "server.sh", "server.log"
_ROUTER_PORT = 8000
_LOOK_EVERY_S, _ANSWER_S = 0.1, 10.0
_NOT_FOUND = (126, 127)  # how a shell says that there is no such program
_PORT_TAKEN = re.compile(r"address already in use", re.IGNORECASE)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|outofmemory|no available memory for the cache blocks|not enough memory|insufficient memory"
    r"|larger than the maximum number of tokens that can be stored in KV cache|memory is needed, which is larger",
    re.IGNORECASE,
)
_SAID_LINES = 8
_ENDING_S = 5.0  # that a process has to end after its port closed
_READ_BYTES = 1 << 16


class ServerFailed(SweepdbError):  # noqa: N818  a fact about a plan, kept; no error of ours
    """Did not start, ran out of memory or crashed: its plan is out."""

    exit_code = 4

    def __init__(self, reason: str, lines: tuple[str, ...], *, out_of_memory: bool, under_load: bool) -> None:
        super().__init__(reason)
        self.lines = lines
        self.out_of_memory = out_of_memory
        self.under_load = under_load


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """Healthy at least once."""

    guarded: Guarded
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check(self, where: str) -> None:
        if self.guarded.ended() is None and any(_healthy(self.port) for _ in range(3)):
            return
        ended = self._ending()
        said = f"answers no more {where}" if ended is None else f"crashed {where} ({_how(ended)})"
        raise _failure(said, self.log, under_load=True)

    def _ending(self) -> int | None:
        """A crashing server closes its port before it ends."""
        until = time.monotonic() + _ENDING_S
        while (ended := self.guarded.ended()) is None and time.monotonic() < until:
            time.sleep(_LOOK_EVERY_S)
        return ended


@contextmanager
def started_server(folder: Path, *, ready_s: float, on_process: Callable[[Mark], None]) -> Iterator[RunningServer]:
    """Ready within the block, ended with it."""
    script = _script(folder)
    port = _free_port(fixed=script == START)
    log = folder / LOG
    environment = {"PORT": str(port)} if script == SCRIPT else {}
    with log.open("wb") as file, guarded(["bash", script], folder=folder, log=file, environment=environment) as one:
        on_process(one.mark)
        server = RunningServer(guarded=one, port=port, log=log)
        _wait(server, script, ready_s)
        yield server


def _script(folder: Path) -> str:
    script = next((name for name in (START, SCRIPT) if (folder / name).is_file()), None)
    if script is None:
        raise InputError(
            f"{folder} is of several hosts: `run` starts servers of one machine",
            hint="start them as README.md in the folder says, run bench.sh, and import the folder",
        )
    if script == START and ': "${HOSTS:?' in (folder / START).read_text(encoding="utf-8"):
        raise InputError(f"{folder / START} is of several hosts: `run` starts servers of one machine")
    return script


def _free_port(*, fixed: bool) -> int:
    """A router has a fixed one."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", _ROUTER_PORT if fixed else 0))
        except OSError:
            raise InputError(
                f"port {_ROUTER_PORT} is in use, and the router of several servers listens there",
                hint=f"stop what listens there: ss -ltnp 'sport = :{_ROUTER_PORT}' names it",
            ) from None
        return int(one.getsockname()[1])


def _wait(server: RunningServer, script: str, ready_s: float) -> None:
    until = time.monotonic() + ready_s
    while not _healthy(server.port):
        ended = server.guarded.ended()
        if ended in _NOT_FOUND:
            said = last_lines(server.log)
            raise SweepdbError(
                f"{script} cannot be started here: {said[-1] if said else _how(ended)}",
                hint="Run this where the engine is installed and on the PATH.",
            )
        if ended is not None:
            raise _failure(f"did not start ({_how(ended)})", server.log)
        if time.monotonic() > until:
            raise _failure(f"was not ready after {ready_s:g} s", server.log)
        time.sleep(_LOOK_EVERY_S)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    with suppress(OSError, http.client.HTTPException):
        try:
            connection.request("GET", HEALTH)
            return connection.getresponse().status == http.client.OK
        finally:
            connection.close()
    return False


def _failure(what: str, log: Path, *, under_load: bool = False) -> SweepdbError:
    text = _end_of(log)
    if not under_load and _PORT_TAKEN.search(text):
        return SweepdbError(
            f"The server found its port in use: {log}", hint="Give the same command again: another port is taken."
        )
    memory = _OUT_OF_MEMORY.search(text) is not None
    return ServerFailed(
        f"out of memory: {what}" if memory else what, last_lines(log), out_of_memory=memory, under_load=under_load
    )


def _how(status: int) -> str:
    return f"signal {status - 128}" if status > 128 else f"exit status {status}"


def last_lines(log: Path, count: int = _SAID_LINES) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in _end_of(log).splitlines() if line.strip())[-count:]


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _READ_BYTES))
        return file.read().decode(errors="replace")
