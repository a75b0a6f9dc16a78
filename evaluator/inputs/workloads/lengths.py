"""Length distributions from YAML: read, checked and normalised."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.inputs.workloads.workload import LARGEST_BIN_COUNT, LengthBin
from evaluator.inputs.yaml_checking import checked_yaml, line_of
from evaluator.inputs.yaml_file import read_text
from store.errors import InputError
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from evaluator.inputs.workloads.length_file import LengthKeys

LARGEST_FILE_BYTES = 1_000_000
_CATALOGUED = re.compile(r"\"?input_sequence_length\"?\s*:")


def load_distribution(path: Path, *, output_length: float | None) -> tuple[LengthBin, ...]:
    """Weights sum to 1. Input `bins`, with output lengths given, independent (`output_bins`) or joint.

    Joint: `output_min_tokens` and `output_max_tokens` in every bin. inference-perf's catalogue has both lengths."""
    text = read_text(
        path,
        largest_bytes=LARGEST_FILE_BYTES,
        what="a length distribution",
        hint="reduce a request log with: sweepdb workloads add NAME `trace=FILE`",
    )
    if _CATALOGUED.search(text):
        from evaluator.inputs.workloads.catalogue_lengths import catalogue_bins

        return normalised(catalogue_bins(text, str(path)))
    found = _keys(text, path)
    rows = [one.model_dump(exclude_none=True) for one in found.bins]
    joint = ["output_min_tokens" in row or "output_max_tokens" in row for row in rows]
    if any(joint) and found.output_bins is not None:
        raise InputError(f"{path}: give output_bins or output_min_tokens in the bins, not both")
    file = _File(path=path, text=text)
    if any(joint):
        return _joint_bins(rows, file)
    _check_order(rows, file, "bins")
    outputs = None if found.output_bins is None else [one.model_dump() for one in found.output_bins]
    return _independent_bins(rows, _output_choices(outputs, output_length, file), file)


def normalised(bins: Sequence[LengthBin]) -> tuple[LengthBin, ...]:
    total = math.fsum(bin_.weight for bin_ in bins)
    return tuple(
        LengthBin(
            input_length=bin_.input_length,
            output_length=bin_.output_length,
            weight=bin_.weight / total,
            min_input_length=bin_.min_input_length,
            max_input_length=bin_.max_input_length,
            prefix_cache_hit_rate=bin_.prefix_cache_hit_rate,
        )
        for bin_ in bins
    )


def mean_input_length(bins: Sequence[LengthBin]) -> float:
    return math.fsum(bin_.weight * bin_.input_length for bin_ in bins)


def mean_output_length(bins: Sequence[LengthBin]) -> float:
    return math.fsum(bin_.weight * bin_.output_length for bin_ in bins)


_EXAMPLE = "bins: [{min_tokens: 0, max_tokens: 500, weight: 0.6}, {min_tokens: 500, max_tokens: 1000, weight: 0.4}]"


def _keys(text: str, path: Path) -> LengthKeys:
    from evaluator.inputs.workloads.length_file import LengthKeys  # pydantic, which no question needs

    return checked_yaml(LengthKeys, text, str(path), hint=f"such as {_EXAMPLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: Path
    text: str

    def refused(self, key: str, index: int, said: str) -> InputError:
        return InputError(f"{self.path}: line {line_of(self.text, (key, index))}: {key}[{index}]{said}")


def _check_order(rows: Sequence[Mapping[str, float]], file: _File, key: str) -> None:
    order = sorted(range(len(rows)), key=lambda index: rows[index]["min_tokens"])
    for before, after in pairwise(order):
        if rows[after]["min_tokens"] < rows[before]["max_tokens"]:
            raise file.refused(
                key,
                after,
                f" begins at {rows[after]['min_tokens']}, inside {key}[{before}] "
                f"which ends at {rows[before]['max_tokens']}; bins must not overlap",
            )


def _midpoint(low: float, high: float) -> int:
    # Seed 002, 4.1: the middle of the bin represents it; upstream halves in integers.
    return max(1, int(low + high) // 2)


def _output_choices(
    outputs: Sequence[Mapping[str, float]] | None, output_length: float | None, file: _File
) -> list[tuple[float, float]]:
    if outputs is None:
        if output_length is None:
            raise InputError(f"{file.path}: no output length", hint="give `output_length`, or output_bins in the file")
        return [(float(output_length), 1.0)]
    _check_order(outputs, file, "output_bins")
    total = math.fsum(row["weight"] for row in outputs)
    return [(float(_midpoint(row["min_tokens"], row["max_tokens"])), row["weight"] / total) for row in outputs]


def _bin(row: Mapping[str, float], output_length: float, weight: float) -> LengthBin:
    return LengthBin(
        input_length=_midpoint(row["min_tokens"], row["max_tokens"]),
        output_length=output_length,
        weight=weight,
        min_input_length=int(row["min_tokens"]),
        max_input_length=int(row["max_tokens"]),
        prefix_cache_hit_rate=row.get("prefix_cache_hit_rate"),
    )


def _independent_bins(
    rows: Sequence[Mapping[str, float]], outputs: Sequence[tuple[float, float]], file: _File
) -> tuple[LengthBin, ...]:
    if len(rows) * len(outputs) > LARGEST_BIN_COUNT:
        raise InputError(f"{file.path}: {len(rows)} x {len(outputs)} bins are too many (at most {LARGEST_BIN_COUNT})")
    ordered = sorted(rows, key=lambda row: row["min_tokens"])
    return normalised([_bin(row, length, row["weight"] * weight) for row in ordered for length, weight in outputs])


def _joint_bins(rows: Sequence[Mapping[str, float]], file: _File) -> tuple[LengthBin, ...]:
    rectangles: list[tuple[int, Mapping[str, float]]] = []
    for index, row in enumerate(rows):
        if "output_min_tokens" not in row or "output_max_tokens" not in row:
            raise file.refused(
                "bins", index, ": output_min_tokens and output_max_tokens must stand in every bin or in none"
            )
        for other_index, other in rectangles:
            if _rectangles_overlap(row, other):
                raise file.refused("bins", index, f" overlaps bins[{other_index}]; joint bins must not overlap")
        rectangles.append((index, row))
    ordered = sorted(rows, key=lambda row: (row["min_tokens"], row["output_min_tokens"]))
    return normalised(
        [_bin(row, _midpoint(row["output_min_tokens"], row["output_max_tokens"]), row["weight"]) for row in ordered]
    )


def _rectangles_overlap(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(
        one[low] < other[high] and other[low] < one[high]
        for low, high in (("min_tokens", "max_tokens"), ("output_min_tokens", "output_max_tokens"))
    )
