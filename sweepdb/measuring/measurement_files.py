"""Files of measured points into the store and back as rows."""

from __future__ import annotations

import functools
import gc
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from evaluator import ledger
from queries.connect import connect
from queries.measured_rows import runs_meet
from store.errors import InputError
from store.loads import MeasuredRequests
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.records import MeasurementRecord
from store.texts import counted
from store.whole_files import is_stream, written_whole
from store.writing import PointTable, corrected_of, put_files, told_apart
from sweepdb import own_runs
from sweepdb.launching import launched_as, results_of

MEASUREMENT_COLUMNS = (
    "measurement", "family", "model", "device", "engine", "mode", "precision", "num_devices", "input_length",
    "output_length", "concurrency", "request_rate", "metrics", "source", "source_format",
)  # fmt: skip
_LISTED = """
    SELECT left(key, 12) AS measurement, family, model, device, engine, mode, precision, num_devices, input_length,
        output_length, concurrency, request_rate, metrics, source, source_format, count(*) OVER () AS points
    FROM measurement
    WHERE ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
        AND ($source IS NULL OR contains(lower(source), lower($source)) OR source_format = $source)
        AND ($tag IS NULL OR list_contains(string_split(tags, ','), $tag))
    -- line 10 comes after line 9: numbers are compared with as many digits each
    ORDER BY regexp_replace(regexp_replace(source, '(\\d+)', '000000000000\\1', 'g'), '\\d*(\\d{12})', '\\1', 'g'), key
    LIMIT $most
"""


SETTING_COLUMNS = (
    "model", "device", "engine", "engine_version", "mode", "num_devices", "input_length", "output_length",
    "concurrency", "request_rate", "runs", "ttft_ms", "ttft_spread", "tpot_exclusive_ms", "tpot_spread",
    "output_tokens_per_s", "output_spread", "failed_requests", "last_measured_at", "first_measurement",
)  # fmt: skip
_SETTINGS = """
    SELECT model, device, engine, engine_version, mode, num_devices, input_length, output_length, concurrency,
        request_rate, runs, ttft_ms, ttft_spread, tpot_exclusive_ms, tpot_spread, output_tokens_per_s, output_spread,
        failed_requests, last_measured_at, left(first_measurement, 12) AS first_measurement,
        count(*) OVER () AS settings
    FROM measured_setting
    WHERE ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    ORDER BY model, device, engine, engine_version, input_length, output_length, concurrency, request_rate,
        first_measurement
    LIMIT $most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """Each point once, and problems of what could not be read."""

    records: Sequence[MeasurementRecord]
    problems: tuple[ledger.Problem, ...]
    formats: tuple[str, ...]
    lines: int  # points read, those that stand in the files twice included
    whole: tuple[str, ...] = ()  # digests of the files that were read without a problem
    requests: Mapping[str, MeasuredRequests] = field(default_factory=dict)  # logs, by the key of their point
    said: tuple[str, ...] = ()  # a line a file, or many alike: what was read, guessed, missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    found: ReadFiles
    records: Sequence[MeasurementRecord]  # as stored: with what was corrected or stated before
    added: int
    replaced: int
    corrected: int


def read_files(paths: Sequence[Path], stated: ledger.Stated | None = None, tags: Sequence[str] = ()) -> ReadFiles:
    """Adds what is stated where points lack it; launch folders state it themselves.

    A bad line is a problem, and so is a bad file beside good ones."""
    results = [_read(path, among=len(paths)) for path in paths]
    logs: dict[str, MeasuredRequests] = {}
    found: list[Sequence[MeasurementRecord]] = []
    said: list[_FileSaid] = []
    for path, result in zip(paths, results, strict=True):
        change = functools.partial(_known, launched=launched_as(path), stated=stated or {}, tags=tags)
        records = _changed(result.records, change)
        if result.requests:
            logs |= {
                made.key: result.requests[read.key]
                for read, made in zip(result.records, records, strict=True)
                if read.key in result.requests
            }
        said += _said(path, result.files, records)
        found.append(records)
    return ReadFiles(
        records=_each_once(found),
        problems=tuple(problem for result in results for problem in result.problems),
        formats=tuple(dict.fromkeys(result.format for result in results if result.format)),
        lines=sum(len(result.records) for result in results),
        whole=tuple(file for result in results for file in result.whole),
        requests=logs,
        said=tuple(_lines(said)),
    )


def _known(
    record: MeasurementRecord, *, launched: ledger.Stated | None, stated: ledger.Stated, tags: Sequence[str]
) -> MeasurementRecord:
    return ledger.tagged(
        ledger.with_stated(record if launched is None else ledger.with_launched(record, launched), stated), tags
    )


def _changed(
    records: Sequence[MeasurementRecord], change: Callable[[MeasurementRecord], MeasurementRecord]
) -> Sequence[MeasurementRecord]:
    made = records.with_shared(change) if isinstance(records, PointTable) else None
    return [change(one) for one in records] if made is None else made


def _each_once(found: Sequence[Sequence[MeasurementRecord]]) -> Sequence[MeasurementRecord]:
    holding = [records for records in found if len(records)]
    if len(holding) == 1 and isinstance(holding[0], PointTable):
        return holding[0].first_of_each()
    first: dict[str, MeasurementRecord] = {}
    for records in found:
        for record in records:
            first.setdefault(record.key, record)
    return tuple(first.values())


class _FileSaid(NamedTuple):
    place: str
    said: str


_FEWEST_ALIKE = 4  # files that share a line


def _lines(said: Sequence[_FileSaid]) -> Iterator[str]:
    """The files' in order; many that say the same are one line, at the place of the first."""
    places: dict[str, list[str]] = {}
    for one in said:
        places.setdefault(one.said, []).append(one.place)
    for one in said:
        alike = places[one.said]
        if len(alike) < _FEWEST_ALIKE:
            yield f"{one.place}: {one.said}"
        elif one.place == alike[0]:
            yield f"{one.place} and {counted(len(alike) - 1, 'file')} more, each: {one.said}"


def _said(path: Path, files: Iterable[ledger.FileRead], records: Sequence[MeasurementRecord]) -> list[_FileSaid]:
    lines = []
    start = 0
    for file in files:
        of_file = records if file.count == len(records) else records[start : start + file.count]
        found = list(told_apart(of_file))
        start += file.count
        place = str(path / file.place) if path.is_dir() else str(path)
        if not file.format:
            lines += [_FileSaid(place, f"not read: {'; '.join(file.guessed)}")] if file.guessed else []
            continue
        parts = [f"{counted(file.count, 'point')} of {file.format}"]
        parts += [f"{file.predictions} left out: predicted, not measured"] if file.predictions else []
        parts += [f"guessed: {'; '.join(file.guessed)}"] if file.guessed else []
        missing = [name for name, lacks in _WANTED.items() if any(lacks(one) for one, _ in found)]
        parts += [f"missing: {', '.join(missing)}"] if missing else []
        parts += _as_published(found) + _of_runs(found) + _not_teaching(found)
        lines.append(_FileSaid(place, ". ".join(parts)))
    return lines


def _as_published(found: Sequence[tuple[MeasurementRecord, int]]) -> list[str]:
    """Formats that no file says, where they are not 16 bits."""
    for one in dict.fromkeys(record.model for record, _ in found if record.precision is None):
        try:
            name, model = ledger.measured_model(one)
        except ledger.Unmatched:
            continue
        formats = ledger.measured_precision(model, ledger.format_in_name(one), None, name=name)
        if narrow := [format_ for format_ in formats.weights if format_ != "BF16"]:
            return [f"no precision is stated: weights taken as {narrow[0]}, as {one} is published"]
    return []


def _of_runs(found: Sequence[tuple[MeasurementRecord, int]]) -> list[str]:
    failed = sum(points * (one.run.failed_requests or 0) for one, points in found)
    whole = sum(points * (one.run.completed_requests or 0) for one, points in found)
    parts = [f"{failed} of {failed + whole} requests failed: values are of the others"] if failed else []
    for device in dict.fromkeys(one.device for one, _ in found if one.device):
        try:
            ledger.device_or_nearest(device)
        except InputError as unknown:
            parts.append(f"{unknown.message} ({unknown.hint})")
    told = (one for record, points in found if points == 1 and (one := _contradicts_itself(record)) is not None)
    first = next(told, None)
    others = sum(1 for _ in told)
    more = f", and {counted(others, 'point')} more" if others else ""
    return parts if first is None else [*parts, f"{first}{more}"]


def _not_teaching(found: Sequence[tuple[MeasurementRecord, int]]) -> list[str]:
    """Reasons of the first points that differ, since names are matched for each."""
    reasons: Counter[str] = Counter()
    of_bursts = 0
    for one, points in found[:_LOOKED_AT]:
        taught = own_runs.point_or_reason(one) if one.metrics else None
        if isinstance(taught, str):
            reasons[taught] += points
        elif taught is not None and taught.of_bursts:
            of_bursts += points
    said = [f"{_correct(sum(reasons.values()))} no answers: {next(iter(reasons))}"] if reasons else []
    return [*said, f"{_correct(of_bursts)} TPOT alone: {own_runs.OF_BURSTS}"] if of_bursts else said


def _correct(points: int) -> str:
    return f"{counted(points, 'point')} correct{'s' if points == 1 else ''}"


def _contradicts_itself(one: MeasurementRecord) -> str | None:
    """A closed loop's rate and times do not fit its concurrency."""
    running = ledger.requests_running(one.metrics, one.output_length)
    if running is None or not one.concurrency or one.request_rate is not None:
        return None
    if _FEWEST_RUNNING * one.concurrency <= running <= _MOST_RUNNING * one.concurrency:
        return None
    why = "few prompts a user, or a limited rate" if running < one.concurrency else "wrong units, or other lengths"
    return f"rate x time = {running:.3g} requests in flight, but concurrency is {one.concurrency:g} ({why}?)"


_LOOKED_AT = 50  # points of a file
# Of 106 published runs the least is 0.53 (few prompts a user) and the most 1.02.
_FEWEST_RUNNING, _MOST_RUNNING = 0.5, 1.1
# What a prediction beside a point needs, and what of it a file can lack.
_WANTED: Mapping[str, Callable[[MeasurementRecord], bool]] = {
    "model": lambda one: one.model is None,
    "device": lambda one: one.device is None,
    "engine": lambda one: one.engine is None,
    "engine_version": lambda one: one.engine_version is None,
    "mode": lambda one: one.mode is None,
    "sizes (tp, or num_devices)": lambda one: one.decode.tp is None and one.num_devices is None,
    "input_length": lambda one: one.input_length is None,
    "output_length": lambda one: one.output_length is None and one.mode != "prefill",
    "concurrency or request_rate": lambda one: (
        one.concurrency is None and one.request_rate is None and one.decode.batch_size is None
    ),
}


def _read(path: Path, *, among: int) -> ledger.ReadResult:
    try:
        return ledger.read_measurements(results_of(path))
    except InputError as error:
        if among == 1:
            raise
        return ledger.ReadResult(records=(), problems=(ledger.Problem(where=str(path), what=error.message),))


def import_measurements(
    paths: Sequence[Path], store_url: str | None, stated: ledger.Stated | None = None, tags: Sequence[str] = ()
) -> Imported:
    """Stores what is new, replaces what a file holds no more."""
    with _without_search_for_cycles():
        return _imported(paths, store_url, stated, tags)


@contextmanager
def _without_search_for_cycles() -> Iterator[None]:
    """Millions of tuples without cycles: looking for them takes a sixth of an import."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _imported(
    paths: Sequence[Path], store_url: str | None, stated: ledger.Stated | None, tags: Sequence[str]
) -> Imported:
    found = read_files(paths, stated, checked_tags(tags))
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        before = {(one.file, one.source): one for one in corrected_of(store, found.whole)}
        records = found.records if not before else [
            ledger.corrected_again(one, was)
            if (was := before.get((one.file, one.source))) is not None and was.read_as != (one.read_as or one.key)
            else one
            for one in found.records
        ]  # fmt: skip
        put = put_files(store, records, files=found.whole, requests=found.requests)
    return Imported(found=found, records=records, added=put.added, replaced=put.replaced, corrected=put.corrected)


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Commas separate."""
    named = tuple(one.strip() for tag in tags for one in tag.split(","))
    for one in named:
        if not one or len(one) > _LONGEST_TAG or not one.isprintable():
            raise InputError(f"`tag={one}`: a tag has 1 to {_LONGEST_TAG} characters", hint="such as `tag=nightly`")
    return named


_LONGEST_TAG = 64


def listed_measurements(
    store_url: str | None,
    *,
    model: str | None = None,
    device: str | None = None,
    source: str | None = None,
    tag: str | None = None,
    most: int | None = None,
) -> tuple[list[tuple[object, ...]], int]:
    """As MEASUREMENT_COLUMNS, and how many there are.

    Filters are parts of texts, or a format's name."""
    filters = {"model": model, "device": device, "source": source, "tag": tag}
    with connect(store_url) as connection:
        rows = connection.execute(_LISTED, {**filters, "most": most}).fetchall()
    return [row[:-1] for row in rows], int(rows[0][-1]) if rows else 0


def measured_settings(
    store_url: str | None, *, model: str | None = None, device: str | None = None, most: int | None = None
) -> tuple[list[tuple[object, ...]], int]:
    """As SETTING_COLUMNS: medians and spreads of runs; and how many."""
    with connect(store_url) as connection:
        connection.provide({"measured_setting"})
        with runs_meet(connection.duckdb):
            rows = connection.execute(_SETTINGS, {"model": model, "device": device, "most": most}).fetchall()
    return [row[:-1] for row in rows], int(rows[0][-1]) if rows else 0


def place_of(source: str) -> list[str | int]:
    """Sorts line 10 after line 9."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", source))]


def refuse_existing(path: Path) -> None:
    if path.exists() and not is_stream(path):
        raise InputError(f"{path} is there already", hint="name another file: `profile=FILE.yaml`")


def write_profile(path: Path, text: str) -> None:
    refuse_existing(path)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
