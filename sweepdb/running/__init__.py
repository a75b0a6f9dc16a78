"""`decide --run`: starts, measures, imports, and stops all that it started. Linux alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.running.starts import run_starts

READY_S, CLIENT_S = 1800.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRun:
    """How servers are started and asked: the command line reads defaults."""

    budget: int = 1
    client: str | None = None
    ready_s: float = READY_S
    client_s: float = CLIENT_S
    engine: str | None = None
    engine_version: str | None = None


__getattr__, __dir__ = lazy_face(__name__)
