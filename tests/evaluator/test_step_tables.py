"""Operators of a step as engines run them: what is exchanged around experts."""

from __future__ import annotations

from evaluator.graph.operators import Affine, CollectiveExtents, ExpertExtents, Operator
from evaluator.serving.engine.step_tables import gathered_once


def test_tokens_are_gathered_once_around_experts():
    def exchange(label: str, kind: str) -> Operator:
        moved = CollectiveExtents(group_size=8, stride=1, payload_bytes=Affine(tokens=8 * 14336))
        return Operator(label=label, kind=kind, counts=(1,), collective=moved)

    experts = ExpertExtents(
        tokens=Affine(tokens=8),
        experts=256,
        local_experts=256,
        ranks=1,
        experts_per_token=8,
        hidden_size=7168,
        intermediate_size=256,
        role="gate_up",
    )
    before = [
        exchange("layers.mlp.dispatch", "all_gather"),
        exchange("layers.mlp.gather", "reduce_scatter"),
        exchange("layers.mlp.dispatch", "all_to_all"),  # sends rows to where their experts are
        exchange("layers.attention_all_reduce", "all_reduce"),
        Operator(label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts),
    ]
    moved = [one.collective.payload_bytes.tokens for one in gathered_once(before) if one.collective]
    assert moved == [14336, 14336, 8 * 14336, 8 * 14336]
