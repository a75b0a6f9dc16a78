"""Requests that arrive: streams of arrivals, continuous batching played against a clock, and what is kept of a play."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.arrivals.histograms import edges_ms as edges_ms
    from evaluator.arrivals.load_rows import arrival_record as arrival_record
    from evaluator.arrivals.load_rows import is_stream as is_stream
    from evaluator.arrivals.load_rows import load_key as load_key
    from evaluator.arrivals.loads import PlaySettings as PlaySettings
    from evaluator.arrivals.loads import unplayable as unplayable
    from evaluator.arrivals.play_rules import Dispatch as Dispatch
    from evaluator.arrivals.play_rules import KvAdmission as KvAdmission
    from evaluator.arrivals.prefix_pools import PoolSettings as PoolSettings
    from evaluator.arrivals.prefix_pools import PrefillPolicy as PrefillPolicy
    from evaluator.arrivals.streams import ArrivalKind as ArrivalKind
    from evaluator.arrivals.streams import ArrivalProcess as ArrivalProcess
    from evaluator.arrivals.sweeping import ArrivalRequest as ArrivalRequest
    from evaluator.arrivals.sweeping import replayed_times as replayed_times
    from evaluator.arrivals.sweeping import scenario_loads as scenario_loads
    from evaluator.arrivals.trace_caches import CacheRoom as CacheRoom
    from evaluator.arrivals.trace_caches import prefix_tokens as prefix_tokens

__getattr__, __dir__ = lazy_face(__name__)
