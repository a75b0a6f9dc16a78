"""Request logs with times, kept only while a simulation runs."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.inputs.workloads.traces import INPUT_NAMES, OUTPUT_NAMES, lines_of, named_field, whole_tokens
from evaluator.inputs.yaml_file import parse_json, shortened
from store.errors import InputError
from store.light_dataclass import dataclass

_TIME_NAMES = ("timestamp", "arrival_time", "arrived_at", "arrival", "queued_ts", "start_time", "time")
LARGEST_PROMPT = 1_000_000
BLOCK_TOKENS = 512  # of a prompt, that a hash of a log stands for
_BLOCKS = "hash_ids"
_IMAGE_NAMES = ("numimages", "num_images", "images", "image_count")  # the first is Azure's of 2025


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedArrivals:
    """`times` are in the log's unit and scaled later.

    `blocks` are hashes of each prompt's blocks, the last tokens' included; `images` counts them."""

    times: FloatArray
    input_lengths: Integers
    output_lengths: Integers
    sha256: str
    blocks: tuple[tuple[int, ...], ...] | None = None
    images: Integers | None = None


def read_arrivals(path: Path, *, most: int) -> TracedArrivals:
    """Refuses a log without times, or whose times fall."""
    digest = hashlib.sha256()
    times, inputs, outputs, images = array("d"), array("q"), array("q"), array("q")
    blocks: list[tuple[int, ...]] = []
    last = -math.inf
    for where, time, prompt, answer, hashes, pictures in _requests(path, digest):
        if prompt == 0 or answer == 0 or len(times) == most:
            continue  # what follows is read for the digest
        if prompt > LARGEST_PROMPT:
            raise InputError(f"{where}: a prompt of {prompt} tokens is above {LARGEST_PROMPT:,}")
        if time < last:
            raise InputError(f"{where}: the time falls; requests must stand in the order of their arrival")
        last = time
        times.append(time)
        inputs.append(prompt)
        outputs.append(answer)
        if (count := _images(pictures)) is not None:
            images.append(count)
        known = _blocks(hashes, prompt)
        if known is not None:
            blocks.append(known)
    if len(times) < 2 or times[-1] <= times[0]:
        raise InputError(f"{path}: no two requests at different times were found")
    return TracedArrivals(
        times=np.asarray(times, dtype=np.float64),
        input_lengths=np.asarray(inputs, dtype=np.int64),
        output_lengths=np.asarray(outputs, dtype=np.int64),
        sha256=digest.hexdigest(),
        blocks=tuple(blocks) if len(blocks) == len(times) else None,
        images=np.asarray(images, dtype=np.int64) if len(images) == len(times) else None,
    )


def _images(value: object) -> int | None:
    if isinstance(value, list):
        return len(value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return int(number) if 0 <= number < math.inf and number == int(number) else None


def _blocks(hashes: object, prompt: int) -> tuple[int, ...] | None:
    wanted = -(-prompt // BLOCK_TOKENS)
    if not isinstance(hashes, list) or not all(type(one) is int for one in hashes) or len(hashes) < wanted:
        return None
    return tuple(hashes[:wanted])


def _requests(path: Path, digest: hashlib._Hash) -> Iterator[tuple[str, float, int, int, object, object]]:
    names: tuple[str, str, str] | None = None
    pictures = ""
    for where, record in _records(path, digest):
        if names is None:
            keys = [str(key) for key in record]
            names = (
                _time_field(keys, path),
                named_field(keys, INPUT_NAMES, path, "prompt length"),
                named_field(keys, OUTPUT_NAMES, path, "output length"),
            )
            pictures = next((key for key in keys if key.strip().lower() in _IMAGE_NAMES), "")
        missing = [name for name in names if record.get(name) is None]
        if missing:
            raise InputError(f"{where}: {missing[0]} is missing")
        time, prompt, answer = (record[name] for name in names)
        lengths = whole_tokens(prompt, where), whole_tokens(answer, where)
        yield where, _moment(time, where), *lengths, record.get(_BLOCKS), record.get(pictures)


def _records(path: Path, digest: hashlib._Hash) -> Iterator[tuple[str, Mapping[str, object]]]:
    lines = lines_of(path, digest)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    if not first.lstrip().startswith("{"):
        header = next(csv.reader(io.StringIO(first)))
        for number, row in enumerate(csv.reader(lines), start=2):
            if row:
                yield f"{path}, line {number}", dict(zip_longest(header, row[: len(header)]))
        return
    for number, line in enumerate((first, *lines), start=1):
        if not line.strip():
            continue
        record = parse_json(line, f"{path}, line {number}")
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number}: expected an object for each request")
        yield f"{path}, line {number}", record


def _time_field(keys: list[str], path: Path) -> str:
    known = {key.strip().lower(): key for key in keys}
    for name in _TIME_NAMES:
        if name in known:
            return known[name]
    raise InputError(
        f"{path}: no column with the time of arrival among {', '.join(keys[:8])}",
        hint=f"known names: {', '.join(_TIME_NAMES)}",
    )


def _moment(value: object, where: str) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            moment = float(value)
        else:
            moment = _written(str(value).strip())
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise InputError(f"{where}: {shortened(value)} is no time")
    return moment


def _written(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        whole, _, fraction = text.rstrip("Z").partition(".")
        digits = fraction[: next((place for place, letter in enumerate(fraction) if not letter.isdigit()), None)]
        return datetime.fromisoformat(whole).timestamp() + (float(f"0.{digits}") if digits else 0.0)
