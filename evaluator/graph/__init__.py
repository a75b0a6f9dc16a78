"""Operators of a forward step, with exact affine work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.graph.capture import capture_operators
    from evaluator.graph.capture.capture_request import CaptureRequest
    from evaluator.graph.operators import OperatorSet, operators_from_json, operators_to_json
    from evaluator.graph.shipped import operators_of_request, operators_text

__getattr__, __dir__ = lazy_face(__name__)
