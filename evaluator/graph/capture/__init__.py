"""Operators of a model under a plan, traced from our own torch blocks on the meta device.

Importing this package does not import torch: only `capture_operators` does, when it is called."""

from __future__ import annotations

from evaluator.graph.capture.capture_request import CAPTURE_VERSION, CaptureRequest
from evaluator.graph.operators import OperatorSet

__all__ = ["CAPTURE_VERSION", "CaptureRequest", "capture_operators"]


def capture_operators(request: CaptureRequest) -> OperatorSet:
    """Trace the operators of `request`. Imports torch; look `request.key` up first."""
    from evaluator.graph.capture.trace import trace

    return trace(request)
