"""Records of requests that arrive, which cross the store's border: plain and frozen, no SQLAlchemy.

Not here: every other record (store.records)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.schema.closed_sets import LoadStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from store.loads.kept_requests import KeptRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRecord:
    """A stream of requests at one a second."""

    key: str
    process: str
    requests: int
    seed: int
    cv: float
    trace_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """A scenario played at one rate. `cells` has a row for each cell: bins of TTFT and TPOT, and counts of five
    batches; `gaps` one for each bin that has any: bin and count. `parts` has rows of metric (0 TTFT, 1 TPOT), part
    (16 to a bin) and requests, of bins that do not hold them evenly; None as none.
    `requests` are None where only distributions are kept."""

    key: str
    settings_key: str
    arrivals_per_s: float
    saturation_per_s: float
    play_seats: int
    kv_tokens: int
    kv_admission: str
    dispatch: str
    reject_ms: float | None
    counted_requests: int
    rejected: int
    preempted: int
    load_status: LoadStatus
    in_flight: float
    busy_share: float
    generated_per_s: float
    ttft_mean_ms: float
    load_tpot_mean_ms: float
    outside_ms: float
    cells: NDArray[np.int64]
    gaps: NDArray[np.int64]
    hit_rate: float | None = None
    prefill_policy: str | None = None
    pool_instances: int | None = None
    cache_blocks: int | None = None
    balance_threshold: float | None = None
    rejected_prompt_share: float | None = None
    reject_tbt_ms: float | None = None
    trace_caches: str | None = None
    device_prefix_share: float | None = None
    host_prefix_share: float | None = None
    ssd_prefix_share: float | None = None
    remote_prefix_share: float | None = None
    requests: KeptRequests | None = None
    parts: NDArray[np.int64] | None = None
