"""Adds pipeline stages where weights do not fit one node."""

from __future__ import annotations

from dataclasses import replace

from evaluator.evaluate import unsupported
from evaluator.inputs import DeviceProfile, bytes_of_weights
from evaluator.request import SweepRequest, planned_scenarios
from queries.asking import Limits
from store.schema import FORMULAS

_RESERVED_BYTES = Limits().reserved_gib * 2**30  # of a device, as questions reserve
_SPLITS = ("tp_sizes", "dp_sizes", "ep_sizes", "moe_tp_sizes", "moe_dp_sizes")


def node_bytes(device: DeviceProfile) -> float:
    return device.grid[-1] * float(device.memory_bytes - _RESERVED_BYTES)


def staged_by_itself(part: SweepRequest) -> SweepRequest:
    """Where an engine serves and no split was given."""
    named = any(getattr(part.search, sizes) is not None for sizes in ("pp_sizes", *_SPLITS))
    return part if named or part.serving_model == FORMULAS or part.convention == "upstream" else with_stages(part)[0]


def with_stages(part: SweepRequest, *, crossing: bool = False) -> tuple[SweepRequest, str | None]:
    """Stages across nodes, or why the engine refuses them.

    `crossing`: plans that cross nodes are compared with stages anyhow."""
    largest = max((size for phase in part.phases for size in part.instance_sizes(phase)), default=1)
    nodes = max(largest // device.grid[-1] for device in part.devices)
    if nodes < 2 or not (crossing or _exceeds_nodes(part)):
        return part, None
    stages = tuple(sorted({1, *(1 << power for power in range(1, nodes.bit_length())), nodes}))
    staged = replace(part, search=replace(part.search, pp_sizes=stages))
    refused = _refused(staged)
    return (staged, None) if refused is None else (part, refused)


def _exceeds_nodes(part: SweepRequest) -> bool:
    return any(
        bytes_of_weights(model.spec, precision) > node_bytes(device)
        for model in part.models
        for precision in part.precisions
        for device in part.devices
    )


def _refused(staged: SweepRequest) -> str | None:
    """None where all is served. Each workload and number counts once."""
    kinds = {
        (one.workload, one.plan.pp): one
        for planned in planned_scenarios(staged)
        if planned.illegal is None
        for one in (planned.scenario,)
    }
    found = (unsupported(one) for one in kinds.values()) if staged.serving_model != FORMULAS else ()
    return next((refused.message for refused in found if refused is not None), None)
