"""Evaluates scenarios that differ in workload alone side by side: the same numbers in fewer calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.together.readying import Readying, ReadyScenario, capture, captures, wanted_captures
    from evaluator.together.side_evaluation import AskedSizes, Ranged, batch_ranges, evaluate_many, side_faults

__getattr__, __dir__ = lazy_face(__name__)
