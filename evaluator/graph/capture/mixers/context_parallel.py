"""Decode context parallelism: ranks that would hold the same keys hold every n-th token of them each.

Sources: vLLM's Context Parallel Deployment (docs.vllm.ai/en/latest/serving/context_parallel_deployment) and SGLang's
`--dcp-size`; partial results are put together as in Milakov and Gimelshein 2018, Online normalizer calculation for
softmax. Of a decode every rank attends with the query heads of its whole group to its own tokens. Of a prompt each
attends with its own heads to all, and what the cache holds of it is gathered first."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evaluator.graph.capture.blocks import Step, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.recorder import meta_tensor


def written_share(step: Step, *parts: Tensor) -> list[Tensor]:
    """The share of new keys and values that this device keeps."""
    return [part[: part.shape[0] // step.plan.dcp] for part in parts]


def gather_context(step: Step, entry: int) -> None:
    """Fetch the tokens that others of the group keep of prompts, `entry` numbers each, beside those that are new."""
    if step.plan.dcp == 1 or step.request.trace == "decode":
        return
    own = (step.point.keys - step.point.tokens) // step.plan.dcp
    kept = torch.int8 if step.request.kv_bits == 8 else torch.bfloat16
    with step.recorder.within("context_all_gather", per_phase=True):
        operators.all_gather(meta_tensor(own, entry, dtype=kept), 0, step.plan.dcp, 1)


def attended_in_parts(step: Step, query: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
    """A decode's attention of all heads of the group to this device's tokens, and the sum of the group's parts.

    A part is worth its share of the softmax's denominator, whose logarithm every rank learns of all. Left out: that
    some engines send parts all to all in place of gathering and summing."""
    group = step.plan.dcp
    if group == 1 or step.request.trace == "prefill":
        return attend(query)
    tokens, heads = query.shape[:2]
    with step.recorder.within("query_all_gather", per_phase=True):
        every = operators.all_gather(query, 1, group, 1)
    with step.recorder.within("", shares=group):
        part = attend(every)
    with step.recorder.within("denominator_all_gather", per_phase=True):
        operators.all_gather(meta_tensor(tokens, heads * group, dtype=torch.float32), 0, group, 1)
    with step.recorder.within("denominator_scale", per_phase=True):
        part = pointwise("multiply", part, meta_tensor(tokens, heads * group, 1, dtype=torch.float32))
    with step.recorder.within("output_reduce_scatter", per_phase=True):
        rows = operators.reduce_scatter(part.reshape(tokens * heads * group, part.shape[2]), group, 1)
    return rows.view(tokens, heads, part.shape[2])
