"""Residuals of more than one stream.

Streams side by side (hyper-connections, DeepSeek-V4), or sums that end after some layers (attention residuals,
Kimi-K3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evaluator.graph.capture.blocks import Step
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Tensor, meta_tensor, parameter


def collapsed(step: Step, label: str, streams: Tensor, *, mixing: bool = True) -> Tensor:
    """The stream that a block sees; `mixing` also finds how its output is dealt out."""
    count = step.model.residual_streams
    outputs = count * (count + 2) if mixing else count
    with step.recorder.within(label):
        return operators.collapse_streams(
            streams,
            parameter(outputs, streams.shape[1]),
            parameter(outputs + (3 if mixing else 1)),
            count,
            step.model.stream_rounds if mixing else 0,
        )


def expanded(step: Step, label: str, streams: Tensor, out: Tensor) -> Tensor:
    with step.recorder.within(label):
        return operators.expand_streams(streams, out)


def ended_sums(layer: int, every: int) -> int:
    return -(-layer // every)


def held_sums(step: Step) -> Tensor | None:
    every, layers = step.model.residual_block, sum(group.count for group in step.model.layers)
    if not every:
        return None
    wide = ended_sums(layers, every) * step.model.hidden_size
    return step.recorder.hold(meta_tensor(step.point.tokens, wide))


def mix_residuals(step: Step, stages: Sequence[tuple[int, ...]]) -> None:
    """Mixtures of a step by the number of sums read, and what keeps an ended sum.

    `stages`: each group's layers (rows) by stage. The first block has one sum, and is counted like the rest."""
    every, width, model = step.model.residual_block, step.model.hidden_size, step.model
    sizes = [sum(row[stage] for row in stages) for stage in range(step.plan.pp)]
    mixtures: Counter[tuple[int, int]] = Counter()  # by sums read and stage
    ended = [0] * step.plan.pp
    stage_of = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    for layer, stage in enumerate(stage_of):
        mixtures[ended_sums(layer, every) + 1, stage] += 1
        mixtures[ended_sums(layer + 1, every) + 1, stage] += 1
        ended[stage] += layer % every == 0
    mixtures[ended_sums(len(stage_of), every) + 1, step.plan.pp - 1] += 1
    for read in sorted({read for read, _ in mixtures}):
        counts = tuple(mixtures[read, stage] for stage in range(step.plan.pp))
        with step.recorder.within(f"residuals.mixed_of_{read}", counts=counts):
            operators.mix_sums(meta_tensor(step.point.tokens, read * width), parameter(2, width))
    with step.recorder.within("residuals.ended", counts=tuple(ended)):
        operators.join([meta_tensor(step.point.tokens, model.hidden_size)], 0)


def sums_sent(step: Step, stages: Sequence[tuple[int, ...]]) -> list[int]:
    if not step.model.residual_block:
        return [1] * (step.plan.pp - 1)
    sizes = [sum(row[stage] for row in stages) for stage in range(step.plan.pp)]
    return [1 + ended_sums(sum(sizes[: stage + 1]), step.model.residual_block) for stage in range(step.plan.pp - 1)]
