"""Steps of `decide --run` as JSON lines, by which a killed run goes on.

A line is on disk before the next step; the file is locked."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from store.errors import SweepdbError
from sweepdb.running.guarded import Mark

JOURNAL = "journal.jsonl"
What = Literal["begin", "start", "process", "ladder", "measured", "failed", "imported", "stopped", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One rung's."""

    concurrency: int
    rate: float | None = None

    @property
    def name(self) -> str:
        return str(self.concurrency) if self.rate is None else f"rate-{self.rate:g}"

    def __str__(self) -> str:
        return f"concurrency {self.concurrency}" if self.rate is None else f"{self.rate:g} requests/s"


@dataclass(slots=True, kw_only=True)
class Begun:
    """A start, as the journal knows it."""

    number: int
    probe: str
    scenario: str
    plan: str
    device: str
    folder: str
    ladder: list[Load]
    measured: dict[str, str] = field(default_factory=dict)  # result by the name of a load
    imported: set[str] = field(default_factory=set)  # results
    failed: str | None = None  # the file that says why
    stopped: bool = False

    @property
    def left(self) -> list[Load]:
        return [load for load in self.ladder if load.name not in self.measured]

    @property
    def to_import(self) -> list[str]:
        """Results not known to be in the store."""
        found = [*self.measured.values(), *([] if self.failed is None else [self.failed])]
        return [file for file in found if file not in self.imported]


class Journal:
    """Open for writing, with what it says so far."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.question: object = None
        self.starts: list[Begun] = []  # of the question that is under way
        self.begun = 0  # starts of all questions
        self.marks: list[Mark] = []  # of processes that may be left
        for line in file:
            if line.endswith("\n"):  # else it was being written when its writer was killed
                with contextlib.suppress(ValueError):  # one that a kill had cut short, ended since
                    self._read(json.loads(line))

    def write(self, what: What, **said: object) -> None:
        line = {"what": what, **said}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._read(line)

    def begin(self, start: Begun) -> None:
        said = asdict(start)
        self.write("start", **{name: said[name] for name in _OF_START}, ladder=said["ladder"])

    @property
    def under_way(self) -> Begun | None:
        return self.starts[-1] if self.starts and not self.starts[-1].stopped else None

    def _read(self, line: Mapping[str, Any]) -> None:
        match line["what"]:
            case "begin":
                self.question, self.starts = line["question"], []
            case "start":
                ladder = [Load(**load) for load in line["ladder"]]
                self.begun += 1
                self.starts.append(Begun(**{name: line[name] for name in _OF_START}, ladder=ladder))
            case "process":
                self.marks.append(Mark(**line["mark"]))
            case "ladder":
                self.starts[-1].ladder = [Load(**load) for load in line["ladder"]]
            case "measured":
                self.starts[-1].measured[line["load"]] = line["file"]
            case "failed":
                self.starts[-1].failed = line["file"]
            case "imported":
                self.starts[line["number"] - 1].imported.add(line["file"])
            case "stopped":
                self.starts[-1].stopped, self.marks = True, []
            case "end":
                self.question = None


_OF_START = ("number", "probe", "scenario", "plan", "device", "folder")


@contextmanager
def open_journal(folder: Path) -> Iterator[Journal]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / JOURNAL).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepdbError(
                f"Another run is under way in {folder}.", hint="Wait for it, or stop it: it stops what it started."
            ) from None
        file.seek(0)
        journal = Journal(file)
        _end_torn_line(file)
        yield journal


def _end_torn_line(file: IO[str]) -> None:
    """A kill may have cut the last line short."""
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    with Path(file.name).open("rb") as bytes_:
        bytes_.seek(-1, os.SEEK_END)
        torn = bytes_.read(1) != b"\n"
    if torn:
        file.write("\n")
        file.flush()
