"""The sizes that make a plan, once: of stored plans, of measured deployments and of what is read.

Not here: what they mean for a step (evaluator.inputs.plan)."""

from __future__ import annotations

from store.schema.declaring import INTEGER, Column


def _size(name: str, unit: str, meaning: str, abbreviated: str, default: int | None = None) -> Column:
    """Declare a size; one that has a default is in a plan's label where it is another."""
    stored = None if default is None else str(default)
    return Column(name, INTEGER, unit, meaning, default=stored, abbreviated=abbreviated)


OF_DEVICES = (  # how devices share a model
    _size("tp", "devices", "tensor parallel size", "tp"),
    _size("pp", "devices", "pipeline stages", "pp"),
    _size("dp", "replicas", "data parallel replicas", "dp"),
    _size("ep", "devices", "expert parallel size", "ep"),
    _size("moe_tp", "devices", "tensor parallel size inside experts", "moetp"),
    _size("moe_dp", "replicas", "replicas of the expert group", "moedp"),
)
OF_SHARES = (  # how they share contexts, experts, prompts and batches
    _size("dcp", "devices", "devices that share the tokens of a context", "dcp", 1),
    _size("redundant_experts", "experts", "copies of experts in a layer beside them", "red", 0),
    _size("pcp", "devices", "groups that the new tokens of prompts are divided among", "pcp", 1),
    _size(
        "micro_batches", "batches", "parts of a batch, of which one exchanges tokens while another computes", "mb", 1
    ),
)
OF_OTHERS = (  # of an instance that measured deployments do not state
    _size("encoder_devices", "devices", "devices of their own that encode images for an instance", "enc", 0),
)
OF_PLANS = (*OF_DEVICES, *OF_SHARES, *OF_OTHERS)


def plan_label() -> str:
    """SQL of every dialect: the label of a plan, of its sizes as one letters them."""
    always, experts = OF_DEVICES[:3], OF_DEVICES[3:]
    told = [
        _lettered(always),
        f"CASE WHEN {' OR '.join(f'{size.name} > 1' for size in experts)} THEN {_lettered(experts)} ELSE '' END",
        *(
            f"CASE WHEN {size.name} > {size.default} THEN {_lettered((size,))} ELSE '' END"
            for size in sorted((*OF_SHARES, *OF_OTHERS), key=lambda size: size.name != "redundant_experts")
        ),
    ]
    return f"({' || '.join(told)})"


def _lettered(sizes: tuple[Column, ...]) -> str:
    return " || ".join(f"'{size.abbreviated}' || {size.name}" for size in sizes)
