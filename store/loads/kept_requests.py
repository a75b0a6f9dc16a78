"""Every request of a load, one by one, where they are kept: few bytes in the store, and their digest.

Not here: distributions (store.loads.packed_rows), and requests of logs (store.loads.measured_requests)."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.errors import StoreError
from store.loads.measured_requests import pack_columns, unpack_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT_COLUMNS = ("arrival_us", "prompt", "answer", "ttft_us", "tpot_us", "worst_gap_us", "preempted")
REJECTED = -1  # every time of a request that was turned away


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptRequests:
    """The requests that count, in the order of arrival: microseconds from the start of the play, tokens, times of steps
    in microseconds, and how often each lost its keys. As in cells, what no step takes is in no TTFT."""

    arrival_us: NDArray[np.int64]
    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]
    ttft_us: NDArray[np.int64]
    tpot_us: NDArray[np.int64]
    worst_gap_us: NDArray[np.int64]
    preempted: NDArray[np.int64]


def pack_kept(requests: KeptRequests) -> bytes:
    """As few bytes."""
    return pack_columns([getattr(requests, name) for name in KEPT_COLUMNS])


def unpack_kept(packed: bytes) -> KeptRequests:
    """The requests again."""
    columns = unpack_columns(packed, len(KEPT_COLUMNS), "The requests of a load")
    return KeptRequests(**dict(zip(KEPT_COLUMNS, columns, strict=True)))


def kept_digest(load_key: str, packed: bytes) -> str:
    """Of a load's key and of the bytes before compression."""
    try:
        plain = zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"The requests of load {load_key[:12]} cannot be read: {error}.") from error
    return hashlib.sha256(load_key.encode() + plain).hexdigest()
