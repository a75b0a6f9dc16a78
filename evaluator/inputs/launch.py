"""How a model is served: the split over devices, who asks a server, and how it was started."""

from __future__ import annotations

from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import PlanRecord


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Plan(PlanRecord):
    """Dense models have ep, moe_tp and moe_dp at 1.

    `dcp` of a group's tp devices share its tokens. `redundant_experts` even out a layer's load. `pcp` groups of tp
    devices divide a prompt; all hold every key and decode the same tokens. With 2 `micro_batches` half of a batch
    exchanges expert rows while the other computes. `encoder_devices` hold the image encoder alone."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    moe_tp: int = 1
    moe_dp: int = 1

    @property
    def language_devices(self) -> int:
        return self.stage_devices * self.pp

    @property
    def stage_devices(self) -> int:
        return self.tp * self.dp * self.pcp

    @property
    def replica_devices(self) -> int:
        return self.tp * self.pp * self.pcp

    @property
    def groups(self) -> int:
        return self.dp * self.pcp


# How tokens fall on experts: a distribution that kernels were measured under, or load_F: the busiest device of a group
# gets F times the tokens of the mean one.
Routing = str
ROUTINGS: tuple[Routing, ...] = ("balanced", "power_law_1.2")
LOAD = "load_"
MOST_LOAD = 64.0


def busiest_load(routing: Routing) -> float:
    """Load of the busiest device over the mean; texts must be a known distribution or a number."""
    if routing in ROUTINGS:
        return 1.0
    try:
        load = float(routing.removeprefix(LOAD)) if routing.startswith(LOAD) else 0.0
    except ValueError:
        load = 0.0
    if not 1.0 <= load <= MOST_LOAD:
        raise InputError(
            f"`routing` {routing} is unknown",
            hint=f"{', '.join(ROUTINGS)}, or {LOAD}F, F from 1 to {MOST_LOAD:g}, such as {LOAD}1.35",
        )
    return load


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Lengths are uniform in [shortest, 1] of nominal; prompt-first engines poll every `poll_steps` decode steps."""

    shortest: float = 1.0
    prompts_per_user: int = 10
    poll_steps: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`seats` caps sequences (None: no cap); `wait_steps` are decode steps that a prompt waits for others.

    The token budget is the workload's, since every serving model reads it."""

    seats: int | None = None
    wait_steps: int = 0
    compile: bool = True
