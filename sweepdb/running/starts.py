"""Starts in turn: server, ladder of loads, import, next.

The caller names the next start (sweepdb.deciding). Everything ends with the call; a killed one goes on by its journal.
A failed server is a result without numbers."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol

from evaluator.ledger import SERVER_FAILED
from store.errors import EvaluationError, InputError, SweepdbError
from store.location import StoreLocation, parse_url
from store.schema import short_plan
from store.whole_files import written_whole
from sweepdb.launching import CLIENTS, RESULTS, deployed, write_launch
from sweepdb.measuring import import_measurements
from sweepdb.running import HowToRun
from sweepdb.running.guarded import Mark, end_marked, guarded
from sweepdb.running.journal import Begun, Journal, Load, open_journal
from sweepdb.running.servers import RunningServer, ServerFailed, last_lines, started_server

_LOOK_EVERY_S = 0.1


def installed_client(wanted: str | None = None) -> str:
    if wanted is not None and wanted not in CLIENTS:
        raise InputError(f"`client={wanted}` is not one of {', '.join(CLIENTS)}")
    among = CLIENTS if wanted is None else (wanted,)
    found = next((name for name in among if shutil.which(name) is not None), None)
    if found is None:
        raise InputError(
            f"no benchmark client is on the PATH: {' or '.join(among)}",
            hint="install one: pip install guidellm, or vllm, or aiperf",
        )
    return found


def measure(
    server: RunningServer, load: Load, folder: Path, client: str, *, limit_s: float, on_process: Callable[[Mark], None]
) -> str:
    """Returns the result's place. A server that ends is told from a client that fails."""
    result = f"{RESULTS}/{client}-{load.name}{'' if client == 'aiperf' else '.json'}"
    _remove(folder / result)
    log = folder / f"bench-{load.name}.log"
    surroundings = {"BASE_URL": server.url, "CLIENT": client, "USERS": str(load.concurrency), "RATE": ""}
    if load.rate is not None:
        surroundings["RATE"] = f"{load.rate:g}"
    until = time.monotonic() + limit_s
    with (
        log.open("wb") as file,
        guarded(["bash", "bench.sh"], folder=folder, log=file, environment=surroundings) as one,
    ):
        on_process(one.mark)
        while (ended := one.ended()) is None:
            if server.guarded.ended() is not None:
                server.check(f"at {load}")
            if time.monotonic() > until:
                server.check(f"at {load}")
                raise _failed(client, load, f"did not end in {limit_s:g} s", log)
            time.sleep(_LOOK_EVERY_S)
    server.check(f"at {load}")
    if ended != 0:
        raise _failed(client, load, f"failed (exit status {ended})", log)
    if not (folder / result).exists():
        raise _failed(client, load, f"wrote no {result}", log)
    return result


def _failed(client: str, load: Load, how: str, log: Path) -> SweepdbError:
    said = "".join(f"\n  {line}" for line in last_lines(log))
    return SweepdbError(
        f"The client {client} {how} at {load}; the server still answers. Its log ends with:{said}",
        hint=f"See {log}; give the same command again to go on, or name another client: `client`.",
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


_UNCLEAR_IN_A_ROW = 2  # starts that failed, not for want of memory: it may be the machine


class WantedLoad(Protocol):
    @property
    def concurrency(self) -> int: ...
    @property
    def rate(self) -> float | None: ...


class WantedStart(Protocol):
    @property
    def probe(self) -> str: ...
    @property
    def scenario(self) -> str: ...
    @property
    def plan(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def ladder(self) -> Sequence[WantedLoad]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """With what a killed call left."""

    starts: int
    points: int
    failed: tuple[str, ...]  # plans that are out, and why
    used_up: bool  # the budget, before the question was decided


def runs_folder(location: StoreLocation) -> Path:
    return Path("sweepdb.runs") if location.path is None else location.path.with_name(f"{location.path.name}.runs")


def run_starts(
    next_start: Callable[[], WantedStart | None],
    *,
    question: object,
    store: str | None = None,
    how: HowToRun | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Ran:
    """Until `next_start` names none, or the budget is used.

    It is asked after each import. A killed call goes on with the same `question`."""
    how, location = how or HowToRun(), parse_url(store)
    client = installed_client(how.client)
    question = json.loads(json.dumps(question, default=str))  # as the journal gives it back
    with _ended_by_signals(), open_journal(runs_folder(location)) as journal:
        one = _Running(
            next_start=next_start, how=how, client=client, location=location, folder=runs_folder(location),
            journal=journal, say=say,
        )  # fmt: skip
        one.end_what_is_left()
        for start in journal.starts:
            one.bring_in(start)
        if journal.question != question:
            journal.write("begin", question=question)
        found = one.run()
        journal.write("end")
        return found


@dataclass(slots=True, kw_only=True)
class _Running:
    next_start: Callable[[], WantedStart | None]
    how: HowToRun
    client: str
    location: StoreLocation
    folder: Path
    journal: Journal
    say: Callable[[str], None]
    failed: list[str] = field(default_factory=list)
    points: int = 0
    unclear: int = 0

    def end_what_is_left(self) -> None:
        ended = sum(end_marked(mark) for mark in self.journal.marks)
        if ended:
            self.say(f"{ended} processes of a run that was killed: stopped")

    def bring_in(self, start: Begun) -> None:
        """Imports what the store lacks."""
        for file in start.to_import:
            brought = import_measurements([self.folder / start.folder / file], self.location.url)
            if brought.found.problems:
                raise EvaluationError(
                    f"{self.folder / start.folder / file} cannot be read: {brought.found.problems[0].what}.",
                    hint="Look at it, and at the log of the client beside it; delete it to measure again.",
                )
            self.points += 0 if file == start.failed else len(brought.found.records)
            self.journal.write("imported", number=start.number, file=file)

    def run(self) -> Ran:
        used_up = False
        while True:
            start = self.journal.under_way
            if start is not None and start.measured and not self._goes_on(start):
                self.journal.write("stopped")
                continue
            if start is None:
                wanted = self.next_start()
                if wanted is None:
                    break
                if len(self.journal.starts) >= self.how.budget:
                    used_up = True
                    break
                start = self._begun(wanted)
            self._made(start)
        failed = tuple(self.failed)
        return Ran(starts=len(self.journal.starts), points=self.points, failed=failed, used_up=used_up)

    def _begun(self, wanted: WantedStart) -> Begun:
        number = len(self.journal.starts) + 1
        start = Begun(
            number=number,
            probe=wanted.probe,
            scenario=wanted.scenario,
            plan=wanted.plan,
            device=wanted.device,
            folder=f"{self.journal.begun + 1:03d}-{wanted.probe.replace(':', '-').replace(' ', '-')}",
            ladder=_loads(wanted),
        )
        self.journal.begin(start)
        return self.journal.starts[-1]

    def _made(self, start: Begun) -> None:
        folder = self.folder / start.folder
        write_launch(
            start.probe, folder, engine=self.how.engine, engine_version=self.how.engine_version, force=True,
            store=self.location.url,
        )  # fmt: skip
        self.say(f"start {start.number} of {self.how.budget}: {_server(start)} ({start.probe}) in {folder}")
        load: Load | None = None
        try:
            if start.left and start.failed is None:
                with started_server(folder, ready_s=self.how.ready_s, on_process=self._noted) as server:
                    self.say(f"  ready at {server.url}")
                    while start.left:
                        load = start.left[0]
                        self._measured(start, load, server)
                        if not self._goes_on(start):
                            break
            self.unclear = 0
        except ServerFailed as failed:
            self._keep_failure(start, failed, load)
        self.journal.write("stopped")

    def _measured(self, start: Begun, load: Load, server: RunningServer) -> None:
        folder = self.folder / start.folder
        file = measure(server, load, folder, self.client, limit_s=self.how.client_s, on_process=self._noted)
        self.journal.write("measured", load=load.name, file=file)
        self.bring_in(start)
        self.say(f"  {load}: measured")

    def _goes_on(self, start: Begun) -> bool:
        """Asks again: the ladder goes on with what is worth most now."""
        if not start.left:
            return False
        wanted = self.next_start()
        if wanted is not None and wanted.scenario == start.scenario:
            # A server takes in no more than the row that it was started by.
            most = max(load.concurrency for load in start.ladder)
            ladder = [load for load in _loads(wanted) if load.concurrency <= most]
            self.journal.write("ladder", ladder=[asdict(load) for load in ladder])
        return wanted is not None

    def _keep_failure(self, start: Begun, failed: ServerFailed, load: Load | None) -> None:
        file = write_failure(self.folder / start.folder, start, failed, load)
        self.journal.write("failed", file=file)
        self.bring_in(start)
        told = f"{_server(start)} is out: {failed.message}"
        self.failed.append(told)
        self.say("\n    ".join([f"  {told}; its log ends with:", *failed.lines]))
        self.unclear = 0 if failed.out_of_memory or failed.under_load else self.unclear + 1
        if self.unclear == _UNCLEAR_IN_A_ROW:
            self.journal.write("stopped")
            raise SweepdbError(
                f"{_UNCLEAR_IN_A_ROW} servers in a row did not start, not for want of memory: it may be the machine.",
                hint="Their logs lie in the folders above. Where the plans are not to blame, forget what was stored of"
                " them: sweepdb measurements delete `source=server_failed`",
            )

    def _noted(self, mark: Mark) -> None:
        self.journal.write("process", mark=asdict(mark))


def _server(start: Begun) -> str:
    return f"{short_plan(start.plan)} on {start.device}"


def _loads(wanted: WantedStart) -> list[Load]:
    return [Load(concurrency=one.concurrency, rate=one.rate) for one in wanted.ladder]


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal act as ^C: all is stopped first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {kind: signal.signal(kind, interrupt) for kind in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def write_failure(folder: Path, start: Begun, failed: ServerFailed, load: Load | None) -> str:
    """At a load, or before any. Returns the file's place."""
    said = deployed(folder)
    document = {
        SERVER_FAILED: failed.message,
        "probe": start.probe,
        "scenario": start.scenario,
        "input_length": said.get("input_length"),
        "output_length": said.get("output_length"),
        "concurrency": said.get("users") if load is None else load.concurrency,
        "request_rate": None if load is None else load.rate,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "log": list(failed.lines),
    }
    name = f"{RESULTS}/failed.json"
    (folder / RESULTS).mkdir(exist_ok=True)
    with written_whole(folder / name) as temporary:
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return name
