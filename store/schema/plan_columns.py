"""Columns of the sizes that make a plan, once: of stored plans, of measured deployments and of what is read.

Not here: what they mean for a step (evaluator.inputs.plan)."""

from __future__ import annotations

from store.schema.declaring import INTEGER, Column

OF_DEVICES = (  # how devices share a model
    Column("tp", INTEGER, "devices", "tensor parallel size"),
    Column("pp", INTEGER, "devices", "pipeline stages"),
    Column("dp", INTEGER, "replicas", "data parallel replicas"),
    Column("ep", INTEGER, "devices", "expert parallel size"),
    Column("moe_tp", INTEGER, "devices", "tensor parallel size inside experts"),
    Column("moe_dp", INTEGER, "replicas", "replicas of the expert group"),
)
OF_SHARES = (  # how they share contexts, experts, prompts and batches
    Column("dcp", INTEGER, "devices", "devices that share the tokens of a context", default="1"),
    Column("redundant_experts", INTEGER, "experts", "copies of experts in a layer beside them", default="0"),
    Column("pcp", INTEGER, "devices", "groups that the new tokens of prompts are divided among", default="1"),
    Column(
        "micro_batches",
        INTEGER,
        "batches",
        "parts of a batch, of which one exchanges tokens while another computes",
        default="1",
    ),
)
OF_OTHERS = (  # of an instance that measured deployments do not state
    Column(
        "encoder_devices", INTEGER, "devices", "devices of their own that encode images for an instance", default="0"
    ),
)
OF_PLANS = (*OF_DEVICES, *OF_SHARES, *OF_OTHERS)
