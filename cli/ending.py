"""The end of a process after whose command nothing is left to be done: what it holds is the system's to free."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sweepdb import asking

_COMMANDS = frozenset({"query", "evaluate"})


class Ending:
    """Of this process."""

    def __init__(self) -> None:
        self._at_once = False
        self._left: list[asking.Session] = []

    def expect(self, typed: Sequence[str]) -> None:
        """Of a process that does no more than is typed on its command line."""
        self._at_once = not _COMMANDS.isdisjoint(typed[:1])

    @contextmanager
    def closing(self, session: asking.Session) -> Iterator[asking.Session]:
        """Left open at once: of memory alone, it would free piece by piece what the system takes back whole."""
        if self._at_once:
            self._left.append(session)
            yield session
        else:
            with session:
                yield session

    def end(self, code: int) -> None:
        """Skips Python's final collection, too: most of a second after a large sweep.

        Threads of ours are workers, to be told of an interruption."""
        if self._at_once and threading.active_count() == 1:
            with suppress(OSError):  # the reader has seen enough
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


ENDING = Ending()
