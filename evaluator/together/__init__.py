"""Scenarios that differ in their workload alone, evaluated side by side: the same numbers in fewer calls.

Not here: one scenario (evaluator.evaluate), and which scenarios a sweep has (evaluator.request)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.together.grouping import AskedSizes as AskedSizes
    from evaluator.together.readying import Readying as Readying
    from evaluator.together.readying import ReadyScenario as ReadyScenario
    from evaluator.together.readying import capture as capture
    from evaluator.together.readying import captures as captures
    from evaluator.together.readying import wanted_captures as wanted_captures
    from evaluator.together.side_evaluation import Ranged as Ranged
    from evaluator.together.side_evaluation import SideBySideWarning as SideBySideWarning
    from evaluator.together.side_evaluation import batch_ranges as batch_ranges
    from evaluator.together.side_evaluation import evaluate_many as evaluate_many
    from evaluator.together.side_evaluation import side_faults as side_faults

__getattr__, __dir__ = lazy_face(__name__)
