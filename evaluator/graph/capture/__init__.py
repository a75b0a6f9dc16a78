"""Operators of a model under a plan, traced from our own blocks: arrays have shapes, and nothing is computed.

What ships or is stored need not be traced (evaluator.graph.shipped)."""

from __future__ import annotations

from evaluator.graph.capture.capture_request import CAPTURE_VERSION, CaptureRequest
from evaluator.graph.operators import OperatorSet

__all__ = ["CAPTURE_VERSION", "CaptureRequest", "capture_operators"]


def capture_operators(request: CaptureRequest) -> OperatorSet:
    """Trace the operators of `request`, whether or not they ship."""
    from evaluator.graph.capture.trace import trace

    return trace(request)
