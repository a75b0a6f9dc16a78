"""Writes a store, or one sweep of it, as a bundle of plain files with a data dictionary, and reads such a bundle.

Not here: writing what was read into another store (cli.flows.bundle)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb

from queries.connect import StoreConnection
from queries.names import find_sweep
from store.columns import PROBE_COLUMNS
from store.errors import InputError
from store.location import StoreLocation
from store.readers import ReadTransaction, read_transaction
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
from store.wide import WIDE_COLUMNS

BundleFormat = Literal["parquet", "csv"]
FORMAT = 2
READABLE = (1, 2)  # format 1 holds no kinds of sweeps, no client, launch and routing, no prompt service time
_MAKE_ONE = "a bundle is the folder that sweepdb export FOLDER writes"
_COPY_AGAIN = "copy the whole bundle again, or export it again"
_SERVED = ("shortest_length", "prompts_per_user", "poll_steps", "seats", "wait_steps", "routing", "unusual_service")
_DIMENSIONS = {"model": ModelRecord, "device": DeviceRecord, "precision": PrecisionRecord, "plan": PlanRecord}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSummary:
    """What a bundle holds."""

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
            for column in WIDE_COLUMNS
        ],
    }
    (folder / "bundle.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    return BundleSummary(sweeps=len(sweeps), scenarios=len(scenarios), probes=probes)


def _write_probes(location: StoreLocation, folder: Path, sweep_id: int | None, format_: BundleFormat) -> int:
    names = ", ".join(column.name for column in WIDE_COLUMNS)
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


def _sweeps(transaction: ReadTransaction, sweep_id: int | None) -> tuple[list[dict[str, object]], set[str]]:
    keys = {int(str(row[0])): str(row[1]) for row in transaction.rows("SELECT id, key FROM scenario")}
    intervals: dict[int, list[tuple[str, int, int]]] = {}
    for sweep, scenario, first, last in transaction.rows(
        "SELECT sweep_id, scenario_id, first_batch_size, last_batch_size FROM sweep_interval ORDER BY 1, 2, 3"
    ):
        intervals.setdefault(int(str(sweep)), []).append((keys[int(str(scenario))], int(str(first)), int(str(last))))
    names = ("id", "key", "label", "arguments", "program_version", "started_at", "finished_at", "status", "kind")
    rows = [
        dict(zip(names, row, strict=True))
        for row in transaction.rows(f"SELECT {', '.join(names)} FROM sweep ORDER BY id")  # noqa: S608  our names
    ]
    chosen = [row for row in rows if sweep_id is None or row["id"] == sweep_id]
    bundled = [
        {**{name: row[name] for name in names[1:]}, "intervals": intervals.get(int(str(row["id"])), [])}
        for row in chosen
    ]
    asked = {key for row in chosen for key, _, _ in intervals.get(int(str(row["id"])), [])}
    return bundled, asked


def _scenarios(transaction: ReadTransaction) -> Iterator[dict[str, Any]]:
    known = {table: _dimension(transaction, table, record) for table, record in _DIMENSIONS.items()}
    workloads = _dimension(transaction, "workload", WorkloadRecord, without=("bins",))
    names = [item.name for item in fields(WorkloadBinRecord)]
    for item in workloads.values():
        item["bins"] = []
    for workload_id, *values in transaction.rows(
        f"SELECT workload_id, {', '.join(names)} FROM workload_bin ORDER BY workload_id, bin_index"  # noqa: S608
    ):
        workloads[int(str(workload_id))]["bins"].append(dict(zip(names, values, strict=True)))
    columns = (
        "sc.key, sc.formula_version, sc.status, sc.reason, sc.assumptions, sc.device_id, sj.key, sj.model_id,"
        " sj.device_name, sj.precision_id, sj.plan_id, sj.workload_id, sj.phase, sj.convention, sj.compile,"
        f" sj.serving_model, sj.serving_cost_ms, sc.launchable_by, {', '.join(f'sj.{name}' for name in _SERVED)}"
    )
    for row in transaction.rows(
        f"SELECT {columns} FROM scenario sc JOIN subject sj ON sj.id = sc.subject_id ORDER BY sc.id"  # noqa: S608
    ):
        ids = [int(str(row[place])) for place in (5, 7, 9, 10, 11)]
        yield {
            "key": row[0], "formula_version": row[1], "status": row[2], "reason": row[3], "assumptions": row[4],
            "launchable_by": row[17], "device": known["device"][ids[0]],
            "subject": {
                "key": row[6], "model": known["model"][ids[1]], "device_name": row[8],
                "precision": known["precision"][ids[2]], "plan": known["plan"][ids[3]], "workload": workloads[ids[4]],
                "phase": row[12], "convention": row[13], "compile": bool(row[14]), "serving_model": row[15],
                "serving_cost_ms": row[16], **dict(zip(_SERVED, row[18:], strict=True)),
            },
        }  # fmt: skip


def _dimension(
    transaction: ReadTransaction, table: str, record: type[Any], without: Sequence[str] = ()
) -> dict[int, dict[str, Any]]:
    names = [item.name for item in fields(record) if item.name not in without]
    rows = transaction.rows(f"SELECT id, {', '.join(names)} FROM {table}")  # noqa: S608  our names
    return {int(str(row[0])): dict(zip(names, row[1:], strict=True)) for row in rows}


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
            known = [c.name if c.name in types or not c.nullable else f"NULL AS {c.name}" for c in PROBE_COLUMNS]
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
        key=item["key"],
        formula_version=item["formula_version"],
        status=item["status"],
        reason=item["reason"],
        assumptions=item["assumptions"],
        launchable_by=item.get("launchable_by"),
        device=DeviceRecord(**item["device"]),
        subject=SubjectRecord(
            **{
                **subject,
                "model": ModelRecord(**subject["model"]),
                "precision": PrecisionRecord(**subject["precision"]),
                "plan": PlanRecord(**subject["plan"]),
                "workload": WorkloadRecord(**workload, bins=bins),
            }
        ),
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
