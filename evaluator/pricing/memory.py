"""Bytes on the fullest device: weights, KV cache in blocks, peak activations.

Left out, and covered by a reserve: fragmentation, communication buffers, CUDA graphs, the allocator's slack."""

from __future__ import annotations

from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.capture.capture_request import layers_of_stages
from evaluator.graph.operators import Operator, OperatorSet
from evaluator.graph.sums import BatchSums
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import holds_shares
from evaluator.pricing.kv_state import kv_states, layer_bytes
from evaluator.same_objects import SameObjects

Paging = Literal["per_request", "pooled"]


@SameObjects
def weight_bytes(
    operators: OperatorSet, *, drafting: bool, modules: int = 1, encoder: OperatorSet | None = None, tables: int = 1
) -> int:
    """Of the fullest pipeline stage. All `modules` of MTP are loaded if `drafting`, with one embedding table.

    So many `tables` share the rows of the vocabulary."""
    chosen = [*operators.operators, *(encoder.operators if encoder is not None else ())]
    if drafting:
        chosen += operators.draft_operators
        chosen += [one for one in operators.draft_operators if one.kind != "embedding"] * (modules - 1)
    return round(max(_stage_weights(chosen, stage, tables) for stage in range(operators.stages)))


def _stage_weights(operators: list[Operator], stage: int, tables: int) -> float:
    return sum(
        operator.counts[stage]
        * float(operator.weight_bytes)
        / (tables if operator.label == "embedding" else 1)
        * (operator.experts.local_experts if operator.per_expert and operator.experts is not None else 1)
        for operator in operators
    )


def activation_bytes(operators: OperatorSet, sums: BatchSums) -> FloatArray:
    peaks = [alive.at(sums) for alive in operators.alive_bytes]
    return np.asarray(np.max(np.broadcast_arrays(*peaks), axis=0)) if peaks else np.zeros_like(sums.tokens)


def kv_bytes(
    model: ModelSpec,
    plan: Plan,
    kv_bits: int,
    tokens: FloatArray,
    requests: FloatArray,
    *,
    paging: Paging,
    drafting: bool,
) -> FloatArray:
    """On the fullest device, of `requests` requests of `tokens` tokens.

    Windows keep only themselves; constant states are kept once a request. Decode context parallelism keeps every n-th
    token. `per_request` paging rounds each request up to blocks; `pooled` the sum, as upstream does."""
    groups = (*model.layers, *model.draft_groups)
    pooled = paging == "pooled"
    per_layer = []
    for group in groups:
        shares = plan.dcp if holds_shares(group) else 1
        held = tokens if shares == 1 else np.ceil(tokens / shares)
        parts = [state.in_blocks(held, requests, pooled=pooled) for state in kv_states(group, kv_bits, plan.tp)]
        kept = parts[0] if parts else 0.0 * (tokens + requests)  # a layer of an MLP alone keeps nothing
        for part in parts[1:]:
            kept = kept + part
        per_layer.append(kept)
    stages = layers_of_stages(model, plan.pp)
    totals = []
    for stage in range(plan.pp):
        counts = [row[stage] for row in stages] + [0] * (len(groups) - len(model.layers))
        if drafting and stage == plan.pp - 1:
            counts = _with_drafts(model, counts)
        totals.append(np.sum([count * layer for count, layer in zip(counts, per_layer, strict=True)], axis=0))
    return np.asarray(np.max(totals, axis=0))


def _with_drafts(model: ModelSpec, counts: list[int]) -> list[int]:
    if model.draft_model is None:
        return [*counts[:-1], counts[-1] + model.mtp_layers]
    return [*counts[: len(model.layers)], *(group.count for group in model.draft_model.layers)]


def transfer_bytes(model: ModelSpec, kv_bits: int, prompt_tokens: float) -> float:
    """One prompt over the whole instance, each head once; windows as far as kept, drafters included."""
    drafting = () if model.draft_model is None else model.draft_model.layers
    return sum(group.count * layer_bytes(group, kv_bits, 1, prompt_tokens) for group in (*model.layers, *drafting))
