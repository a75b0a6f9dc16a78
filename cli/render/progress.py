"""A progress line on a terminal; silent elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from evaluator.sweep import Progress

REDRAWN_EVERY_S = 0.1
WIDTH = 24


class ProgressBar:
    """Scenarios done, probes a second and time left, on one line that is redrawn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on = stream.isatty()
        self._started = time.monotonic()
        self._drawn = 0.0

    def show(self, progress: Progress) -> None:
        """Redraw the line, at most ten times a second."""
        now = time.monotonic()
        if not self._on or now - self._drawn < REDRAWN_EVERY_S:
            return
        self._drawn = now
        elapsed = max(now - self._started, 1e-9)
        share = progress.scenarios_done / max(progress.scenarios, 1)
        bar = "#" * round(share * WIDTH)
        left = f", {elapsed * (1 - share) / share:.0f} s left" if share > 0 else ""
        self._stream.write(
            f"\r[{bar:<{WIDTH}}] {progress.scenarios_done}/{progress.scenarios} scenarios,"
            f" {progress.probes_stored / elapsed:,.0f} probes/s{left}   "
        )
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class ProgressLine:
    """How many of something are done, on one line that is redrawn and taken away at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on = stream.isatty()
        self._drawn = 0.0

    def show(self, done: int, count: int, what: str) -> None:
        """Redraw the line, at most ten times a second."""
        now = time.monotonic()
        if not self._on or now - self._drawn < REDRAWN_EVERY_S:
            return
        self._drawn = now
        self._stream.write(f"\r\x1b[K{done}/{count} {what}")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
