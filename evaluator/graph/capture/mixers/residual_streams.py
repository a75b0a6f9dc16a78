"""Residual streams beside each other (hyper-connections of DeepSeek-V4): what a block reads of them and writes back."""

from __future__ import annotations

from torch import Tensor

from evaluator.graph.capture.blocks import Step
from evaluator.graph.capture.library import operators, parameter


def collapsed(step: Step, label: str, streams: Tensor, *, mixing: bool = True) -> Tensor:
    """The one stream that a block sees. `mixing` also finds how its output is dealt out, and the streams mixed."""
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
    """The streams, mixed among each other, with a block's output dealt out to them."""
    with step.recorder.within(label):
        return operators.expand_streams(streams, out)
