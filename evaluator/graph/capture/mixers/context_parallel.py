"""Context parallelism: decode ranks hold every n-th key, and groups divide a prompt's new tokens.

Decode: vLLM's Context Parallel Deployment (docs.vllm.ai/en/latest/serving/context_parallel_deployment), SGLang's
`--dcp-size`; results are merged as in Milakov and Gimelshein 2018, Online normalizer calculation for softmax. A rank
attends with its group's query heads to its own tokens. A prompt's ranks attend with their own heads to all, and gather
what the cache holds first.

Prefill: docs.sglang.io/docs/advanced_features/prefill_cp. New keys and values are gathered before they are written, so
every group keeps all. A zigzag gives each share the same pairs. Left out: ring attention, which vLLM's design names
for very long prompts, and padding to whole shares."""

from __future__ import annotations

from collections.abc import Callable

from evaluator.graph.capture.blocks import Step, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor


def written_share(step: Step, *parts: Tensor) -> list[Tensor]:
    """New keys that this device keeps; where groups divide a prompt, it gathers theirs first."""
    if prompt_shares(step) > 1:
        with step.recorder.within("prompt_all_gather"):
            parts = tuple(operators.all_gather(part, 0, step.plan.pcp, step.plan.tp) for part in parts)
    return [part[: part.shape[0] // step.plan.dcp] for part in parts]


def prompt_shares(step: Step) -> int:
    """1 in a decode, which is the same in all groups."""
    return step.plan.pcp if step.request.trace == "prefill" else 1


def gather_context(step: Step, entry: int) -> None:
    """`entry` numbers for each prompt token that others of the group keep."""
    if step.plan.dcp == 1 or step.request.trace == "decode":
        return
    own = (step.point.keys - step.point.tokens * step.plan.pcp) // step.plan.dcp
    kept = Kind.INT8 if step.request.kv_bits == 8 else Kind.BF16
    with step.recorder.within("context_all_gather", per_phase=True):
        operators.all_gather(meta_tensor(own, entry, dtype=kept), 0, step.plan.dcp, 1)


def attended_in_parts(step: Step, query: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
    """All of the group's heads on this device's tokens, then the sum of parts.

    Parts are weighed by the softmax's denominator, whose logarithm all ranks learn. Left out: engines that send parts
    all to all."""
    group = step.plan.dcp
    if group == 1 or step.request.trace == "prefill":
        return attend(query)
    tokens, heads = query.shape[:2]
    with step.recorder.within("query_all_gather", per_phase=True):
        every = operators.all_gather(query, 1, group, 1)
    with step.recorder.within("", shares=group):
        part = attend(every)
    with step.recorder.within("denominator_all_gather", per_phase=True):
        operators.all_gather(meta_tensor(tokens, heads * group, dtype=Kind.FP32), 0, group, 1)
    with step.recorder.within("denominator_scale", per_phase=True):
        part = pointwise("multiply", part, meta_tensor(tokens, heads * group, 1, dtype=Kind.FP32))
    with step.recorder.within("output_reduce_scatter", per_phase=True):
        rows = operators.reduce_scatter(part.view(tokens * heads * group, part.shape[2]), group, 1)
    return rows.view(tokens, heads, part.shape[2])
