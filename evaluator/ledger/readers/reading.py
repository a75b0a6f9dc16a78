"""Chooses a reader by columns or keys, never by name alone."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from evaluator.ledger.readers.building import FileRead, Problem, ReadResult, file_digest
from evaluator.ledger.readers.clients.guidellm_csv import GUIDELLM_COLUMNS
from evaluator.ledger.readers.comparison_tables import (
    PUBLISHED,
    PUBLISHED_COLUMNS,
    SERVING,
    SERVING_COLUMNS,
    read_published_table,
    read_serving_table,
)
from evaluator.ledger.readers.documents import DOCUMENT_FORMATS, read_documents
from evaluator.ledger.readers.own import (
    AICONFIGURATOR,
    AICONFIGURATOR_COLUMNS,
    OWN,
    OWN_COLUMNS,
    read_aiconfigurator,
    read_own_csv,
)
from evaluator.ledger.readers.packed import opened_text, plain_suffix, refuse_large
from evaluator.ledger.readers.rows import LONGEST_LINE, delimiter_of
from store.errors import InputError

_CSV: tuple[tuple[tuple[str, ...], Callable[[Path], ReadResult]], ...] = (
    (SERVING_COLUMNS, read_serving_table),
    (PUBLISHED_COLUMNS, read_published_table),
    (AICONFIGURATOR_COLUMNS, read_aiconfigurator),
    (OWN_COLUMNS, read_own_csv),
    (("Metric", "avg"), read_documents),  # of AIPerf
    (("Metric", "Value"), read_documents),
    (GUIDELLM_COLUMNS, read_documents),
)
FORMATS = (SERVING, PUBLISHED, OWN, AICONFIGURATOR, *DOCUMENT_FORMATS)
_TABLES, _MARKED_UP = {".csv", ".tsv"}, {".yaml", ".yml"}
_RESULTS = {".json", ".jsonl", *_TABLES, *_MARKED_UP}
_NO_RESULTS = {"warmup.json": "a warm-up", "expected.json": "what a launch expects",
               "experiment_metadata.json": "says what runs beside it were measured on"}  # fmt: skip
# Files that repeat the runs that lie beside them, or below the folder that their own is in: (name, what they repeat).
_REPEATING: tuple[tuple[str, str], ...] = (
    ("summary.*", "run=*"),
    ("profile_export_aiperf.csv", "profile_export_aiperf.json"),
    ("profile_export.jsonl", "profile_export_aiperf.json"),
    ("profile_export_aiperf_aggregate.*", "../**/profile_export_aiperf.json"),
    ("profile_export_aiperf_aggregate.*", "../../**/profile_export_aiperf.json"),
    ("profile_export_aiperf_sweep.csv", "profile_export_aiperf_sweep.json"),
    ("profile_export_aiperf_sweep.*", "../**/profile_export_aiperf.json"),
    ("profile_export_aiperf_sweep.*", "../../**/profile_export_aiperf.json"),
    ("summary_lifecycle_metrics.json", "stage_*_lifecycle_metrics.json"),
    ("per_request_lifecycle_metrics.json", "stage_*_lifecycle_metrics.json"),
)


def read_measurements(path: Path) -> ReadResult:
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or directory")
    refuse_large(path, path.stat().st_size)
    _refuse_launch_files(path)
    found = _read_csv(path) if plain_suffix(path) in _TABLES else read_documents(path)
    return replace(
        found,
        whole=() if found.problems else (file_digest(path),),
        files=found.files or (FileRead(place=path.name, format=found.format, count=len(found.records)),),
    )


def _refuse_launch_files(path: Path) -> None:
    """Scripts, settings and manifests start servers; they are no results."""
    with path.open("rb") as file:
        script = path.suffix == ".sh" or file.read(2) == b"#!"
    if script or (plain_suffix(path) in _MARKED_UP and not _is_report(path)):
        raise InputError(
            f"{path} is a launch {'script' if script else 'file'}, not a result",
            hint="name what the benchmark wrote, or the folder that launch wrote, with results/ in it",
        )


def _is_report(path: Path) -> bool:
    """InputError for a part of a report."""
    lines = opened_text(path).splitlines()
    parts = [name for name in ("results", "scenario") if any(line.startswith(f"{name}:") for line in lines)]
    if parts == ["results"]:
        raise InputError(
            f"{path}: cut off at line {len(lines)}: after its results a benchmark report has its scenario",
            hint="copy it whole from where the benchmark ran",
        )
    return len(parts) == 2


def _read_folder(folder: Path) -> ReadResult:
    """As clients leave them; repeats and settings are named and skipped."""
    paths = sorted(path for path in folder.rglob("*") if plain_suffix(path) in _RESULTS and path.is_file())
    found, problems, said = [], [], []
    for path in paths:
        place = str(path.relative_to(folder))
        try:
            note = _no_result(path)
            if note is not None:
                said.append(FileRead(place=place, format="", count=0, guessed=(note,)))
                continue
            result = read_measurements(path)
        except InputError as error:
            problems.append(Problem(where=place, what=error.message.removeprefix(f"{path}: ")))
            continue
        found.append((path.name, place, result))
        said += [replace(one, place=place) for one in result.files]
    if not found and not problems:
        raise InputError(f"{folder}: holds no result of a benchmark")
    for name, place, result in found:
        problems += [replace(one, where=one.where.replace(name, place, 1)) for one in result.problems]
    return ReadResult(
        records=tuple(
            replace(one, source=one.source.replace(name, place, 1))
            for name, place, result in found
            for one in result.records
        ),
        problems=tuple(problems),
        format=", ".join(dict.fromkeys(result.format for *_, result in found if result.format)),
        whole=tuple(file for *_, result in found for file in result.whole),
        requests={key: log for *_, result in found for key, log in result.requests.items()},
        files=tuple(said),
    )


def _no_result(path: Path) -> str | None:
    """A note why a file is skipped; None: read it."""
    if path.name in _NO_RESULTS:
        return _NO_RESULTS[path.name]
    for name, others in _REPEATING:
        if path.match(name) and any(other != path for other in path.parent.glob(others)):
            return f"repeats {others.rpartition('/')[2]}"
    if plain_suffix(path) in _MARKED_UP and not _is_report(path):
        return "settings, no result"
    if plain_suffix(path) in _TABLES and not _reader_of(path):
        return "a table of no format we know"
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"{ \r\n\t")
    return "a schema, no result" if start.startswith((b'"$schema"', b'"$defs"')) else None


def _header(path: Path) -> list[str]:
    header = opened_text(path, errors="surrogateescape").partition("\n")[0]
    if not header.strip():
        raise InputError(f"{path}: the file is empty")
    if len(header) > LONGEST_LINE:
        raise InputError(f"{path}: the header has more than {LONGEST_LINE} characters")
    try:
        return next(csv.reader([header], delimiter=delimiter_of(header)))
    except csv.Error as error:
        raise InputError(f"{path}: the header is no line of CSV: {error}") from error


def _reader_of(path: Path) -> Callable[[Path], ReadResult] | None:
    names = set(_header(path))
    return next((reader for columns, reader in _CSV if names.issuperset(columns)), None)


def _read_csv(path: Path) -> ReadResult:
    reader = _reader_of(path)
    if reader is None:
        names = _header(path)
        raise InputError(
            f"{path}: columns of no format we know: {', '.join(name[:40] for name in sorted(names)[:8])}",
            hint=f"our own CSV has at least {', '.join(OWN_COLUMNS)} and one measured column such as ttft_ms_mean",
        )
    return reader(path)
