"""Request logs reduced to joint length bins; only bins and the content hash are kept."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
from array import array
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot
from evaluator.inputs.workloads.lengths import normalised
from evaluator.inputs.workloads.workload import LARGEST_BIN_COUNT, LARGEST_LENGTH, LengthBin
from evaluator.inputs.yaml_file import parse_json, shortened
from store.errors import InputError
from store.light_dataclass import dataclass

LARGEST_FILE_BYTES = 1 << 30
LARGEST_LINE_BYTES = 1 << 22
OUTPUT_QUANTILES = 4

# Azure LLM inference traces, Mooncake traces and request files of vLLM-style benchmarks name the two numbers so.
INPUT_NAMES = (
    "contexttokens",
    "input_length",
    "input_tokens",
    "input_len",
    "prompt_tokens",
    "prompt_len",
    "num_input_tokens",
)
OUTPUT_NAMES = (
    "generatedtokens",
    "output_length",
    "output_tokens",
    "output_len",
    "completion_tokens",
    "expected_output_len",
    "num_output_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    bins: tuple[LengthBin, ...]
    requests: int
    skipped: int  # requests that asked for no prompt or no output token
    sha256: str


def read_trace(path: Path, *, input_bins: int = 16) -> TraceSummary:
    """Equal-weight quantiles of prompt length, each split by output.

    A bin is its mean, so the trace's mean lengths are kept."""
    if input_bins < 1:
        raise InputError(f"trace bins must be at least 1, not {input_bins}")
    if input_bins * OUTPUT_QUANTILES > LARGEST_BIN_COUNT:
        raise InputError(f"trace bins must be at most {LARGEST_BIN_COUNT // OUTPUT_QUANTILES}, not {input_bins}")
    inputs, outputs, skipped, digest = _read_lengths(path)
    if inputs.size == 0:
        raise InputError(f"{path}: no request with both a prompt and an output was found")
    bins = normalised(_joint_quantiles(inputs, outputs, input_bins))
    return TraceSummary(bins=bins, requests=int(inputs.size), skipped=skipped, sha256=digest)


@dataclass(frozen=True, slots=True)
class _Share:
    """Requests by number, with the fraction that belongs here."""

    members: Integers
    weights: FloatArray

    def parts(self, order: Integers, number: int) -> list[_Share]:
        """Equal weights; a request at an edge is shared."""
        members, weights = self.members[order], self.weights[order]
        ends = np.cumsum(weights)
        edges = ends[-1] * np.arange(number + 1) / number
        found = []
        for low, high in pairwise(edges):
            inside = slice(int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(ends, high)) + 1)
            begins = ends[inside] - weights[inside]
            shares = np.minimum(ends[inside], high) - np.maximum(begins, low)
            kept = shares > 1e-9 * ends[-1] / number  # what rounding leaves at an edge is no request
            found.append(_Share(members[inside][kept], shares[kept]))
        return found


def _joint_quantiles(inputs: Integers, outputs: Integers, input_bins: int) -> list[LengthBin]:
    """Any beginning of the order is spread over both lengths.

    A batch smaller than the number of bins holds the first of them."""
    everything = _Share(np.arange(inputs.size), np.ones(inputs.size))
    by_input = everything.parts(np.lexsort((outputs, inputs)), min(input_bins, inputs.size))
    split = [
        share.parts(np.argsort(outputs[share.members], kind="stable"), min(OUTPUT_QUANTILES, share.members.size))
        for share in by_input
    ]
    bins = []
    for turn in range(OUTPUT_QUANTILES):
        for position, index in enumerate(_spread(len(split))):
            parts = split[index]
            if turn < len(parts):
                chosen = _spread(len(parts))[(turn + position) % len(parts)]
                # The same number for all, bit for bit: equal remainders are to be told from almost equal ones.
                bins.append(_bin(inputs, outputs, parts[chosen], weight=1 / len(split) / len(parts)))
    return bins


def _spread(number: int) -> list[int]:
    """Van der Corput's ranks: every beginning is evenly spread."""
    fractions = [int(f"{turn:b}"[::-1], 2) / 2 ** turn.bit_length() for turn in range(1, number + 1)]
    return [sorted(fractions).index(fraction) for fraction in fractions]


def _bin(inputs: Integers, outputs: Integers, share: _Share, *, weight: float) -> LengthBin:
    mine, total = share.members, float(share.weights.sum())
    return LengthBin(
        input_length=max(1, round(float(dot(inputs[mine], share.weights)) / total)),
        output_length=max(1, round(float(dot(outputs[mine], share.weights)) / total)),
        weight=weight,
        min_input_length=int(inputs[mine].min()),
        max_input_length=int(inputs[mine].max()),
    )


def _read_lengths(path: Path) -> tuple[Integers, Integers, int, str]:
    inputs, outputs, skipped, digest = array("q"), array("q"), 0, hashlib.sha256()
    for where, input_length, output_length in _requests(path, digest):
        for length in (input_length, output_length):
            if not 0 <= length <= LARGEST_LENGTH:
                raise InputError(f"{where}: a length of {length} tokens is outside 0..{LARGEST_LENGTH}")
        if input_length == 0 or output_length == 0:
            skipped += 1
            continue
        inputs.append(input_length)
        outputs.append(output_length)
    as_array = [
        np.frombuffer(values, dtype=np.int64) if values else np.empty(0, np.int64) for values in (inputs, outputs)
    ]
    return as_array[0], as_array[1], skipped, digest.hexdigest()


def _requests(path: Path, digest: hashlib._Hash) -> Iterator[tuple[str, int, int]]:
    lines = lines_of(path, digest)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    if first.lstrip().startswith("["):
        raise InputError(
            f"{path}: one JSON array; a trace has one object a line (JSONL)", hint="jq -c '.[]' FILE > FILE.jsonl"
        )
    if first.lstrip().startswith("{"):
        yield from _json_requests(path, first, lines)
    else:
        yield from _csv_requests(path, first, lines)


def lines_of(path: Path, digest: hashlib._Hash) -> Iterator[str]:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise InputError(
                f"{path}: {size} bytes is too large for a trace (at most {LARGEST_FILE_BYTES}); sample it first"
            )
        with path.open("rb") as file:
            read = 0  # a pipe has no size
            while line := file.readline(LARGEST_LINE_BYTES + 1):
                read += len(line)
                if read > LARGEST_FILE_BYTES:
                    raise InputError(f"{path}: too large for a trace (at most {LARGEST_FILE_BYTES}); sample it first")
                if len(line) > LARGEST_LINE_BYTES:
                    raise InputError(
                        f"{path}: a line is longer than {LARGEST_LINE_BYTES} bytes; this is not a request log"
                    )
                digest.update(line)
                yield line.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file") from error


def named_field(names: list[str], wanted: tuple[str, ...], path: Path, what: str) -> str:
    known = {name.strip().lower().replace(" ", "_"): name for name in names}
    known |= {name.replace("_", ""): original for name, original in known.items()}
    for name in wanted:
        if name in known:
            return known[name]
    raise InputError(
        f"{path}: no column with the {what} in tokens among {', '.join(name[:40] for name in names[:8])}",
        hint=f"known names: {', '.join(wanted)}; texts must be tokenised first",
    )


def whole_tokens(value: object, where: str) -> int:
    try:
        number = float(value)  # type: ignore[arg-type]
        if number == int(number) and not isinstance(value, bool):
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{where}: {shortened(value)} is not a whole number of tokens")


def _csv_requests(path: Path, first: str, lines: Iterator[str]) -> Iterator[tuple[str, int, int]]:
    header = _fields(csv.reader(io.StringIO(first, newline="")), f"{path}, line 1") or []
    input_index = header.index(named_field(header, INPUT_NAMES, path, "prompt length"))
    output_index = header.index(named_field(header, OUTPUT_NAMES, path, "output length"))
    reader = csv.reader(lines)
    for number in itertools.count(2):
        where = f"{path}, line {number}"
        row = _fields(reader, where)
        if row is None:
            return
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"{where}: {len(row)} fields, the header has {len(header)}")
        yield where, whole_tokens(row[input_index], where), whole_tokens(row[output_index], where)


def _fields(reader: Iterator[list[str]], where: str) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        raise InputError(f"{where}: not a line of CSV: {error}") from error


def _json_requests(path: Path, first: str, lines: Iterator[str]) -> Iterator[tuple[str, int, int]]:
    names: tuple[str, str] | None = None
    for number, line in enumerate(_chain(first, lines), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        record = parse_json(line, where)
        if not isinstance(record, dict):
            raise InputError(f"{where}: expected an object with a prompt length and an output length")
        if names is None:
            keys = [str(key) for key in record]
            names = (
                named_field(keys, INPUT_NAMES, path, "prompt length"),
                named_field(keys, OUTPUT_NAMES, path, "output length"),
            )
        if names[0] not in record or names[1] not in record:
            raise InputError(f"{where}: {names[0]} or {names[1]} is missing")
        yield where, whole_tokens(record[names[0]], where), whole_tokens(record[names[1]], where)


def _chain(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines
