"""Simulations of requests that arrive, under continuous batching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.arrivals.day.days import DayPlayer, PairPlayer, TimeLimits
    from evaluator.arrivals.day.scaling import (
        LimitsUnmetError,
        QueueTarget,
        Scaled,
        Scaling,
        fewest_by_hour,
        peaks,
        reactive,
        scheduled,
        static,
    )
    from evaluator.arrivals.histograms import edges_ms
    from evaluator.arrivals.load_rows import arrival_record, is_stream, load_key
    from evaluator.arrivals.loads import SEATS, PlaySettings, unplayable
    from evaluator.arrivals.playing import has_compiled_play
    from evaluator.arrivals.prefix_pools import PoolSettings
    from evaluator.arrivals.streams import ArrivalKind, ArrivalProcess
    from evaluator.arrivals.sweeping import ArrivalRequest, replayed_times, scenario_loads
    from evaluator.arrivals.trace_caches import CacheRoom

__getattr__, __dir__ = lazy_face(__name__)
