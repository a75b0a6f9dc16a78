"""Writes a store, or one sweep of it, as a bundle of plain files with a data dictionary. Reads such a bundle, too.

Not here: writing what was read into another store (sweepdb.bundles)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb

from queries.connect import StoreConnection
from queries.scoping.names import find_sweep
from store.errors import InputError
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction
from store.records import (
    DeviceRecord,
    ModelRecord,
    PlanRecord,
    PrecisionRecord,
    ScenarioRecord,
    SubjectRecord,
    SweepRecord,
    WorkloadBinRecord,
    WorkloadRecord,
)
from store.schema import FLAG, MEASURES, PROBE_COLUMNS, TABLES, scenario_tables

BundleFormat = Literal["parquet", "csv"]
FORMAT = 2
READABLE = (1, 2)  # format 1 holds no kinds of sweeps, no client, launch and routing, no prompt service time
_MAKE_ONE = "a bundle is the folder that sweepdb export FOLDER writes"
_COPY_AGAIN = "copy the whole bundle again, or export it again"
_OF_SUBJECT = {"model": ModelRecord, "precision": PrecisionRecord, "plan": PlanRecord, "workload": WorkloadRecord}
_DIMENSIONS: dict[str, type[Any]] = {**_OF_SUBJECT, "device": DeviceRecord}
_FLAGS = {f"subject_{column.name}" for column in TABLES["subject"].columns if column.type is FLAG}


class _Interval(NamedTuple):
    """A batch interval of a scenario that a sweep asked for."""

    sweep_id: int
    scenario_id: int
    first_batch_size: int
    last_batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSummary:
    """The contents of a bundle, in numbers."""

    sweeps: int
    scenarios: int
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSweep:
    """A request with how it ended and what it asked for: scenario key, first and last batch size."""

    record: SweepRecord
    status: str
    finished_at: datetime | None
    intervals: tuple[tuple[str, int, int], ...]


def export_bundle(
    location: StoreLocation, folder: Path, *, sweep: str | None = None, format_: BundleFormat = "parquet"
) -> BundleSummary:
    """Write a store, or what one sweep asked for, into a new folder."""
    if folder.exists():
        raise InputError(f"{folder} is there already", hint="name a folder that is not there yet")
    with read_transaction(location) as transaction:
        sweep_id = None if sweep is None else find_sweep(transaction, sweep)
        sweeps, keys = _sweeps(transaction, sweep_id)
        scenarios = [item for item in _scenarios(transaction) if item["key"] in keys]
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}", hint="name a folder you may write") from error
    probes = _write_probes(location, folder, sweep_id, format_)
    _write_lines(folder / "sweeps.jsonl", sweeps)
    _write_lines(folder / "scenarios.jsonl", scenarios)
    description = {
        "format": FORMAT,
        "files": format_,
        "probes": probes,
        "columns": [
            {"name": column.name, "type": column.type, "unit": column.unit, "meaning": column.meaning}
            for column in PROBE_COLUMNS
        ],
    }
    (folder / "bundle.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    return BundleSummary(sweeps=len(sweeps), scenarios=len(scenarios), probes=probes)


def _write_probes(location: StoreLocation, folder: Path, sweep_id: int | None, format_: BundleFormat) -> int:
    names = ", ".join(column.name for column in PROBE_COLUMNS)
    options = "FORMAT parquet, COMPRESSION zstd" if format_ == "parquet" else "FORMAT csv, HEADER"
    asked = (
        "$sweep IS NULL OR EXISTS (SELECT 1 FROM raw.sweep_interval i WHERE i.sweep_id = $sweep"
        " AND i.scenario_id = s.scenario_id AND s.batch_size BETWEEN i.first_batch_size AND i.last_batch_size)"
    )
    with StoreConnection(location) as connection:
        connection.provide({"stored_probe", "sweep_interval", "composition"})
        connection.duckdb.execute(
            f"CREATE TEMP TABLE bundled AS SELECT {names} FROM raw.stored_probe s WHERE {asked}",  # noqa: S608
            {"sweep": sweep_id},
        )
        target = str(folder).replace("'", "''")
        row = connection.duckdb.execute(
            f"COPY (FROM bundled ORDER BY scenario, batch_size) TO '{target}/probes.{format_}' ({options})"
        ).fetchone()
        connection.duckdb.execute(
            "COPY (SELECT b.scenario, c.batch_size, c.bin_index, c.samples FROM raw.composition c"  # noqa: S608
            " JOIN bundled b ON b.scenario_id = c.scenario_id AND b.batch_size = c.batch_size"
            f" ORDER BY ALL) TO '{target}/compositions.{format_}' ({options})"
        )
    return int(row[0]) if row else 0


_Row = dict[str, Any]  # a line of a bundle, by the names of records


def _sweeps(transaction: ReadTransaction, sweep_id: int | None) -> tuple[list[_Row], set[str]]:
    keys = transaction.keys("scenario")
    intervals: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for item in transaction.rows(
        _Interval,
        "SELECT sweep_id, scenario_id, first_batch_size, last_batch_size FROM sweep_interval ORDER BY 1, 2, 3",
    ):
        intervals[item.sweep_id].append((keys[item.scenario_id], item.first_batch_size, item.last_batch_size))
    names = ("id", "key", "label", "arguments", "program_version", "started_at", "finished_at", "status", "kind")
    chosen = [
        {**row, "intervals": intervals[row.pop("id")]}
        for row in _lines_of(transaction, names, "sweep ORDER BY id")
        if sweep_id is None or row["id"] == sweep_id
    ]
    asked = {key for row in chosen for key, _, _ in row["intervals"]}
    return chosen, asked


def _scenarios(transaction: ReadTransaction) -> Iterator[_Row]:
    known = {table: _dimension(transaction, table, record) for table, record in _DIMENSIONS.items()}
    for item in known["workload"].values():
        item["bins"] = []
    bins = ("workload_id", *_stored(WorkloadBinRecord, "workload_bin"))
    for row in _lines_of(transaction, bins, "workload_bin ORDER BY workload_id, bin_index"):
        known["workload"][row.pop("workload_id")]["bins"].append(row)
    own, about = _stored(ScenarioRecord, "scenario"), _stored(SubjectRecord, "subject")
    columns = [
        *(f"sc.{name} AS {name}" for name in (*own, "device_id")),
        *(f"sj.{name} AS subject_{name}" for name in (*about, *(f"{table}_id" for table in _OF_SUBJECT))),
    ]
    for row in _lines_of(transaction, columns, f"{scenario_tables('sj')} ORDER BY sc.id"):
        made = {table: known[table][row[f"subject_{table}_id"]] for table in _OF_SUBJECT}
        yield {
            **{name: row[name] for name in own},
            "device": known["device"][row["device_id"]],
            "subject": {
                item.name: made[item.name] if item.name in made else row[f"subject_{item.name}"]
                for item in fields(SubjectRecord)
            },
        }


def _dimension(transaction: ReadTransaction, table: str, record: type[Any]) -> dict[int, _Row]:
    return {row.pop("id"): row for row in _lines_of(transaction, ("id", *_stored(record, table)), table)}


def _stored(record: type[Any], table: str) -> tuple[str, ...]:
    """Return the fields of a record that are columns of a table."""
    return tuple(item.name for item in fields(record) if item.name in TABLES[table].names)


def _lines_of(transaction: ReadTransaction, columns: Sequence[str], tables: str) -> Iterator[_Row]:
    """Rows by the names of their columns; SQLite has no booleans of its own."""
    names = [column.rpartition(" ")[2] for column in columns]
    for cells in transaction.cells(f"SELECT {', '.join(columns)} FROM {tables}"):  # noqa: S608  our names
        row = dict(zip(names, cells, strict=True))
        yield {name: bool(cell) if name in _FLAGS else cell for name, cell in row.items()}


def _write_lines(path: Path, items: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(item, default=str) + "\n" for item in items), encoding="utf-8")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what a damaged file of a bundle raises into one sentence that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", hint=_COPY_AGAIN) from error
    except (ValueError, KeyError, TypeError, duckdb.Error) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise InputError(f"{path}: damaged: {said}", hint=_COPY_AGAIN) from error


class Bundle:
    """A bundle on disk, checked to be one."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            kind = "a file, not a folder" if folder.exists() else "no such folder"
            raise InputError(f"{folder} is no bundle: {kind}", hint=_MAKE_ONE)
        if not (folder / "bundle.json").exists():
            raise InputError(f"{folder} is no bundle: it holds no bundle.json", hint=_MAKE_ONE)
        with _readable(folder / "bundle.json"):
            description = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
            format_, files = description["format"], description["files"]
        if format_ not in READABLE or files not in {"parquet", "csv"}:
            raise InputError(
                f"{folder} is a bundle of format {format_} in {files} files; this program reads formats"
                f" {', '.join(map(str, READABLE))}",
                hint="export it again with this program, or import it with the one that wrote it",
            )
        with _readable(folder / "bundle.json"):
            self._columns = {str(column["name"]): str(column["type"]) for column in description["columns"]}
        self._folder, self._files = folder, str(files)
        names = ("sweeps.jsonl", "scenarios.jsonl", f"probes.{files}", f"compositions.{files}")
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            raise InputError(f"{folder} is not a whole bundle: it lacks {', '.join(missing)}", hint=_COPY_AGAIN)

    def sweeps(self) -> Iterator[BundledSweep]:
        """Requests, oldest first."""
        with _readable(self._folder / "sweeps.jsonl"):
            yield from map(_sweep, self._lines("sweeps.jsonl"))

    def scenarios(self) -> dict[str, ScenarioRecord]:
        """Scenarios by content key."""
        with _readable(self._folder / "scenarios.jsonl"):
            return {item["key"]: _scenario(item) for item in self._lines("scenarios.jsonl")}

    def blocks(self) -> Iterator[tuple[str, str, duckdb.DuckDBPyConnection]]:
        """Each scenario's key and storing sweep with a cursor over batch_size and the stored columns, ascending."""
        source = str(self._folder / f"probes.{self._files}").replace("'", "''")
        with _readable(self._folder / f"probes.{self._files}"), duckdb.connect() as connection:
            types = self._columns
            read = f"read_parquet('{source}')" if self._files == "parquet" else f"read_csv('{source}', types = {types})"
            connection.execute(f"CREATE TABLE probes AS FROM {read}")
            known = [c.name if c.name in types or not c.nullable else f"NULL AS {c.name}" for c in MEASURES]
            names = ", ".join(["batch_size", *known])
            keys = connection.execute("SELECT DISTINCT scenario, first_sweep FROM probes ORDER BY ALL").fetchall()
            for scenario, sweep in keys:
                yield (
                    scenario,
                    sweep,
                    connection.execute(
                        f"SELECT {names} FROM probes WHERE scenario = $scenario AND first_sweep = $sweep"  # noqa: S608
                        " ORDER BY batch_size",
                        {"scenario": scenario, "sweep": sweep},
                    ),
                )

    def compositions(self) -> dict[str, list[tuple[int, int, int]]]:
        """(batch size, bin, samples) by scenario key."""
        source = str(self._folder / f"compositions.{self._files}").replace("'", "''")
        read = f"read_parquet('{source}')" if self._files == "parquet" else f"read_csv('{source}', all_varchar = true)"
        found: dict[str, list[tuple[int, int, int]]] = {}
        with _readable(self._folder / f"compositions.{self._files}"), duckdb.connect() as connection:
            for scenario, *values in connection.execute(
                "SELECT scenario, batch_size::INTEGER, bin_index::INTEGER, samples::INTEGER"  # noqa: S608
                f" FROM {read} ORDER BY ALL"
            ).fetchall():
                found.setdefault(str(scenario), []).append((int(values[0]), int(values[1]), int(values[2])))
        return found

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        with _readable(self._folder / name):
            for line in (self._folder / name).read_text(encoding="utf-8").splitlines():
                yield json.loads(line)


def _sweep(item: Mapping[str, Any]) -> BundledSweep:
    finished = item["finished_at"]
    return BundledSweep(
        record=SweepRecord(
            key=item["key"],
            label=item["label"],
            arguments=item["arguments"],
            program_version=item["program_version"],
            started_at=_moment(item["started_at"]),
            kind=item.get("kind", "request"),
        ),
        status=item["status"],
        finished_at=None if finished is None else _moment(finished),
        intervals=tuple((str(key), int(first), int(last)) for key, first, last in item["intervals"]),
    )


def _scenario(item: Mapping[str, Any]) -> ScenarioRecord:
    subject = dict(item["subject"])
    workload = dict(subject["workload"])
    bins = tuple(WorkloadBinRecord(**bin_) for bin_ in workload.pop("bins"))
    return ScenarioRecord(
        **{
            **item,
            "device": DeviceRecord(**item["device"]),
            "subject": SubjectRecord(
                **{
                    **subject,
                    "model": ModelRecord(**subject["model"]),
                    "precision": PrecisionRecord(**subject["precision"]),
                    "plan": PlanRecord(**subject["plan"]),
                    "workload": WorkloadRecord(**workload, bins=bins),
                }
            ),
        }
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
