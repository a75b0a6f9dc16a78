"""Operators of a step as an engine runs them: what its ranks exchange around experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction

from evaluator.graph.operators import CollectiveExtents, Operator, OperatorSet
from evaluator.same_objects import SameObjects

NVFP4 = "NVFP4"
NARROWER = Fraction(32, 9)  # 16 bits over 4, and a scale of 8 for each 16 values


@SameObjects
def own_experts(operators: OperatorSet, replicas: int, once: bool) -> OperatorSet:
    """Of an engine with `replicas` of attention: one exchanges nothing, and with `once` a token goes once."""
    exchanged = without_exchange if replicas == 1 else exchanged_once if once else gathered_once
    return replace(
        operators,
        operators=exchanged(operators.operators),
        draft_operators=exchanged(operators.draft_operators),
    )


_EXCHANGES = ("mlp.dispatch", "mlp.gather", "mlp.all_gather")


def without_exchange(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """The operators of a step whose ranks all hold every token: engines without attention data parallelism run their
    own experts on all of them and add up, in the all-reduce that sums the shared experts or in one of its own.

    Source: SGLang's and vLLM's expert parallel layers without data parallel attention. Left out: nothing is saved on
    the gate, which then runs on every rank."""
    dropped = [one for one in operators if one.label.endswith(_EXCHANGES)]
    if not dropped:
        return tuple(operators)
    kept = [one for one in operators if one not in dropped]
    if any(one.label.endswith("shared_experts.all_reduce") for one in kept):
        return tuple(kept)
    # gpt-oss: 18 layers with a window and 18 without are two groups, and experts of all 36 are added up.
    groups = {one.label.partition(".")[0]: one.counts for one in dropped}
    counts = tuple(sum(stage) for stage in zip(*groups.values(), strict=True))
    sums = [one for one in kept if one.label.endswith("attention_all_reduce") and one.kind == "all_reduce"]
    return (*kept, *(replace(one, label="experts.all_reduce", counts=counts) for one in sums[-1:]))


def gathered_once(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """The operators of a step whose attention replicas share slices of experts: engines gather every token once, sort
    its rows out on each rank and scatter one sum a token; the operators move a row for each expert of a token.

    Source: TensorRT-LLM's and SGLang's gather and reduce-scatter around experts behind data parallel attention."""
    copies = max((one.experts.experts_per_token for one in operators if one.experts is not None), default=1)
    return tuple(
        replace(one, collective=_divided(one.collective, copies))
        if one.kind in {"all_gather", "reduce_scatter"} and one.label.endswith(("mlp.dispatch", "mlp.gather"))
        else one
        for one in operators
    )


def exchanged_once(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """The operators of a step whose tokens go once to each device that holds some of their experts.

    They go in the experts' format where that is NVFP4, and come back as one sum from each device.
    Of R devices a token's k experts reach R (1 - (1 - 1/R)^k) under even routing; operators move k rows in 16 bits.
    Source: TensorRT-LLM's exchange when quantised (tensorrt_llm/_torch/modules/fused_moe, `use_postquant_alltoall`).
    DeepEP sends as often: its times on H100 and H200 are nearer so (tests/evaluator/test_step_tables.py)."""
    narrow = any(one.weight_format == NVFP4 and one.experts is not None for one in operators)
    return tuple(
        replace(one, collective=_divided(one.collective, _parts(one, narrow=narrow)))
        for one in gathered_once(operators)
    )


def _parts(operator: Operator, *, narrow: bool) -> Fraction:
    parts, experts = Fraction(1), operator.experts
    if operator.kind == "all_to_all" and experts is not None:
        # 8 experts of a token on 4 devices are on 4 (1 - 0.75^8) = 3.6 of them.
        reached = experts.ranks * (1 - Fraction(experts.ranks - 1, experts.ranks) ** experts.experts_per_token)
        parts = experts.experts_per_token / reached
    return parts * NARROWER if narrow and operator.label.endswith("mlp.dispatch") else parts


def _divided(collective: CollectiveExtents | None, parts: int | Fraction) -> CollectiveExtents | None:
    if collective is None:
        return None
    payload = collective.payload_bytes
    moved = replace(payload, **{item.name: Fraction(getattr(payload, item.name)) / parts for item in fields(payload)})
    return replace(collective, payload_bytes=moved)
