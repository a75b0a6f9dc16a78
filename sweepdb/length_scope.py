"""Input length of a question: a number, a file of length bins, or a name."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import InputError
from store.light_dataclass import NamedTuple
from store.location import parse_url
from store.reading import read_transaction

if TYPE_CHECKING:
    from evaluator.inputs import LengthBin

_BINS = (
    "SELECT w.key, b.min_input_length, b.max_input_length, b.input_length, b.weight, b.output_length"
    " FROM workload w JOIN workload_bin b ON b.workload_id = w.id ORDER BY w.id, b.bin_index"
)
_Row = tuple[float, ...]
_SHOWN = 200  # letters of a name


class _Bin(NamedTuple):
    workload_key: str
    min_input_length: float
    max_input_length: float
    input_length: float
    weight: float
    output_length: float


def with_lengths(given: Mapping[str, object], store_url: str | None) -> dict[str, object]:
    """A file stands for stored workloads with its bins, of any token budget.

    Other texts are names."""
    asked = given.get("input_length")
    if not isinstance(asked, str | os.PathLike) or str(asked).isdecimal():
        return dict(given)
    text, others = str(asked), {name: value for name, value in given.items() if name != "input_length"}
    if _is_there(text):
        length = given.get("output_length")
        return {
            **others,
            "workload_keys": _keys_of(text, length if isinstance(length, int | float) else None, store_url),
        }
    if given.get("workload") is not None:
        raise InputError(f"`input_length={text[:_SHOWN]}`: not a whole number, and no such file")
    return {**others, "workload": text}


def _is_there(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:
        return False


def _keys_of(text: str, output_length: float | None, store_url: str | None) -> tuple[str, ...]:
    from evaluator.inputs import load_distribution

    # Without an output length, and where the file has none of its own, any is meant.
    bins = load_distribution(Path(text), output_length=math.nan if output_length is None else output_length)
    keys = tuple(key for key, rows in _stored_bins(store_url).items() if _alike(bins, rows))
    if not keys:
        raise InputError(
            f"nothing is stored of the length distribution {text}",
            hint=f"evaluate it with: sweepdb evaluate MODEL `input_length={text}` `output_length=TOKENS`",
        )
    return keys


def _stored_bins(store_url: str | None) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = defaultdict(list)
    with read_transaction(parse_url(store_url)) as transaction:
        for row in transaction.rows(_Bin, _BINS):
            found[row.workload_key].append(row[1:])
    return found


def _alike(bins: Sequence[LengthBin], stored: Sequence[_Row]) -> bool:
    wanted = [
        (item.min_input_length, item.max_input_length, item.input_length, item.weight, item.output_length)
        for item in bins
    ]
    return len(wanted) == len(stored) and all(
        math.isnan(mine) or math.isclose(mine, theirs, rel_tol=1e-9)
        for ours, row in zip(wanted, stored, strict=True)
        for mine, theirs in zip(ours, row, strict=True)
    )
