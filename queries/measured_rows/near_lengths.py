"""Lengths that clients count differ a little between repeated runs: which of them are those of one setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.sealing import put_temporary

if TYPE_CHECKING:
    import duckdb

Lengths = tuple[float | None, float | None]  # of prompts and answers; None where it is not known

_COUNTED = 0.02  # that lengths of one setting may differ by, as in sweepdb compare
_PAIRS = "SELECT input_length, output_length, count(*) FROM raw.measurement GROUP BY ALL"
_MOVED = [(f"{name}_{end}", "DOUBLE") for end in ("said", "meant") for name in ("input", "output")]
# Views of settings see these points in place of all.
SEEN = """
    CREATE TEMP TABLE measurement AS
    SELECT
        told.* EXCLUDE (metrics, definitions, extra, flags)
            REPLACE (coalesce(input_meant, input_length) AS input_length,
                coalesce(output_meant, output_length) AS output_length)
    FROM main.measurement AS told
    LEFT JOIN moved_length ON input_said IS NOT DISTINCT FROM input_length
        AND output_said IS NOT DISTINCT FROM output_length
"""
_OF_KEYS = " SEMI JOIN side_run USING (key)"


@contextmanager
def runs_meet(connection: duckdb.DuckDBPyConnection, keys: Sequence[str] | None = None) -> Iterator[None]:
    """Have views of settings take runs of nearly the same counted lengths as runs of one; of some `keys` alone."""
    found = connection.execute(_PAIRS).fetchall()
    moved = counted_as({(prompt, answer): count for prompt, answer, count in found})
    if keys is None and not moved:
        yield
        return
    put_temporary(connection, "moved_length", _MOVED, [(*said, *meant) for said, meant in moved.items()])
    put_temporary(connection, "side_run", [("key", "VARCHAR")], [(key,) for key in keys or ()])
    connection.execute(SEEN if keys is None else SEEN + _OF_KEYS)
    try:
        yield
    finally:
        connection.execute("DROP TABLE temp.measurement")


def counted_as(runs: Mapping[Lengths, int]) -> dict[Lengths, Lengths]:
    """Meaning of counted lengths: whole ones near them, else the near ones that most runs have.

    Whole lengths were asked for and mean themselves, as all do that are not among these."""
    if not any(map(_is_counted, runs)):
        return {}
    ordered = sorted(runs, key=lambda pair: (_is_counted(pair), -runs[pair], *map(str, pair)))
    found = joined(ordered, _COUNTED, whole=[not _is_counted(pair) for pair in ordered])
    return {pair: ordered[place] for pair, place in zip(ordered, found, strict=True) if ordered[place] != pair}


def _is_counted(pair: Lengths) -> bool:
    return any(length is not None and not length.is_integer() for length in pair)


def joined(pairs: Sequence[Lengths], near: float, *, whole: Iterable[bool] | None = None) -> list[int]:
    """The place of the pair that stands for each: the first of those that differ by so little. `whole` ones stay."""
    import numpy as np

    logs = np.log(np.maximum(np.array(pairs, dtype=np.float64).reshape(-1, 2), 1.0))  # of an unknown length NaN
    stays = np.zeros(len(pairs), dtype=bool) if whole is None else np.array(list(whole), dtype=bool)
    places = np.full(len(pairs), -1, dtype=np.int64)
    for first in range(len(pairs)):
        if places[first] < 0:
            apart = np.abs(logs - logs[first])
            alike = (apart <= np.log1p(near)) | (np.isnan(logs) & np.isnan(logs[first]))
            places[(places < 0) & ~stays & alike.all(axis=1)] = first
            places[first] = first
    return [int(place) for place in places]


def met(pairs: Iterable[Lengths]) -> list[Lengths]:
    """The lengths of runs, one each, as their settings have them."""
    listed = list(pairs)
    meant = counted_as(Counter(listed))
    return [meant.get(pair, pair) for pair in listed]
