"""How `decide --run` starts and asks servers. Light: the command line reads defaults."""

from __future__ import annotations

from dataclasses import dataclass

READY_S, CLIENT_S = 1800.0, 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRun:
    budget: int = 1
    client: str | None = None
    ready_s: float = READY_S
    client_s: float = CLIENT_S
    engine: str | None = None
    engine_version: str | None = None
