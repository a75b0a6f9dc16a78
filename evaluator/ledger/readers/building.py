"""Tools of every reader of measurements: numbers that may be missing, problems by file and line, content keys.

What a source says of how a point was asked and served is typed (`Circumstances`), and set by the file's reader. Not
here: what follows for a prediction (evaluator.ledger)."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from evaluator.canonical import content_key
from store.errors import InputError
from store.loads import MeasuredRequests
from store.records import MeasurementRecord, SideRecord
from store.texts import checked_name, from_text

SERVER_FAILED = "server_failed"  # the format without numbers, and its field that says why
FIELD = "circumstances"  # of the fields that a record keeps beside its columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Facts of one measured point, beside sizes and lengths; what a source does not say is as here."""

    point_id: str = ""  # at the source, where recipes of launches are known by it
    measured_year: int | None = None
    saturated: bool = False  # everything is asked for at once, and the memory decides how many are served together
    all_at_once: bool = False  # the number beside the point counts requests, all there from the start, not users
    static_batch: bool = False  # all requests of a batch are there at the start, none follows
    replayed: bool = False  # a few fixed prompts over and over, against a prefix cache whose hits nobody states
    attention_replicas: bool = False  # attention data parallelism over all devices, experts split by expert
    narrow_keys: bool = False  # keys and values in eight bits
    ttft_holds_transfer: bool = False  # a prompt's first token counts when its keys have reached the decode instance
    line_rate_bytes_per_s: float | None = None  # between instances
    linear_format: str | None = None  # where linears and experts are named apart
    experts_format: str | None = None
    shortest_length: float | None = None  # of a client that spreads lengths: its shortest over its longest


_FIELDS = fields(Circumstances)


def kept(circumstances: Circumstances) -> dict[str, object]:
    """The circumstances that are not as usual, as a record keeps them; nothing where all are usual."""
    unusual = {item.name: value for item in _FIELDS if (value := getattr(circumstances, item.name)) != item.default}
    return {FIELD: unusual} if unusual else {}


def circumstances_of(record: MeasurementRecord) -> Circumstances:
    """The facts that the reader of a point's file has set."""
    stored = json.loads(record.extra).get(FIELD) or {}
    known = {item.name for item in fields(Circumstances)}
    return Circumstances(**{name: value for name, value in stored.items() if name in known})


Document = Mapping[str, Any]
LARGEST_FILE_BYTES = 1 << 28
LARGEST_SIZE = 1 << 31
LONGEST_TEXT = {"model": 500, "device": 200, "engine": 64, "engine_version": 64, "precision": 64, "kv_precision": 64}
LONGEST_LIST = 64  # clients can write a value for each request: such lists are counted, not kept
UNDECODED = re.compile("[\udc80-\udcff]")
MISSING = {"", "none", "nan", "null", "n/a", "-"}

# How the field defines the two latencies; every reader says which one its source means.
TTFT = "arrival of the request to its first token, queueing included"
TPOT_EXCLUSIVE = "(e2e - ttft) / (output tokens - 1), mean over requests"
TPOT_INCLUSIVE = "e2e / output tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A line or item that could not be read; the others of its file were."""

    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Records of a file, and what in it could not be read."""

    records: tuple[MeasurementRecord, ...]
    problems: tuple[Problem, ...] = ()
    format: str = ""
    whole: tuple[str, ...] = ()  # digests of the files that were read without a problem
    requests: Mapping[str, MeasuredRequests] = field(default_factory=dict)  # logs, by the key of their record


class BadItem(Exception):  # noqa: N818  becomes a Problem, never seen outside this package
    """Why one line or item cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One point of a file, before its content key is known."""

    model: str | None = None
    device: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    mode: str | None = None
    precision: str | None = None
    kv_precision: str | None = None
    num_devices: int | None = None
    input_length: float | None = None
    output_length: float | None = None
    concurrency: float | None = None
    request_rate: float | None = None
    prefill: SideRecord = field(default_factory=SideRecord)
    decode: SideRecord = field(default_factory=SideRecord)
    metrics: Mapping[str, float | None]
    definitions: Mapping[str, str]
    extra: Mapping[str, Any]
    circumstances: Circumstances = field(default_factory=Circumstances)
    requests: MeasuredRequests | None = None  # a log, kept beside the record and in no key


_SHORTEST_MS = 0.2  # a network alone takes longer
_OF_REQUESTS = ("ttft_ms", "e2e_ms")
_SAME_NAME = tuple(
    name for name in Item.__slots__ if name not in {"circumstances", "requests", "metrics", "definitions", "extra"}
)
_WRITTEN = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def record(item: Item, *, source: str, source_format: str) -> MeasurementRecord:
    """The record of an item, keyed by its content and not by the file it stood in: importing again adds nothing."""
    metrics = {name: value for name, value in item.metrics.items() if value is not None}
    if not metrics and source_format != SERVER_FAILED:
        raise BadItem("no measured value that we know")
    for name, value in metrics.items():
        if not 0 < value < math.inf:
            raise BadItem(f"{name} is {value:g}: a measured value must be above 0")
        if value < _SHORTEST_MS and name.startswith(_OF_REQUESTS):
            raise BadItem(f"{name} is {value:g} ms, shorter than any first token: is it in seconds?")
    for name, longest in LONGEST_TEXT.items():
        try:
            checked_name(getattr(item, name) or "", name, longest=longest)
        except InputError as error:
            raise BadItem(error.message.rstrip(".")) from None
    values: dict[str, Any] = {name: getattr(item, name) for name in _SAME_NAME}
    values |= {
        "source_format": source_format,
        "metrics": metrics,
        "definitions": {name: text for name, text in item.definitions.items() if name in metrics},
    }
    try:
        extra = _WRITTEN(_plain(dict(item.extra)))
        key = content_key(MeasurementRecord(**values, key="", source="", extra=extra))
        # What is said of the circumstances follows from the other fields: it is in no key.
        if unusual := kept(item.circumstances):
            extra = _WRITTEN(json.loads(extra) | unusual)
        return MeasurementRecord(**values, key=key, source=source, extra=extra)
    except (UnicodeEncodeError, RecursionError) as error:
        what = "halves of characters" if isinstance(error, UnicodeEncodeError) else "fields nested too deeply"
        raise BadItem(f"it holds {what}") from None


def decoded(path: Path, *, errors: str = "strict") -> str:
    """The text of a file in UTF-8; with errors `surrogateescape`, bytes that are not are left for the line's reader."""
    try:
        content = path.read_bytes()
        if content[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\0" in content[:4096]:
            raise InputError(f"{path}: not UTF-8 text", hint="save it as UTF-8")
        return content.decode("utf-8-sig", errors=errors)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8 text", hint="save it as UTF-8") from error


def delimiter_of(header: str) -> str:
    """The character that separates the fields of a header: a comma, a semicolon or a tab."""
    return max(",;\t", key=header.count)


def read_rows(
    path: Path, source_format: str, required: Iterable[str], item_of: Callable[[Mapping[str, str]], Item]
) -> ReadResult:
    """Records of a CSV file, one a line; `item_of` raises BadItem for a line that makes no sense."""
    records: list[MeasurementRecord] = []
    problems: list[Problem] = []
    content = decoded(path, errors="surrogateescape")
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter_of(content.partition("\n")[0]))
    try:
        names = reader.fieldnames or []
        missing = [name for name in required if name not in names]
        if missing:
            raise InputError(f"{path}: no column {missing[0]!r}", hint=f"columns found: {', '.join(names[:12])}")
        for row in reader:
            where = f"{path.name}:{reader.line_num}"
            try:
                records.append(record(item_of(_complete(row)), source=where, source_format=source_format))
            except BadItem as problem:
                problems.append(Problem(where=where, what=str(problem)))
    except csv.Error as error:
        problems.append(Problem(where=f"{path.name}:{reader.line_num + 1}", what=f"{error}; what follows is not read"))
    return ReadResult(records=tuple(records), problems=tuple(problems), format=source_format)


def _complete(row: Mapping[str | Any, str | Any]) -> Mapping[str, str]:
    if None in row or None in row.values():
        raise BadItem("more or fewer fields than the header has")
    if any(UNDECODED.search(value) for value in row.values()):
        raise BadItem("not UTF-8 text")
    return {name: from_text(value) for name, value in row.items()}


def inner(document: Document, name: str) -> Document:
    """The object below a name; empty where there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def number(row: Mapping[str, Any], *names: str) -> float | None:
    """The first of these fields that is there, as a number; None where none is."""
    for name in names:
        value = row.get(name)
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
            continue
        if isinstance(value, bool):
            raise BadItem(f"{name}: {value!r} is not a number")
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            raise BadItem(f"{name}: {value!r} is not a number") from None
        if math.isnan(found):
            continue
        if math.isinf(found):
            raise BadItem(f"{name} is infinite")
        return found
    return None


def whole(row: Mapping[str, Any], *names: str) -> int | None:
    """As `number`, a whole number; 0, which some tables write for "does not apply", is missing."""
    value = number(row, *names)
    if value is None or value == 0:
        return None
    if not 0 < value < LARGEST_SIZE or value != int(value):
        raise BadItem(f"{names[0]}: {value:g} is not a whole number of at least 1")
    return int(value)


def text(row: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is there, as text."""
    for name in names:
        value = row.get(name)
        if value is None or str(value).strip().lower() in MISSING:
            continue
        if isinstance(value, dict | list) or "\0" in str(value):
            raise BadItem(f"{name} is not a text")
        return str(value).strip()
    return None


def rest(row: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    """Fields that no reader interprets: kept as they are, but lists with a value for each request."""
    known = set(used)
    return {
        name: f"{len(value)} values, not kept" if isinstance(value, list) and len(value) > LONGEST_LIST else value
        for name, value in row.items()
        if name not in known and value is not None and value != ""
    }


def _plain(value: Any) -> Any:  # noqa: ANN401  JSON values have no narrower type
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
