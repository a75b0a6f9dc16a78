"""Operators of a step as engines run them: what is exchanged around experts."""

from __future__ import annotations

import pytest

from evaluator.graph.operators import Affine, CollectiveExtents, ExpertExtents, Operator
from evaluator.serving.engine.step_tables import exchanged_once, gathered_once


def experts(ranks: int, role: str) -> ExpertExtents:
    return ExpertExtents(
        tokens=Affine(tokens=8), experts=256, local_experts=256 // ranks, ranks=ranks, experts_per_token=8,
        hidden_size=7168, intermediate_size=256, role=role,
    )  # fmt: skip


def exchange(label: str, kind: str, sent: ExpertExtents | None = None) -> Operator:
    moved = CollectiveExtents(group_size=8, stride=1, payload_bytes=Affine(tokens=8 * 14336))
    return Operator(label=label, kind=kind, counts=(1,), collective=moved, experts=sent)


def test_tokens_are_gathered_once_around_experts():
    before = [
        exchange("layers.mlp.dispatch", "all_gather"),
        exchange("layers.mlp.gather", "reduce_scatter"),
        exchange("layers.mlp.dispatch", "all_to_all"),  # sends rows to where their experts are
        exchange("layers.attention_all_reduce", "all_reduce"),
        Operator(
            label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts(1, "gate_up")
        ),
    ]
    moved = [one.collective.payload_bytes.tokens for one in gathered_once(before) if one.collective]
    assert moved == [14336, 14336, 8 * 14336, 8 * 14336]


@pytest.mark.parametrize(("held_in", "narrower"), [("NVFP4", 9 / 32), ("FP8_BLOCK", 1.0)])
def test_a_token_goes_once_to_each_device_of_its_experts(held_in, narrower):
    """Of 4 devices the 8 experts of a token are on 4 (1 - 0.75^8) = 3.5995, each of which gets its 14,336 bytes; in
    NVFP4 4.5 of every 16 bits. One sum of 16 bits comes back from each."""
    gate_up = Operator(
        label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts(4, "gate_up"),
        weight_format=held_in,
    )  # fmt: skip
    sent = experts(4, "exchange")
    before = [
        exchange("layers.mlp.dispatch", "all_to_all", sent),
        gate_up,
        exchange("layers.mlp.gather", "all_to_all", sent),
        exchange("layers.attention_all_reduce", "all_reduce"),
    ]
    moved = [float(one.collective.payload_bytes.tokens) for one in exchanged_once(before) if one.collective]
    assert moved == pytest.approx([narrower * 3.5995 * 14336, 3.5995 * 14336, 8 * 14336], rel=1e-4)
