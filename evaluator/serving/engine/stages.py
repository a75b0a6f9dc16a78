"""Pipeline stages as one table of steps: a step is a round, in which every micro-batch passes all stages once.

Engines keep as many micro-batches in flight as there are stages, each with its own requests:
* vLLM queues that many scheduled batches. Each takes requests that are in none of the others, and the next part of a
  prompt that is in one (github.com/vllm-project/vllm, vllm/v1/engine/core.py, `step_with_batch_queue`).
* SGLang goes through them in turn, each of at most `max_running_requests` / stages (github.com/sgl-project/sglang,
  python/sglang/srt/managers/scheduler_pp_mixin.py, `event_loop_pp`).
* TensorRT-LLM, too; what `inflight_req_ids` names is in no other (github.com/NVIDIA/TensorRT-LLM,
  tensorrt_llm/_torch/pyexecutor/py_executor.py, `_executor_loop_pp`).

A micro-batch enters again when it is through all stages, and none passes another. A round of m equal ones takes the
longer of one way through all stages and m times the slowest stage: with fewer of them than stages, stages wait (the
bubble). Sending to the next stage is time of the stage that sends. Tests hold rounds to a play with a clock. Left out:
micro-batches that differ because their requests came together, prompts that begin in the midst of a round, and that
parts of one prompt wait for each other in TensorRT-LLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator, OperatorSet
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import Span
from evaluator.pricing.cost_model import CostModel
from evaluator.serving.engine.request_kinds import weights_of
from evaluator.serving.engine.step_tables import SPACING, StepTable, TableExtents, step_table

TOGETHER = 2  # prompts that a micro-batch takes before another one gets any: what comes in a long step enters together


def in_rounds(engine: EngineProfile, plan: Plan) -> EngineProfile:
    return replace(engine, token_budget=plan.pp * engine.token_budget)


def round_table(
    operators: Mapping[str, OperatorSet],
    cost: CostModel,
    extents: TableExtents,
    token_budget: int,
    *,
    node_devices: int = 1,
    windows: Sequence[Span] = (),
    encoding_s: float = 0.0,
) -> StepTable:
    """The table of a model under a plan, whose rounds take `token_budget` tokens; of one stage its steps.

    Stages fill one node of `node_devices` after the other, and the last of a node sends to the next node."""
    stages = operators["prefill"].stages
    if stages == 1:
        return step_table(operators, cost, extents, windows=windows, encoding_s=encoding_s)
    budget = token_budget // stages
    mine = replace(
        extents,
        tokens=max(budget, -(-extents.tokens // stages)) + SPACING,
        sequences=-(-extents.sequences // stages),
    )
    tables = [
        step_table(
            {name: _of_stage(one, stage, node_devices) for name, one in operators.items()},
            cost,
            mine,
            windows=windows,
            encoding_s=encoding_s * (stage == 0),  # images are encoded where prompts begin
        )
        for stage in range(stages)
    ]
    return table_of_rounds(tables, budget, extents)


def _of_stage(operators: OperatorSet, stage: int, node_devices: int) -> OperatorSet:
    def here(every: Sequence[Operator]) -> tuple[Operator, ...]:
        return tuple(_sent_on(one, stage, node_devices) for one in every if one.counts[stage])

    return replace(
        operators,
        stages=1,
        operators=here(operators.operators),
        draft_operators=here(operators.draft_operators),
    )


def _sent_on(operator: Operator, stage: int, node_devices: int) -> Operator:
    """An operator of one stage. What it sends to the next one crosses nodes where the stage is the last of its own."""
    here, sent = replace(operator, counts=(operator.counts[stage],)), operator.collective
    if operator.kind != "send_receive" or sent is None:
        return here
    # Four stages of 4 devices on nodes of 8: the second one's neighbours are on the other node.
    crosses = (stage + 1) * sent.stride % node_devices == 0
    return replace(here, collective=replace(sent, stride=max(sent.stride, node_devices))) if crosses else here


def table_of_rounds(tables: Sequence[StepTable], budget: int, extents: TableExtents) -> StepTable:
    linear_decode, own = _decoding(tables, extents.sequences)
    attention = np.stack([one.attention for one in tables])
    slowest = attention.max(axis=0)
    waiting = attention.sum(axis=0) - slowest  # of a prompt alone, whose attention no other micro-batch's hides
    ends = slice(extents.stretches, None, extents.stretches + 1)
    weights, lengths = weights_of(extents.kinds), [kind.new_tokens for kind in extents.kinds]
    alone = float((weights * waiting[ends]).sum())
    return replace(
        tables[0],
        linear=_prompts(tables, budget, extents.tokens, float((weights * lengths).sum()), alone),
        attention=slowest,
        decode_linear=linear_decode,
        decode_own=own,
    )


def _prompts(tables: Sequence[StepTable], budget: int, tokens: int, prompt: float, alone_s: float) -> FloatArray:
    """Seconds of rounds of 0, SPACING ... tokens: one micro-batch takes some prompts at most before others get any."""
    stages = len(tables)
    nodes = np.arange(0, tokens + SPACING, SPACING, dtype=np.float64)
    # Prompts of 1,000 on 2 stages: 2,000 tokens are one micro-batch, 6,000 are two of 3,000.
    most = np.maximum(nodes / stages, np.minimum(nodes, min(budget, max(TOGETHER * prompt, SPACING))))
    batches = nodes / np.maximum(most, 1.0)
    seconds = np.stack([np.interp(most / SPACING, np.arange(one.linear.size), one.linear) for one in tables])
    together = np.maximum(seconds.sum(axis=0), batches * seconds.max(axis=0))
    # The attention table has what prompts take with all micro-batches full: the rest is of those that are not.
    idle = (1.0 / np.maximum(batches, 1.0) - 1.0 / stages) / (1.0 - 1.0 / stages)
    return np.asarray(together + nodes / prompt * alone_s * idle)


def _decoding(tables: Sequence[StepTable], most: int) -> tuple[FloatArray, FloatArray]:
    sequences = np.arange(0, most + 1, dtype=np.float64)
    batches = np.clip(sequences, 1.0, len(tables))
    each = sequences / batches
    linear, own = (
        np.stack([np.interp(each, np.arange(one.size), one) for one in column])
        for column in ([one.decode_linear for one in tables], [one.decode_own for one in tables])
    )
    slowest = (linear + own).argmax(axis=0)[None]
    paced = [batches * np.take_along_axis(part, slowest, axis=0)[0] for part in (linear, own)]
    through = [part.sum(axis=0) for part in (linear, own)]
    # Stages of 10 and 12 ms: 1 sequence takes 22 ms, and so does each of 2 in two micro-batches take 24.
    paces = paced[0] + paced[1] > through[0] + through[1]
    found = [np.where(paces, slow, whole) for slow, whole in zip(paced, through, strict=True)]
    return found[0], found[1]
