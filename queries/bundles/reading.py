"""Reads a bundle and believes nothing: files by hash, values by their column's type."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from queries.bundles.format import FORMAT, file_names, record_of
from queries.bundles.load_lines import BundledLoads, loads_of_line
from store import records
from store.errors import InputError
from store.placing import whole_digest
from store.reading import duckdb, in_memory
from store.schema import MEASURES, PROBE_COLUMNS, PlanRecord
from store.sealing import fetched_arrays

_MAKE_ONE = "a bundle is the folder that sweepdb export FOLDER writes"
_COPY_AGAIN = "copy the whole bundle again, or export it again"
_TYPES = {column.name: column.type for column in PROBE_COLUMNS}
_LONGEST = 300  # of what is told of a damaged file
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSweep:
    """How it ended, and what it asked for: scenario key, first and last batch size."""

    record: records.SweepRecord
    status: str
    finished_at: datetime | None
    intervals: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledBlock:
    """Committed together, with the digest that the bundle states."""

    scenario: str
    sweep: str
    rows: Mapping[str, np.ndarray]
    composition: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    digest: str


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A damaged file becomes one sentence that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint=_COPY_AGAIN) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, duckdb.Error) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise InputError(f"{path}: damaged: {said[:_LONGEST]}", hint=_COPY_AGAIN) from error


class Bundle:
    """Checked to be whole, each file as it was written."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            kind = "a file, not a folder" if folder.exists() else "no such folder"
            raise InputError(f"{folder} is no bundle: {kind}", hint=_MAKE_ONE)
        if not (folder / "bundle.json").is_file():
            kind = "its bundle.json is no file" if (folder / "bundle.json").exists() else "it holds no bundle.json"
            raise InputError(f"{folder} is no bundle: {kind}", hint=_MAKE_ONE)
        with _readable(folder / "bundle.json"):
            description = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
            format_, files = description["format"], description["files"]
        if format_ != FORMAT or files not in ("parquet", "csv"):
            raise InputError(
                f"{folder} is a bundle of format {format_} in {files} files; this program reads format {FORMAT}",
                hint="export it again with this program, or import it with the one that wrote it",
            )
        with _readable(folder / "bundle.json"):
            self._columns = {str(column["name"]) for column in description["columns"]}
            hashes = dict(description["contents"])
        self._folder, self._files = folder, str(files)
        names = file_names(self._files)
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise InputError(f"{folder} is not a whole bundle: it lacks {', '.join(missing)}", hint=_COPY_AGAIN)
        for name in names:
            with _readable(folder / "bundle.json"):
                said = str(hashes[name]["sha256"])
            if whole_digest(folder / name) != said:
                raise InputError(f"{folder / name}: not what was exported, by its sha256", hint=_COPY_AGAIN)

    def sweeps(self) -> Iterator[BundledSweep]:
        return self._records("sweeps", _sweep)

    def scenarios(self) -> dict[str, records.ScenarioRecord]:
        return {record.key: record for record in self._records("scenarios", scenario_of)}

    def operators(self) -> list[records.OperatorSetRecord]:
        return list(self._records("operator_set", lambda item: record_of(records.OperatorSetRecord, item)))

    def calibrations(self) -> list[records.CalibrationRecord]:
        return list(self._records("calibration", _calibration))

    def prices(self) -> list[records.PriceRecord]:
        return list(self._records("price", lambda item: record_of(records.PriceRecord, item)))

    def measurements(self) -> list[records.MeasurementRecord]:
        return list(self._records("measurement", _measurement))

    def validations(self) -> list[records.ValidationRecord]:
        return list(self._records("validation", lambda item: record_of(records.ValidationRecord, item)))

    def names(self) -> list[tuple[str, str, str]]:
        return list(self._records("name", lambda item: (str(item["kind"]), str(item["name"]), str(item["key"]))))

    def blocks(self) -> Iterator[BundledBlock]:
        path = self._folder / f"probes.{self._files}"
        with _readable(path), in_memory() as connection:
            self._load(connection, path)
            for scenario, sweep, first, last, digest in self._runs(connection):
                where = {"scenario": scenario, "first": first, "last": last}
                rows = fetched_arrays(
                    connection.execute(
                        "FROM probes WHERE scenario = $scenario AND batch_size BETWEEN $first AND $last"
                        " ORDER BY batch_size",
                        where,
                    )
                )
                if len(rows["batch_size"]) != last - first + 1:
                    raise ValueError(
                        f"scenario {scenario[:12]} lacks rows of batch sizes {first} to {last}, or has more"
                    )
                composed = fetched_arrays(
                    connection.execute(
                        "SELECT batch_size, bin_index, samples FROM compositions WHERE scenario = $scenario"
                        " AND batch_size BETWEEN $first AND $last ORDER BY ALL",
                        where,
                    )
                )
                yield BundledBlock(
                    scenario=scenario,
                    sweep=sweep,
                    rows=rows,
                    composition=(composed["batch_size"], composed["bin_index"], composed["samples"])
                    if len(composed["batch_size"])
                    else None,
                    digest=digest,
                )

    def loads(self) -> Iterator[BundledLoads]:
        return self._records("load_blocks", loads_of_line)

    def _load(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        lacking = {"scenario", "first_sweep", "batch_size"} - self._columns
        if lacking:
            raise KeyError(min(lacking))
        kept = ["scenario", "first_sweep", "batch_size", *(column.name for column in MEASURES)]
        cast = ", ".join(
            f"{name}::{_TYPES[name]} AS {name}" if name in self._columns else f"NULL::{_TYPES[name]} AS {name}"
            for name in kept
        )
        order = "ORDER BY scenario, batch_size"
        connection.execute(f"CREATE TABLE probes AS SELECT {cast} FROM {self._source(path)} {order}")  # noqa: S608
        composed = self._source(self._folder / f"compositions.{self._files}")
        connection.execute(
            "CREATE TABLE compositions AS SELECT scenario::VARCHAR AS scenario, batch_size::BIGINT AS batch_size,"  # noqa: S608
            f" bin_index::BIGINT AS bin_index, samples::BIGINT AS samples FROM {composed} ORDER BY scenario, batch_size"
        )
        numbers = [name for name in kept if _TYPES[name] == "DOUBLE"]
        odd = " OR ".join(f"isnan({name}) OR isinf({name})" for name in numbers)
        found = connection.execute(f"SELECT scenario, batch_size FROM probes WHERE {odd} LIMIT 1").fetchone()  # noqa: S608
        if found:
            raise ValueError(f"scenario {found[0][:12]} has a number at batch size {found[1]} that is none")

    def _source(self, path: Path) -> str:
        text = str(path).replace("'", "''")
        return f"read_parquet('{text}')" if self._files == "parquet" else f"read_csv('{text}', all_varchar = true)"

    def _runs(self, connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, str, int, int, str]]:
        counted = 0
        for item in self._lines("blocks.jsonl"):
            first, last = int(item["first_batch_size"]), int(item["last_batch_size"])
            counted += last - first + 1
            yield str(item["scenario"]), str(item["sweep"]), first, last, str(item["digest"])
        row = connection.execute("SELECT COUNT(*) FROM probes").fetchone()
        if row is None or row[0] != counted:
            raise ValueError(f"it holds {row[0] if row else 0} probes, its blocks {counted}")

    def _records(self, name: str, made: Callable[[dict[str, Any]], _Record]) -> Iterator[_Record]:
        with _readable(self._folder / f"{name}.jsonl"):
            for item in self._lines(f"{name}.jsonl"):
                yield made(item)

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        for line in (self._folder / name).read_text(encoding="utf-8").splitlines():
            item = json.loads(line)
            if not isinstance(item, dict):
                raise TypeError(f"a line is {type(item).__name__}, not an object")
            yield item


def _calibration(item: dict[str, Any]) -> records.CalibrationRecord:
    kernels = item["kernels"]
    return record_of(
        records.CalibrationRecord, {**item, "kernels": None if kernels is None else base64.b64decode(kernels)}
    )


def _measurement(item: dict[str, Any]) -> records.MeasurementRecord:
    sides = {
        side: record_of(records.SideRecord, {name: item.pop(f"{side}_{name}") for name in records.SideRecord.__slots__})
        for side in ("prefill", "decode")
    }
    run = record_of(records.RunRecord, {name: item.pop(name, None) for name in records.RunRecord.__slots__})
    measured = item.pop("measured_at")
    metrics, definitions = json.loads(item["metrics"]), json.loads(item["definitions"])
    if not all(isinstance(value, int | float) for value in metrics.values()):
        raise ValueError("a metric is no number")
    made = {**item, **sides, "run": run, "metrics": metrics, "definitions": definitions}
    return record_of(
        records.MeasurementRecord, {**made, "measured_at": None if measured is None else _moment(measured)}
    )


def _sweep(item: Mapping[str, Any]) -> BundledSweep:
    finished = item["finished_at"]
    record = {name: item[name] for name in ("key", "label", "arguments", "program_version")}
    started, kind = _moment(item["started_at"]), item.get("kind", "request")
    intervals = tuple((str(key), int(first), int(last)) for key, first, last in item["intervals"])
    if any(not (first == last == 0 or 1 <= first <= last) for _, first, last in intervals):  # 0 marks a failure
        raise ValueError("a sweep asked for batch sizes that are none")
    return BundledSweep(
        record=record_of(records.SweepRecord, {**record, "started_at": started, "kind": kind}),
        status=str(item["status"]),
        finished_at=None if finished is None else _moment(finished),
        intervals=intervals,
    )


def scenario_of(item: Mapping[str, Any]) -> records.ScenarioRecord:
    subject = dict(item["subject"])
    workload = dict(subject["workload"])
    bins = tuple(record_of(records.WorkloadBinRecord, bin_) for bin_ in workload.pop("bins"))
    subject |= {
        "model": record_of(records.ModelRecord, subject["model"]),
        "precision": record_of(records.PrecisionRecord, subject["precision"]),
        "plan": record_of(PlanRecord, subject["plan"]),
        "workload": record_of(records.WorkloadRecord, {**workload, "bins": bins}),
    }
    device = record_of(records.DeviceRecord, item["device"])
    return record_of(
        records.ScenarioRecord, {**item, "device": device, "subject": record_of(records.SubjectRecord, subject)}
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
