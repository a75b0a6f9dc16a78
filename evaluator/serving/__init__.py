"""From step times to TTFT, TPOT and makespan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.restore import ENGINE_OWNER, keep_engine, stored_engine
    from evaluator.serving.engine.in_step import APART, DRIFTING
    from evaluator.serving.interface import Run
    from evaluator.serving.models import list_serving_models, serving_model_of
    from evaluator.serving.occupancy import cache_bytes
    from evaluator.serving.pairs import (
        PROMPTS_PER_USER,
        DecodeSide,
        PairLoad,
        PairTimes,
        PrefillSide,
        burst_ms,
        first_token_ms,
        left_over_ms,
        moving_bytes_per_s,
        others_load,
        pair_of_users,
        pair_times,
        queueing_ms,
        transfer_ms,
    )

__getattr__, __dir__ = lazy_face(__name__)
