"""A progress line on a terminal; silent elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from sweepdb.evaluating import Progress

REDRAWN_EVERY_S = 0.1
WIDTH = 24
_START_OF_LINE = "\r\x1b[K"  # and nothing of what stood there


class _Redrawn:
    """One line of a terminal that is drawn over, and taken away at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on = stream.isatty()
        self._drawn = 0.0

    def _due(self) -> bool:
        """Whether to draw now: on a terminal, at most ten times a second."""
        now = time.monotonic()
        if not self._on or now - self._drawn < REDRAWN_EVERY_S:
            return False
        self._drawn = now
        return True

    def _draw(self, text: str) -> None:
        self._stream.write(f"{_START_OF_LINE}{text}")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on and self._drawn:
            self._draw("")


class ProgressBar(_Redrawn):
    """Scenarios done, probes a second and time left."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._started = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Redraw the line where it is due."""
        if not self._due():
            return
        elapsed = max(time.monotonic() - self._started, 1e-9)
        share = progress.scenarios_done / max(progress.scenarios, 1)
        bar = "#" * round(share * WIDTH)
        left = f", {elapsed * (1 - share) / share:.0f} s left" if share > 0 else ""
        self._draw(
            f"[{bar:<{WIDTH}}] {progress.scenarios_done}/{progress.scenarios} scenarios,"
            f" {progress.probes_stored / elapsed:,.0f} probes/s{left}"
        )


class ProgressLine(_Redrawn):
    """How many of something are done."""

    def show(self, done: int, count: int, what: str) -> None:
        """Redraw the line where it is due."""
        if self._due():
            self._draw(f"{done}/{count} {what}")
