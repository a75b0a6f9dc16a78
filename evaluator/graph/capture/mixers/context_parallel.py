"""Context parallelism: ranks of a decode that would hold the same keys hold every n-th token of them each, and groups
of ranks compute a share of a prompt's new tokens each.

Sources: vLLM's Context Parallel Deployment (docs.vllm.ai/en/latest/serving/context_parallel_deployment) and SGLang's
`--dcp-size`; partial results are put together as in Milakov and Gimelshein 2018, Online normalizer calculation for
softmax. Of a decode every rank attends with the query heads of its whole group to its own tokens. Of a prompt each
attends with its own heads to all, and what the cache holds of it is gathered first.

Prefill context parallelism as SGLang documents it (docs.sglang.io/docs/advanced_features/prefill_cp): new keys and
values are gathered over the groups before they are written, so that every group keeps all of them and a decode is the
same in each. Shares are laid out as a zigzag, so that each has the same pairs. Left out: keys passed around a ring
while others are attended to, which vLLM's design names for very long prompts, and padding to whole shares."""

from __future__ import annotations

from collections.abc import Callable

from evaluator.graph.capture.blocks import Step, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor


def written_share(step: Step, *parts: Tensor) -> list[Tensor]:
    """The share of new keys and values that this device keeps. Where a prompt is divided, it gathers those of other
    groups first."""
    if prompt_shares(step) > 1:
        with step.recorder.within("prompt_all_gather"):
            parts = tuple(operators.all_gather(part, 0, step.plan.pcp, step.plan.tp) for part in parts)
    return [part[: part.shape[0] // step.plan.dcp] for part in parts]


def prompt_shares(step: Step) -> int:
    """Groups that divide the new tokens of this trace: a decode's are the same in all of them."""
    return step.plan.pcp if step.request.trace == "prefill" else 1


def gather_context(step: Step, entry: int) -> None:
    """Fetch the tokens that others of the group keep of prompts, `entry` numbers each, beside those that are new."""
    if step.plan.dcp == 1 or step.request.trace == "decode":
        return
    own = (step.point.keys - step.point.tokens * step.plan.pcp) // step.plan.dcp
    kept = Kind.INT8 if step.request.kv_bits == 8 else Kind.BF16
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
        operators.all_gather(meta_tensor(tokens, heads * group, dtype=Kind.FP32), 0, group, 1)
    with step.recorder.within("denominator_scale", per_phase=True):
        part = pointwise("multiply", part, meta_tensor(tokens, heads * group, 1, dtype=Kind.FP32))
    with step.recorder.within("output_reduce_scatter", per_phase=True):
        rows = operators.reduce_scatter(part.view(tokens * heads * group, part.shape[2]), group, 1)
    return rows.view(tokens, heads, part.shape[2])
