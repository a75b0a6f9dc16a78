"""Serving formulas: from step times to TTFT, TPOT, makespan.

Not here: step times (evaluator.pricing.step), workload files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.restore import ENGINE_OWNER as ENGINE_OWNER
    from evaluator.restore import keep_engine as keep_engine
    from evaluator.restore import stored_engine as stored_engine
    from evaluator.serving.engine.in_step import APART as APART
    from evaluator.serving.engine.in_step import DRIFTING as DRIFTING
    from evaluator.serving.interface import Run as Run
    from evaluator.serving.models import list_serving_models as list_serving_models
    from evaluator.serving.models import serving_model_of as serving_model_of
    from evaluator.serving.occupancy import cache_bytes as cache_bytes
    from evaluator.serving.pairs import PROMPTS_PER_USER as PROMPTS_PER_USER
    from evaluator.serving.pairs import DecodeSide as DecodeSide
    from evaluator.serving.pairs import PairLoad as PairLoad
    from evaluator.serving.pairs import PrefillSide as PrefillSide
    from evaluator.serving.pairs import moving_bytes_per_s as moving_bytes_per_s
    from evaluator.serving.pairs import pair_times as pair_times
    from evaluator.serving.pairs import transfer_ms as transfer_ms

__getattr__, __dir__ = lazy_face(__name__)
