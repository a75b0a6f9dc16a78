"""Traces our own blocks with arrays that have shapes alone.

What ships or is stored need not be traced (evaluator.graph.shipped)."""

from __future__ import annotations

from evaluator.graph.capture.capture_request import CAPTURE_VERSION, CaptureRequest
from evaluator.graph.operators import OperatorSet

__all__ = ["CAPTURE_VERSION", "CaptureRequest", "capture_operators"]


def capture_operators(request: CaptureRequest) -> OperatorSet:
    """Always traces, even what ships."""
    from evaluator.graph.capture.trace import trace

    return trace(request)
