"""Records of requests that arrive, which cross the store's border, and the digest of those committed together.

The digest is one sha256 over their scenario, stream and every number, the same on both databases and in every bundle.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from store.errors import StoreError
from store.light_dataclass import dataclass
from store.schema.declaring import LoadStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from store.loads.measured_requests import KeptRequests


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


_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedLoad:
    """A load as the store has it: its columns by name, without those of one store, and packed distributions."""

    values: Mapping[str, object]
    cells: bytes
    gaps: bytes
    requests: bytes | None = None
    requests_digest: str | None = None  # as stored; that of `requests` unless something changed them


def loads_digest(scenario_key: str, arrival_key: str, loads: Iterable[PackedLoad]) -> str:
    """Digest loads in the order of their keys. A number that is missing counts as not there, so that a column added
    later changes no digest; distributions count as they are before compression. Requests that are kept have a digest
    of their own: they may come later, and go."""
    head = {"format": _FORMAT, "scenario": scenario_key, "arrival": arrival_key}
    digest = hashlib.sha256(json.dumps(head).encode())
    for load in sorted(loads, key=lambda one: str(one.values["key"])):
        values = {name: value for name, value in load.values.items() if value is not None}
        digest.update(json.dumps(values, sort_keys=True, allow_nan=False).encode())
        for packed in (load.cells, load.gaps):
            digest.update(hashlib.sha256(_plain(packed)).digest())
    return digest.hexdigest()


def _plain(packed: bytes) -> bytes:
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"A load of this store cannot be read: {error}.", hint="Run: sweepdb db check") from error
