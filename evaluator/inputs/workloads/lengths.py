"""Length distributions from YAML files: reading, checking and normalising.

Not here: traces, and how a batch is composed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluator.inputs.workloads.workload import LengthBin
from evaluator.inputs.yaml_file import parse_yaml, read_text, shortened
from store.errors import InputError

LARGEST_FILE_BYTES = 1_000_000
LARGEST_BIN_COUNT = 1_000
LARGEST_LENGTH = 16_777_216
LARGEST_NUMBER = 1e300  # what is larger overflows in sums
_INPUT_KEYS = {"min_tokens", "max_tokens", "weight", "prefix_cache_hit_rate", "output_min_tokens", "output_max_tokens"}
_OUTPUT_KEYS = {"min_tokens", "max_tokens", "weight"}


def load_distribution(path: Path, *, output_length: float | None) -> tuple[LengthBin, ...]:
    """The bins of a distribution file, weights summing to 1.

    The file holds `bins` of input lengths; the output length is the given number, or `output_bins` (independent of the
    input), or `output_min_tokens` and `output_max_tokens` in every bin (joint)."""
    document = _read_yaml(path)
    unknown = {str(key) for key in document} - {"bins", "output_bins", "name"}
    if unknown:
        raise InputError(f"{path}: unknown key {shortened(min(unknown))}", hint="known keys: bins, output_bins, name")
    rows = _rows(document, "bins", path, _INPUT_KEYS)
    joint = ["output_min_tokens" in row or "output_max_tokens" in row for row in rows]
    outputs = _rows(document, "output_bins", path, _OUTPUT_KEYS) if "output_bins" in document else None
    if any(joint) and outputs is not None:
        raise InputError(f"{path}: give output_bins or output_min_tokens in the bins, not both")
    if any(joint):
        return _joint_bins(rows, path)
    _check_order(rows, path, "bins")
    return _independent_bins(rows, _output_choices(outputs, output_length, path), path)


def normalised(bins: Sequence[LengthBin]) -> tuple[LengthBin, ...]:
    """The same bins with weights that sum to 1."""
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
    """Probability-weighted mean prompt length, in tokens."""
    return math.fsum(bin_.weight * bin_.input_length for bin_ in bins)


def mean_output_length(bins: Sequence[LengthBin]) -> float:
    """Probability-weighted mean generated length, in tokens."""
    return math.fsum(bin_.weight * bin_.output_length for bin_ in bins)


def _read_yaml(path: Path) -> Mapping[str, Any]:
    text = read_text(
        path,
        largest_bytes=LARGEST_FILE_BYTES,
        what="a length distribution",
        hint="reduce a request log with: sweepdb workloads add NAME `trace=FILE`",
    )
    document = parse_yaml(text, str(path))
    if not isinstance(document, Mapping):
        raise InputError(f"{path}: expected a mapping with a list of bins", hint=_EXAMPLE)
    return document


_EXAMPLE = "bins: [{min_tokens: 0, max_tokens: 500, weight: 0.6}, {min_tokens: 500, max_tokens: 1000, weight: 0.4}]"


def _rows(document: Mapping[str, Any], key: str, path: Path, known: set[str]) -> list[Mapping[str, float]]:
    rows = document.get(key)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: {key} must be a list with at least one bin", hint=_EXAMPLE)
    if len(rows) > LARGEST_BIN_COUNT:
        raise InputError(f"{path}: {len(rows)} {key} are too many (at most {LARGEST_BIN_COUNT})")
    return [_checked_row(row, f"{path}: {key}[{index}]", known) for index, row in enumerate(rows)]


def _checked_row(row: object, where: str, known: set[str]) -> Mapping[str, float]:
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: expected a mapping with min_tokens, max_tokens and weight")
    unknown = {str(name) for name in row} - known
    if unknown:
        raise InputError(
            f"{where}: unknown key {shortened(min(unknown))}", hint=f"known keys: {', '.join(sorted(known))}"
        )
    for name in ("min_tokens", "max_tokens", "weight"):
        if name not in row:
            raise InputError(f"{where}: {name} is missing")
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST_NUMBER:
            raise InputError(f"{where}: {name} must be a finite number, not {shortened(value)}")
    _check_interval(row, where, "min_tokens", "max_tokens", smallest=0)
    if row["weight"] <= 0:
        raise InputError(f"{where}: weight must be above 0, not {row['weight']}")
    hit_rate = row.get("prefix_cache_hit_rate", 0.0)
    if not 0 <= hit_rate < 1:
        raise InputError(f"{where}: prefix_cache_hit_rate must lie in [0, 1), not {hit_rate}")
    return row


def _check_interval(row: Mapping[str, float], where: str, low: str, high: str, *, smallest: int) -> None:
    for name in (low, high):
        if row[name] != int(row[name]):
            raise InputError(f"{where}: {name} must be a whole number of tokens, not {row[name]}")
    if row[low] < smallest:
        raise InputError(f"{where}: {low} must be at least {smallest}, not {row[low]}")
    if row[high] <= row[low]:
        raise InputError(f"{where}: {high} ({row[high]}) must be above {low} ({row[low]})")
    if row[high] > LARGEST_LENGTH:
        raise InputError(f"{where}: {high} ({row[high]}) is above {LARGEST_LENGTH} tokens")


def _check_order(rows: Sequence[Mapping[str, float]], path: Path, key: str) -> None:
    order = sorted(range(len(rows)), key=lambda index: rows[index]["min_tokens"])
    for before, after in pairwise(order):
        if rows[after]["min_tokens"] < rows[before]["max_tokens"]:
            raise InputError(
                f"{path}: {key}[{after}] begins at {rows[after]['min_tokens']}, inside {key}[{before}] "
                f"which ends at {rows[before]['max_tokens']}; bins must not overlap"
            )


def _midpoint(low: float, high: float) -> int:
    # Seed 002, 4.1: the middle of the bin represents it; upstream halves in integers.
    return max(1, int(low + high) // 2)


def _output_choices(
    outputs: Sequence[Mapping[str, float]] | None, output_length: float | None, path: Path
) -> list[tuple[float, float]]:
    if outputs is None:
        if output_length is None:
            raise InputError(f"{path}: no output length", hint="give `output_length`, or output_bins in the file")
        return [(float(output_length), 1.0)]
    _check_order(outputs, path, "output_bins")
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
    rows: Sequence[Mapping[str, float]], outputs: Sequence[tuple[float, float]], path: Path
) -> tuple[LengthBin, ...]:
    if len(rows) * len(outputs) > LARGEST_BIN_COUNT:
        raise InputError(f"{path}: {len(rows)} x {len(outputs)} bins are too many (at most {LARGEST_BIN_COUNT})")
    ordered = sorted(rows, key=lambda row: row["min_tokens"])
    return normalised([_bin(row, length, row["weight"] * weight) for row in ordered for length, weight in outputs])


def _joint_bins(rows: Sequence[Mapping[str, float]], path: Path) -> tuple[LengthBin, ...]:
    rectangles: list[tuple[int, Mapping[str, float]]] = []
    for index, row in enumerate(rows):
        where = f"{path}: bins[{index}]"
        if "output_min_tokens" not in row or "output_max_tokens" not in row:
            raise InputError(f"{where}: output_min_tokens and output_max_tokens must stand in every bin or in none")
        _check_interval(row, where, "output_min_tokens", "output_max_tokens", smallest=0)
        for other_index, other in rectangles:
            if _rectangles_overlap(row, other):
                raise InputError(f"{where} overlaps bins[{other_index}]; joint bins must not overlap")
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
