"""Rows of small integers in few bytes."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from store.errors import StoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_STEP = 1 << 15
PARTS_OF_A_BIN = 16
_CELL_COLUMNS, _BIN_COLUMNS = 7, 2  # two bins, five batches; neighbours have bins near each other, not counts
_PARTED = 10_000  # above every bin
_HIGH, _PARTS = 14, 4  # bits of each part of a large count, and how many there are


def pack_rows(rows: NDArray[np.int64], *, stepped: int | None = None) -> bytes:
    """Differences by column, low bytes first, compressed.

    `stepped` first columns are differences, others as they are; a byte before says so, which makes the length odd."""
    import numpy as np

    steps = rows.astype(np.int64)
    steps[:, :stepped] = np.diff(steps[:, :stepped], axis=0, prepend=0)
    if rows.size and int(np.abs(steps).max()) >= _LARGEST_STEP:
        raise ValueError("a number is too large to be packed")
    planes = np.frombuffer(steps.T.astype("<i2").tobytes(), dtype=np.uint8).reshape(-1, 2).T
    head = b"" if stepped is None else bytes([stepped])
    return zlib.compress(head + planes.tobytes(), 9)


def unpack_rows(packed: bytes, columns: int) -> NDArray[np.int64]:
    import numpy as np

    try:
        plain = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
        stepped = columns
        if plain.size % 2:
            stepped, plain = int(plain[0]), plain[1:]
        steps = plain.reshape(2, -1).T.copy().view("<i2").reshape(columns, -1).T.astype(np.int64)
    except (zlib.error, ValueError) as error:
        raise StoreError(
            f"A load of this store cannot be read: {error}.", hint="Run: sweepdb db check, or evaluate into a new store"
        ) from error
    steps[:, :stepped] = np.cumsum(steps[:, :stepped], axis=0)
    return steps


def pack_cells(cells: NDArray[np.int64], parts: NDArray[np.int64] | None) -> bytes:
    """Then the parts of bins: rows whose first number names the metric."""
    import numpy as np

    if parts is None or not parts.size:
        return pack_rows(cells, stepped=_BIN_COLUMNS)
    rows = np.zeros((parts.shape[0], _CELL_COLUMNS), dtype=np.int64)
    rows[:, 0], rows[:, 1] = _PARTED + parts[:, 0], parts[:, 1]
    rows[:, 2], rows[:, 3] = parts[:, 2] & ((1 << _HIGH) - 1), parts[:, 2] >> _HIGH
    return pack_rows(np.concatenate((cells, rows)), stepped=_BIN_COLUMNS)


def unpack_cells(packed: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np

    rows = unpack_rows(packed, _CELL_COLUMNS)
    cells, others = rows[rows[:, 0] < _PARTED], rows[rows[:, 0] >= _PARTED]
    return cells, np.column_stack((others[:, 0] - _PARTED, others[:, 1], others[:, 2] + (others[:, 3] << _HIGH)))


def split_counts(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """(bin, large count) as the bin and the count in parts of 14 bits."""
    import numpy as np

    parts = [(rows[:, 1] >> (_HIGH * part)) & ((1 << _HIGH) - 1) for part in range(_PARTS)]
    return np.column_stack((rows[:, 0], *parts))


def whole_counts(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    return np.column_stack((rows[:, 0], sum(rows[:, 1 + part] << (_HIGH * part) for part in range(_PARTS))))
