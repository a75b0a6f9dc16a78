"""Writes a store, or one sweep's request, into a new folder, whole or not at all.

Voided rows stay out."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import groupby, starmap
from operator import attrgetter
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from queries.bundles.format import (
    DIMENSIONS,
    FLAGS,
    FORMAT,
    LOAD_FILES,
    LOADS,
    OF_SUBJECT,
    WHOLE_TABLES,
    BundleFormat,
    BundleSummary,
    Row,
    file_names,
    stored_fields,
)
from queries.bundles.load_lines import load_lines
from queries.connect import StoreConnection
from queries.scoping.names import find_sweep
from store.digests import DigestedRows, rows_digest
from store.errors import InputError, StoreError
from store.location import StoreLocation
from store.placing import whole_digest
from store.reading import ReadTransaction, duckdb, read_transaction
from store.records import ScenarioRecord, SubjectRecord, ValidationRecord, WorkloadBinRecord
from store.schema import PROBE_COLUMNS, TABLES, scenario_tables
from store.sealing import fetched_arrays
from store.whole_files import unwritable


class _Interval(NamedTuple):
    sweep_id: int
    scenario_id: int
    first_batch_size: int
    last_batch_size: int


def export_bundle(
    location: StoreLocation, folder: Path, *, sweep: str | None = None, format_: BundleFormat = "parquet"
) -> BundleSummary:
    if folder.exists():
        raise InputError(f"{folder} is there already", hint="name a folder that is not there yet")
    with read_transaction(location) as transaction:
        sweep_id = None if sweep is None else find_sweep(transaction, sweep)
        sweeps, keys = _sweeps(transaction, sweep_id)
        lines: dict[str, Iterable[Row]] = {
            "sweeps": sweeps,
            "scenarios": [item for item in scenario_lines(transaction) if item["key"] in keys],
            **_beside_rows(transaction, None if sweep_id is None else keys),
        }
    with _new_folder(folder) as temporary:
        probes, lines["blocks"] = _write_probes(location, temporary, sweep_id, format_, keys)
        with read_transaction(location) as transaction, (temporary / LOADS).open("w", encoding="utf-8") as file:
            loads = sum(_write_line(file, item) for item in load_lines(transaction, keys))
        if format_ == "parquet":
            _write_loads(location, temporary, keys)
        for name, items in lines.items():
            text = "".join(json.dumps(item, default=str) + "\n" for item in items)
            (temporary / f"{name}.jsonl").write_text(text, encoding="utf-8")
        _describe(temporary, format_, probes)
    return BundleSummary(sweeps=len(sweeps), scenarios=len(list(lines["scenarios"])), probes=probes, loads=loads)


def _write_loads(location: StoreLocation, folder: Path, keys: Collection[str]) -> None:
    with read_transaction(location) as transaction:
        numbers = [number for number, key in transaction.keys("scenario").items() if key in keys]
    target = str(folder).replace("'", "''")
    with StoreConnection(location) as connection:
        connection.provide(LOAD_FILES)
        connection.duckdb.execute(
            "CREATE TEMP TABLE bundled AS"
            " SELECT id AS load_id FROM raw.load WHERE scenario_id IN (SELECT unnest($ids))",
            {"ids": numbers},
        )
        for name in LOAD_FILES:
            of = {"arrival": "TRUE", "load": "id IN (FROM bundled)"}.get(name, "load_id IN (FROM bundled)")
            connection.duckdb.execute(
                f"COPY (SELECT * FROM raw.{name} WHERE {of} ORDER BY ALL) TO '{target}/{name}.parquet'"  # noqa: S608 - ours
                " (FORMAT parquet, COMPRESSION zstd)"
            )


def _write_line(file: IO[str], item: Row) -> int:
    """Returns how many it holds; all loads of a store are too many for memory."""
    file.write(json.dumps(item) + "\n")
    return len(item["loads"])


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Filled under another name, and renamed once whole."""
    temporary = folder.with_name(f".{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(folder)
    except (OSError, duckdb.IOException) as error:
        raise unwritable(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _describe(folder: Path, format_: BundleFormat, probes: int) -> None:
    description = {
        "format": FORMAT,
        "files": format_,
        "probes": probes,
        "columns": [
            {"name": column.name, "type": column.type, "unit": column.unit, "meaning": column.meaning}
            for column in PROBE_COLUMNS
        ],
        "contents": {name: {"sha256": whole_digest(folder / name)} for name in file_names(format_)},
    }
    (folder / "bundle.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


def _write_probes(
    location: StoreLocation, folder: Path, sweep_id: int | None, format_: BundleFormat, keys: Collection[str]
) -> tuple[int, list[Row]]:
    """Returns the number of probes, and their blocks with digests."""
    names = ", ".join(column.name for column in PROBE_COLUMNS)
    options = "FORMAT parquet, COMPRESSION zstd" if format_ == "parquet" else "FORMAT csv, HEADER"
    asked = (
        "scenario IN (SELECT unnest($keys)) AND ($sweep IS NULL OR EXISTS (SELECT 1 FROM raw.sweep_interval i"
        " WHERE i.sweep_id = $sweep AND i.scenario_id = s.scenario_id"
        " AND s.batch_size BETWEEN i.first_batch_size AND i.last_batch_size))"
    )
    with StoreConnection(location) as connection:
        connection.provide({"stored_probe", "sweep_interval", "composition"})
        connection.duckdb.execute(
            f"CREATE TEMP TABLE bundled AS SELECT {names} FROM raw.stored_probe s WHERE {asked}",  # noqa: S608
            {"sweep": sweep_id, "keys": sorted(keys)},
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
        blocks = list(_blocks(connection.duckdb, location))
    return int(row[0]) if row else 0, blocks


_RUNS = """
    SELECT scenario, ANY_VALUE(scenario_id), block_id, ANY_VALUE(first_sweep), MIN(batch_size), MAX(batch_size)
    FROM (SELECT *, batch_size - row_number() OVER (PARTITION BY block_id ORDER BY batch_size) AS run FROM bundled)
    GROUP BY scenario, block_id, run ORDER BY 1, 5
"""
_RUNS_AT_ONCE = 500


class _Run(NamedTuple):
    scenario: str
    scenario_id: int
    block: int
    sweep: str
    first: int
    last: int


def _blocks(connection: duckdb.DuckDBPyConnection, location: StoreLocation) -> Iterator[Row]:
    stored = _stored_digests(location)
    runs = list(starmap(_Run, connection.execute(_RUNS).fetchall()))
    for some in _by_scenario(runs):
        for run, digest in zip(some, _digests(connection, some), strict=True):
            if stored.get((run.block, run.last - run.first + 1), digest) != digest:
                raise StoreError(
                    f"The numbers of block {run.block}, of scenario {run.scenario[:12]}, are not those that were"
                    " committed.",
                    hint=f"Nothing was written. Run: sweepdb db check{location.argument} `repair`",
                )
            yield {
                "scenario": run.scenario,
                "sweep": run.sweep,
                "first_batch_size": run.first,
                "last_batch_size": run.last,
                "digest": digest,
            }


def _by_scenario(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    some: list[_Run] = []
    for _, of_one in groupby(runs, key=attrgetter("scenario")):
        some += of_one
        if len(some) >= _RUNS_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _digests(connection: duckdb.DuckDBPyConnection, runs: Sequence[_Run]) -> Iterator[str]:
    between = {"low": runs[0].scenario, "high": runs[-1].scenario}
    rows = fetched_arrays(
        connection.execute("FROM bundled WHERE scenario BETWEEN $low AND $high ORDER BY scenario, batch_size", between)
    )
    composed = fetched_arrays(
        connection.execute(
            "SELECT scenario_id, batch_size, bin_index, samples FROM raw.composition WHERE scenario_id IN"
            " (SELECT scenario_id FROM bundled WHERE scenario BETWEEN $low AND $high) ORDER BY scenario_id",
            between,
        )
    )
    digested = DigestedRows.of_columns(rows["batch_size"], rows)
    start = 0
    for run in runs:
        stop = start + run.last - run.first + 1
        mine = digested.part(slice(start, stop))
        low, high = np.searchsorted(composed["scenario_id"], [run.scenario_id, run.scenario_id + 1])
        parts = (composed["batch_size"][low:high], composed["bin_index"][low:high], composed["samples"][low:high])
        yield rows_digest(run.scenario, mine, parts if high > low else None)
        start = stop


class _StoredBlock(NamedTuple):
    id: int
    probe_count: int
    digest: str


def _stored_digests(location: StoreLocation) -> dict[tuple[int, int], str]:
    with read_transaction(location) as transaction:
        blocks = transaction.rows(_StoredBlock, "SELECT id, probe_count, COALESCE(digest, '') FROM block")
        return {(block.id, block.probe_count): block.digest for block in blocks}


def _sweeps(transaction: ReadTransaction, sweep_id: int | None) -> tuple[list[Row], set[str]]:
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


def scenario_lines(transaction: ReadTransaction) -> Iterator[Row]:
    known = {table: _dimension(transaction, table, record) for table, record in DIMENSIONS.items()}
    for item in known["workload"].values():
        item["bins"] = []
    bins = ("workload_id", *stored_fields(WorkloadBinRecord, "workload_bin"))
    for row in _lines_of(transaction, bins, "workload_bin ORDER BY workload_id, bin_index"):
        known["workload"][row.pop("workload_id")]["bins"].append(row)
    own, about = stored_fields(ScenarioRecord, "scenario"), stored_fields(SubjectRecord, "subject")
    columns = [
        *(f"sc.{name} AS {name}" for name in (*own, "device_id")),
        *(f"sj.{name} AS subject_{name}" for name in (*about, *(f"{table}_id" for table in OF_SUBJECT))),
    ]
    for row in _lines_of(transaction, columns, f"{scenario_tables('sj')} ORDER BY sc.id"):
        made = {table: known[table][row[f"subject_{table}_id"]] for table in OF_SUBJECT}
        yield {
            **{name: row[name] for name in own},
            "device": known["device"][row["device_id"]],
            "subject": {
                item.name: made[item.name] if item.name in made else row[f"subject_{item.name}"]
                for item in fields(SubjectRecord)
            },
        }


def _beside_rows(transaction: ReadTransaction, keys: Collection[str] | None) -> dict[str, list[Row]]:
    """For answers and explanations; of one sweep, only its own comparisons."""
    lines = {
        table: [_plain(row) for row in _lines_of(transaction, stored_fields(record, table), f"{table} ORDER BY 1, 2")]
        for table, record in WHOLE_TABLES.items()
    }
    validations = [
        row
        for row in _lines_of(
            transaction,
            ["m.key AS measurement_key", "s.key AS scenario_key", *(f"v.{name}" for name in _COMPARED)],
            "validation v JOIN measurement m ON m.id = v.measurement_id JOIN scenario s ON s.id = v.scenario_id"
            " ORDER BY v.measurement_id, v.metric, v.scenario_id",
        )
        if keys is None or row["scenario_key"] in keys
    ]
    compared = {row["measurement_key"] for row in validations}
    points = TABLES["measurement"]
    kept = [column.name for column in points.read_as if column.name not in {"id", "imported_at"}]
    measurements = [
        row
        for row in _lines_of(transaction, kept, f"{points.rows} ORDER BY measurement.id")
        if keys is None or row["key"] in compared
    ]
    return {**lines, "validation": validations, "measurement": measurements, "name": list(_names(transaction))}


_COMPARED = tuple(name for name in stored_fields(ValidationRecord, "validation"))


def _names(transaction: ReadTransaction) -> Iterator[Row]:
    yield from _lines_of(
        transaction,
        ["'model' AS kind", "a.alias AS name", "m.key AS key"],
        "model_alias a JOIN model m ON m.id = a.model_id ORDER BY 2, 3",
    )
    yield from _lines_of(
        transaction,
        ["'workload' AS kind", "n.name AS name", "w.key AS key"],
        "workload_name n JOIN workload w ON w.id = n.workload_id ORDER BY 2, 3",
    )


def _plain(row: Row) -> Row:
    return {
        name: base64.b64encode(cell).decode() if isinstance(cell, bytes | memoryview) else cell
        for name, cell in row.items()
    }


def _dimension(transaction: ReadTransaction, table: str, record: type[object]) -> dict[int, Row]:
    return {row.pop("id"): row for row in _lines_of(transaction, ("id", *stored_fields(record, table)), table)}


def _lines_of(transaction: ReadTransaction, columns: Sequence[str], tables: str) -> Iterator[Row]:
    names = [column.rpartition(" ")[2].rpartition(".")[2] for column in columns]
    for cells in transaction.cells(f"SELECT {', '.join(columns)} FROM {tables}"):  # noqa: S608  our names
        row: Mapping[str, object] = dict(zip(names, cells, strict=True))
        yield {name: bool(cell) if name in FLAGS else cell for name, cell in row.items()}
