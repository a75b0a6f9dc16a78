"""Requests one by one, of a log or a load, in few bytes."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.errors import StoreError
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_COLUMNS = ("sent_us", "prompt", "answer", "ttft_us", "e2e_us")
NEVER = -1  # a time that a log does not have, and every time of a request that failed
_WIDTH = 8  # bytes of a number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRequests:
    """In the order of a log: microseconds since the first was sent, tokens, microseconds each.

    `duration_s` is the run's, where its file says so; not stored."""

    sent_us: NDArray[np.int64]
    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]
    ttft_us: NDArray[np.int64]
    e2e_us: NDArray[np.int64]
    duration_s: float | None = None

    @property
    def completed(self) -> NDArray[np.bool_]:
        return self.e2e_us >= 0

    @property
    def timed(self) -> bool:
        return bool((self.sent_us >= 0).all())

    @property
    def ttft_ms(self) -> NDArray[np.float64]:
        return self.ttft_us[self.completed] / 1000

    @property
    def e2e_ms(self) -> NDArray[np.float64]:
        return self.e2e_us[self.completed] / 1000

    @property
    def tpot_ms(self) -> NDArray[np.float64]:
        """After the first token, of completed requests; 0 for answers of one token."""
        # 300 ms with the first token after 100 and 5 tokens: 50 ms.
        import numpy as np

        gained = self.answer[self.completed] - 1
        return np.where(gained > 0, (self.e2e_ms - self.ttft_ms) / np.maximum(gained, 1), 0.0)

    @property
    def span_s(self) -> float | None:
        """As the file says, else from first sending to last end."""
        if self.duration_s or not self.timed or not self.completed.any():
            return self.duration_s
        return float((self.sent_us + self.e2e_us)[self.completed].max()) * 1e-6

    @property
    def sent_per_s(self) -> float | None:
        last = float(self.sent_us[-1]) * 1e-6 if self.timed and self.sent_us.size else 0.0
        return (self.sent_us.size - 1) / last if last > 0.0 else None


def pack_requests(requests: MeasuredRequests) -> bytes:
    return pack_columns([getattr(requests, name) for name in _COLUMNS])


def unpack_requests(packed: bytes) -> MeasuredRequests:
    columns = unpack_columns(
        packed, len(_COLUMNS), "The requests of a measured point", hint="Run: sweepdb measurements import FILE"
    )
    return MeasuredRequests(**dict(zip(_COLUMNS, columns, strict=True)))


def pack_columns(columns: Sequence[NDArray[np.int64]]) -> bytes:
    """Differences down each column, low bytes first, compressed."""
    import numpy as np

    rows = np.stack(columns)
    steps = np.diff(rows, axis=1, prepend=np.zeros((len(columns), 1), dtype=np.int64))
    planes = np.frombuffer(steps.astype("<i8").tobytes(), dtype=np.uint8).reshape(-1, _WIDTH).T
    return zlib.compress(planes.tobytes(), 6)


def unpack_columns(packed: bytes, count: int, whose: str, *, hint: str = "Run: sweepdb db check") -> NDArray[np.int64]:
    import numpy as np

    try:
        plain = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
        steps = plain.reshape(_WIDTH, -1).T.copy().view("<i8").reshape(count, -1)
    except (zlib.error, ValueError) as error:
        raise StoreError(f"{whose} cannot be read: {error}.", hint=hint) from error
    return np.cumsum(steps, axis=1, dtype=np.int64)


KEPT_COLUMNS = ("arrival_us", "prompt", "answer", "ttft_us", "tpot_us", "worst_gap_us", "preempted")
REJECTED = -1  # every time of a request that was turned away


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptRequests:
    """In order of arrival: microseconds from the start, tokens, times of steps, preemptions.

    As in cells, TTFT excludes what no step takes."""

    arrival_us: NDArray[np.int64]
    prompt: NDArray[np.int64]
    answer: NDArray[np.int64]
    ttft_us: NDArray[np.int64]
    tpot_us: NDArray[np.int64]
    worst_gap_us: NDArray[np.int64]
    preempted: NDArray[np.int64]


def pack_kept(requests: KeptRequests) -> bytes:
    return pack_columns([getattr(requests, name) for name in KEPT_COLUMNS])


def unpack_kept(packed: bytes) -> KeptRequests:
    columns = unpack_columns(packed, len(KEPT_COLUMNS), "The requests of a load")
    return KeptRequests(**dict(zip(KEPT_COLUMNS, columns, strict=True)))


def kept_digest(load_key: str, packed: bytes) -> str:
    try:
        plain = zlib.decompress(packed)
    except zlib.error as error:
        raise StoreError(f"The requests of load {load_key[:12]} cannot be read: {error}.") from error
    return hashlib.sha256(load_key.encode() + plain).hexdigest()
