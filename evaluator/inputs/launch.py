"""Who asks a server, and how it was started: the choices beside model, device and plan that decide its latencies.

Not here: what an engine itself adds to kernels (evaluator.inputs.engines.engine_profiles)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Routing = Literal["balanced", "power_law_1.2"]
ROUTINGS: tuple[Routing, ...] = ("balanced", "power_law_1.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who asks: lengths are uniform in [shortest, 1] of nominal, and prompt-first engines look for new requests every
    `poll_steps` decode steps."""

    shortest: float = 1.0
    prompts_per_user: int = 10
    poll_steps: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a server was started. Its token budget is the workload's, which every serving model reads.

    `seats` is the most sequences it serves at once (None: as many as ask), `wait_steps` the decode steps that a prompt
    waits for others to join it, `compile` whether its kernels are those of a compiled graph."""

    seats: int | None = None
    wait_steps: int = 0
    compile: bool = True
