"""The input length of a question: a number, the stored workloads of a file of length bins, or a name."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store.errors import InputError
from store.location import parse_url
from store.reading import read_transaction

if TYPE_CHECKING:
    from evaluator.inputs.workloads.workload import LengthBin

_BINS = (
    "SELECT w.key, b.min_input_length, b.max_input_length, b.input_length, b.weight, b.output_length"
    " FROM workload w JOIN workload_bin b ON b.workload_id = w.id ORDER BY w.id, b.bin_index"
)
_Row = tuple[float, ...]


class _Bin(NamedTuple):
    workload_key: str
    min_input_length: float
    max_input_length: float
    input_length: float
    weight: float
    output_length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthScope:
    """The part of a question's scope that it stands for: one of the three."""

    input_length: int | None = None
    workload: str | None = None
    workload_keys: tuple[str, ...] = ()


def length_scope(text: str | None, output_length: float | None, store_url: str | None) -> LengthScope:
    """A whole number as it is; else every workload with a file's bins, of any token budget; else a workload's name."""
    if text is None:
        return LengthScope()
    if text.isdecimal():
        return LengthScope(input_length=int(text))
    if not Path(text).exists():
        return LengthScope(workload=text)
    from evaluator.inputs.workloads.lengths import load_distribution  # questions without a file need nothing of it

    # Without an output length, and where the file has none of its own, any is meant.
    bins = load_distribution(Path(text), output_length=math.nan if output_length is None else output_length)
    keys = tuple(key for key, rows in _stored_bins(store_url).items() if _alike(bins, rows))
    if not keys:
        raise InputError(
            f"nothing is stored of the length distribution {text}",
            hint=f"evaluate it with: sweepdb evaluate MODEL `input_length={text}` `output_length=TOKENS`",
        )
    return LengthScope(workload_keys=keys)


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
