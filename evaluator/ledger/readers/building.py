"""Tools of readers: optional numbers, problems by line, content keys.

Typed `Circumstances` say how a point was asked and served; evaluator.ledger uses them."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluator.inputs.engines.engine_numbers import CLIENT_RANGES
from evaluator.ledger.point_keys import key_of_values
from store.errors import InputError
from store.loads import MeasuredRequests
from store.records import MeasurementRecord, RunRecord, SideRecord
from store.texts import checked_name

SERVER_FAILED = "server_failed"  # the format without numbers, and its field that says why
FIELD = "circumstances"  # of the fields that a record keeps beside its columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Beside sizes and lengths; defaults where a source is silent."""

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
    evenly: bool = False  # requests arrive at equal times, not at random ones
    shortest_length: float | None = None  # of a client that spreads lengths: its shortest over its longest


SHORTEST = "shortest_length"


def shortest_of(row: Mapping[str, Any], name: str) -> float | None:
    """A part of the longest length; a client that draws from one token on says 0."""
    ratio = number(row, name)
    if ratio is not None and not 0.0 <= ratio <= 1.0:
        raise BadItem(f"{name}: {ratio:g} is no part of the longest length, 0 to 1")
    return None if ratio is None else max(ratio, CLIENT_RANGES["shortest"][0])


AS_USUAL = Circumstances()
_NO_RUN = RunRecord()
_FIELDS = fields(Circumstances)


def kept(circumstances: Circumstances) -> dict[str, object]:
    """Only unusual ones."""
    unusual = {item.name: value for item in _FIELDS if (value := getattr(circumstances, item.name)) != item.default}
    return {FIELD: unusual} if unusual else {}


def circumstances_of(record: MeasurementRecord) -> Circumstances:
    """As the file's reader set them."""
    return circumstances_of_fields(json.loads(record.extra).get(FIELD))


def circumstances_of_fields(stored: object) -> Circumstances:
    said = stored if isinstance(stored, dict) else {}
    known = {item.name for item in fields(Circumstances)}
    return Circumstances(**{name: value for name, value in said.items() if name in known})


Document = Mapping[str, Any]
LARGEST_SIZE = 1 << 31
LONGEST_TEXT = {"model": 500, "device": 200, "engine": 64, "engine_version": 64, "precision": 64, "kv_precision": 64}
LONGEST_LIST = 64  # clients can write a value for each request: such lists are counted, not kept
MISSING = {"", "none", "nan", "null", "n/a", "-"}

# How the field defines the two latencies; every reader says which one its source means.
TTFT = "arrival of the request to its first token, queueing included"
TPOT_EXCLUSIVE = "(e2e - ttft) / (output tokens - 1), mean over requests"
TPOT_INCLUSIVE = "e2e / output tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An unreadable line or item; others of its file were read."""

    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """Records in order, and assumptions that the file does not state."""

    place: str
    format: str
    count: int
    guessed: tuple[str, ...] = ()
    predictions: int = 0  # of our own, which are no measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    records: Sequence[MeasurementRecord]
    problems: tuple[Problem, ...] = ()
    format: str = ""
    whole: tuple[str, ...] = ()  # digests of the files that were read without a problem
    requests: Mapping[str, MeasuredRequests] = field(default_factory=dict)  # logs, by the key of their record
    files: tuple[FileRead, ...] = ()


class BadItem(Exception):  # noqa: N818  becomes a Problem, never seen outside this package
    ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A point before its content key is known."""

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
    circumstances: Circumstances = AS_USUAL
    measured_at: datetime | None = None
    run: RunRecord = _NO_RUN
    requests: MeasuredRequests | None = None  # a log, kept beside the record and in no key
    guessed: tuple[str, ...] = ()  # what the file does not say itself


SHORTEST_MS = {"ttft_ms": 0.2, "e2e_ms": 0.2, "tpot_exclusive_ms": 0.02}  # a network alone takes longer
_NOT_KEPT = {"circumstances", "requests", "metrics", "definitions", "extra", "guessed"}
_SAME_NAME = tuple(name for name in Item.__slots__ if name not in _NOT_KEPT)
_LONGEST_OF_RUN = {"measured_by": 200, "engine_commit": 64, "image": 500, "host": 200, "driver": 64,
                   "git_revision": 64, "tags": 500, "flags": 4000}  # fmt: skip
_WRITTEN = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


_same_name = operator.attrgetter(*_SAME_NAME)
_long_texts = operator.attrgetter(*LONGEST_TEXT)


def file_digest(path: Path) -> str:
    """Marks a file's place, so that reading it again replaces its points."""
    return hashlib.sha256(str(path.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]


def record(item: Item, *, source: str, source_format: str, file: str | None = None) -> MeasurementRecord:
    """Keyed by content, not by file, so that importing again adds nothing."""
    metrics = {name: value for name, value in item.metrics.items() if value is not None}
    if item.run.completed_requests is None and item.run.failed_requests:
        raise BadItem(f"no request of the run completed: {item.run.failed_requests} failed")
    if not metrics and source_format != SERVER_FAILED:
        raise BadItem("no measured value that we know")
    for name, value in metrics.items():
        if not 0 < value < math.inf:
            raise BadItem(f"{name} is {value:g}: a measured value must be above 0")
        shortest = SHORTEST_MS.get(name.rpartition("_")[0])
        if shortest is not None and value < shortest and not name.endswith("_std"):
            raise BadItem(f"{name} is {value:g} ms, shorter than any server's: is it in seconds?")
    refuse_wrong_units(item, metrics)
    _refuse_odd(*_long_texts(item))
    values: dict[str, Any] = dict(zip(_SAME_NAME, _same_name(item), strict=True))
    values |= {
        "run": _bounded(item.run),
        "source_format": source_format,
        "metrics": metrics,
        "definitions": {name: text for name, text in item.definitions.items() if name in metrics},
    }
    try:
        in_key, extra = written_extra(item.extra, item.circumstances)
        key = key_of_values(values, in_key)
        return MeasurementRecord(**values, key=key, source=source, extra=extra, file=file)
    except (UnicodeEncodeError, RecursionError) as error:
        what = "halves of characters" if isinstance(error, UnicodeEncodeError) else "fields nested too deeply"
        raise BadItem(f"it holds {what}") from None


def written_extra(extra: Mapping[str, Any], circumstances: Circumstances) -> tuple[str, str]:
    """As JSON for the key, and as kept. Circumstances follow from other fields, so no key has them."""
    in_key = _WRITTEN(_plain(dict(extra))) if extra else "{}"
    if circumstances is AS_USUAL or not (unusual := kept(circumstances)):
        return in_key, in_key
    return in_key, _WRITTEN(json.loads(in_key) | unusual)


@functools.lru_cache(maxsize=65_536)
def _refuse_odd(*texts: str | None) -> None:
    try:
        for (name, longest), value in zip(LONGEST_TEXT.items(), texts, strict=True):
            checked_name(value or "", name, longest=longest)
    except InputError as error:
        raise BadItem(error.message.rstrip(".")) from None


@functools.lru_cache(maxsize=65_536, typed=True)
def _bounded(run: RunRecord) -> RunRecord:
    """Texts cut to their columns and cleaned."""
    cut: dict[str, Any] = {
        name: re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", value).strip()[:longest]
        for name, longest in _LONGEST_OF_RUN.items()
        if (value := getattr(run, name))
    }
    return replace(run, **cut) if cut else run


_FEW_REQUESTS = 20
MOST_RUNS = 2.0  # times its whole run that a mean request can take: clients count a run differently
_THOUSAND = (600.0, 1700.0)  # a ratio that is one of units rather than of what was measured


def refuse_wrong_units(item: Item, metrics: Mapping[str, float]) -> None:
    """Latencies and rates that disagree by a thousand: one has another unit."""
    ttft, tpot, e2e = (metrics.get(f"{name}_mean") for name in ("ttft_ms", "tpot_exclusive_ms", "e2e_ms"))
    others = max(0.0, (item.output_length or 0.0) - 1.0)
    parts = ttft + others * tpot if ttft and tpot and others else None
    if e2e and parts:
        if _by_thousand(e2e, parts):
            raise BadItem(
                f"ttft and time between tokens make {parts:.4g} ms of a request of {e2e:.4g}: are they in seconds?"
            )
        if _by_thousand(parts, e2e):
            raise BadItem(f"e2e_ms_mean is {e2e:.4g} ms where its parts are {parts:.4g}: is it in seconds?")
    whole_ms = e2e or parts
    rate = metrics.get("requests_per_s")
    if rate is None and item.output_length:
        rate = (metrics.get("output_tokens_per_s") or 0.0) / item.output_length
    completed = item.run.completed_requests
    few = completed is not None and completed < 2.0 * (item.concurrency or 0.0)
    if whole_ms and rate and item.concurrency and item.request_rate is None and not few:
        expected = 1e3 * item.concurrency / rate
        in_other = "seconds" if _by_thousand(expected, whole_ms) else (
            "microseconds" if _by_thousand(whole_ms, expected) else None
        )  # fmt: skip
        if in_other is not None:
            raise BadItem(
                f"a request takes {whole_ms:.4g} ms, but {item.concurrency:g} users at {rate:.4g} requests/s make it"
                f" {expected:.4g}: are latencies in {in_other}?"
            )
    if item.concurrency is None and completed and rate:
        _refuse_longer_than_its_run(max(whole_ms or 0.0, ttft or 0.0), completed, rate)


def _refuse_longer_than_its_run(longest_ms: float, completed: int, rate: float) -> None:
    """A mean request outlasts its run. Few requests may state a larger run's rate."""
    run_ms = 1e3 * completed / rate
    if completed >= _FEW_REQUESTS and longest_ms > MOST_RUNS * run_ms:
        raise BadItem(
            f"a request takes {longest_ms:.4g} ms, but all {completed} of them {run_ms:.4g} ms at {rate:.4g}"
            " requests/s: are latencies a thousand times too large?"
        )


def _by_thousand(larger: float, smaller: float) -> bool:
    return _THOUSAND[0] < larger / smaller < _THOUSAND[1]


_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)$")
_EARLIEST_S, _LATEST_S = 946_684_800, 4_102_444_800  # the years 2000 and 2100


def moment(name: str, value: object) -> datetime | None:
    """ISO 8601, 20260203-040506, or seconds since 1970; UTC without a zone."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC) if _EARLIEST_S < value < _LATEST_S else None
    stamp = _STAMP.match(str(value).strip())
    try:
        if stamp:
            return datetime(*(int(part) for part in stamp.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise BadItem(f"{name}: {value!r:.40} is no time") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def inner(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def number(row: Mapping[str, Any], *names: str) -> float | None:
    """The first of these fields that is there."""
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
    """As `number`; 0 is missing, since some tables write it for "does not apply"."""
    value = number(row, *names)
    if value is None or value == 0:
        return None
    if not 0 < value < LARGEST_SIZE or value != int(value):
        raise BadItem(f"{names[0]}: {value:g} is not a whole number of at least 1")
    return int(value)


def text(row: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is there."""
    for name in names:
        value = row.get(name)
        if value is None or str(value).strip().lower() in MISSING:
            continue
        if isinstance(value, dict | list) or "\0" in str(value):
            raise BadItem(f"{name} is not a text")
        return str(value).strip()
    return None


def rest(row: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    """Uninterpreted fields, without lists of a value a request."""
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
