"""A progress line on a terminal, drawn over; elsewhere lines of their own, every few seconds. Silent with --quiet."""

from __future__ import annotations

import time
from typing import Self, TextIO

from cli.visible import is_quiet
from sweepdb import evaluating

REDRAWN_EVERY_S = 0.1
SAID_EVERY_S = 5.0
WIDTH = 24
READING = "reading the model, the devices and the engines"
_START_OF_LINE = "\r\x1b[K"  # and nothing of what stood there


class _Redrawn:
    """One line of a terminal that is drawn over, and taken away at the end. Lines where no terminal is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._every_s = REDRAWN_EVERY_S if self._terminal else SAID_EVERY_S
        self._drawn: float | None = None
        self._started = self._begun = time.monotonic()
        self._scenarios = self._before = 0

    def _due(self) -> bool:
        """Whether to draw now; a short run draws nothing where no terminal is."""
        now = time.monotonic()
        last = self._drawn if self._drawn is not None else 0.0 if self._terminal else self._started
        if is_quiet() or now - last < self._every_s:
            return False
        self._drawn = now
        return True

    def _draw(self, text: str) -> None:
        self._stream.write(f"{_START_OF_LINE}{text}" if self._terminal else f"{text}\n")
        self._stream.flush()

    def begin(self, what: str) -> Self:
        """Say on a terminal what is being done before anything can be counted."""
        if self._terminal and not is_quiet():
            self._drawn = 0.0  # the next line is due at once
            self._draw(f"{what} ...")
        return self

    def clear(self) -> None:
        """Take the line away, so that something else can be said."""
        if self._terminal and self._drawn is not None:
            self._draw("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


class ProgressBar(_Redrawn):
    def show(self, progress: evaluating.Progress) -> None:
        if self._scenarios not in {0, progress.scenarios}:  # another round, of more or of others
            self._before, self._begun = progress.scenarios_done, time.monotonic()
        self._scenarios = progress.scenarios
        if not self._due():
            return
        elapsed = max(time.monotonic() - self._begun, 1e-9)
        done, share = progress.scenarios_done - self._before, progress.scenarios_done / max(progress.scenarios, 1)
        bar = f"[{'#' * round(share * WIDTH):<{WIDTH}}] " if self._terminal else ""
        left = f", {elapsed * (progress.scenarios - progress.scenarios_done) / done:.0f} s left" if done > 0 else ""
        stored = progress.probes_stored / max(time.monotonic() - self._started, 1e-9)
        pace = f", {stored:,.0f} probes/s" if stored and not self._before else ""
        self._draw(f"{bar}{progress.scenarios_done}/{progress.scenarios} scenarios{pace}{left}")


class ProgressLine(_Redrawn):
    def show(self, done: int, count: int, what: str) -> None:
        if self._due():
            self._draw(f"{done}/{count} {what}")
