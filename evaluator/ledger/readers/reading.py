"""Which reader understands a file or folder: told by its columns or keys, never by its name alone."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from evaluator.ledger.readers.aiperf import AIPERF
from evaluator.ledger.readers.building import (
    LARGEST_FILE_BYTES,
    SERVER_FAILED,
    Problem,
    ReadResult,
    decoded,
    delimiter_of,
)
from evaluator.ledger.readers.comparison_tables import (
    PUBLISHED,
    PUBLISHED_COLUMNS,
    SERVING,
    SERVING_COLUMNS,
    read_published_table,
    read_serving_table,
)
from evaluator.ledger.readers.documents import read_documents
from evaluator.ledger.readers.guidellm import GUIDELLM
from evaluator.ledger.readers.inferencex import INFERENCEX
from evaluator.ledger.readers.own import (
    AICONFIGURATOR,
    AICONFIGURATOR_COLUMNS,
    OWN,
    OWN_COLUMNS,
    read_aiconfigurator,
    read_own_csv,
)
from evaluator.ledger.readers.request_logs import AIPERF_REQUESTS, INFERENCE_PERF
from evaluator.ledger.readers.stated import read_from
from evaluator.ledger.readers.vllm import VLLM
from store.errors import InputError
from store.loads import MeasuredRequests
from store.records import MeasurementRecord

_CSV: tuple[tuple[tuple[str, ...], Callable[[Path], ReadResult]], ...] = (
    (SERVING_COLUMNS, read_serving_table),
    (PUBLISHED_COLUMNS, read_published_table),
    (AICONFIGURATOR_COLUMNS, read_aiconfigurator),
    (OWN_COLUMNS, read_own_csv),
)
FORMATS = (SERVING, PUBLISHED, OWN, AICONFIGURATOR, VLLM, GUIDELLM, INFERENCEX, AIPERF, AIPERF_REQUESTS, INFERENCE_PERF,
           SERVER_FAILED)  # fmt: skip


def read_measurements(path: Path) -> ReadResult:
    """Every record of a file, or of the JSON files of a sweep's folder."""
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file or directory")
    if path.stat().st_size > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: more than {LARGEST_FILE_BYTES} bytes")
    _refuse_launch_files(path)
    found = _read_csv(path) if path.suffix.lower() in {".csv", ".tsv"} else read_documents(path)
    file = hashlib.sha256(str(path.resolve()).encode(errors="surrogateescape")).hexdigest()[:16]
    return replace(
        found,
        records=tuple(read_from(record, file) for record in found.records),
        whole=() if found.problems else (file,),
    )


def _refuse_launch_files(path: Path) -> None:
    """Refuse scripts, and YAML of settings and manifests: they start a server and are no result."""
    with path.open("rb") as file:
        script = path.suffix == ".sh" or file.read(2) == b"#!"
    if script or path.suffix in {".yaml", ".yml"}:
        raise InputError(
            f"{path} is a launch {'script' if script else 'file'}, not a result",
            hint="name what the benchmark wrote, or the folder that launch wrote, with results/ in it",
        )


def _read_folder(folder: Path) -> ReadResult:
    """A sweep's folder holds a file a run. Beside them its summaries repeat the same runs, and warm-ups are no runs."""
    files = sorted(path for path in folder.rglob("*.json") if path.is_file())
    runs = [path for path in files if path.name != "warmup.json" and not _is_summary(path, files)]
    if not runs:
        raise InputError(f"{folder}: holds no JSON file")
    records: dict[str, MeasurementRecord] = {}
    problems: list[Problem] = []
    formats: set[str] = set()
    whole: list[str] = []
    logs: dict[str, MeasuredRequests] = {}
    for path in runs:
        place = path.relative_to(folder)
        try:
            found = read_measurements(path)
        except InputError as error:
            problems.append(Problem(where=str(place), what=error.message))
            continue
        for one in found.records:
            records.setdefault(one.key, replace(one, source=one.source.replace(path.name, str(place), 1)))
        problems += [replace(one, where=one.where.replace(path.name, str(place), 1)) for one in found.problems]
        formats.add(found.format)
        whole += found.whole
        logs |= found.requests
    return ReadResult(
        records=tuple(records.values()),
        problems=tuple(problems),
        format=", ".join(sorted(formats - {""})),
        whole=tuple(whole),
        requests=logs,
    )


def _is_summary(path: Path, files: Sequence[Path]) -> bool:
    """Whether a file repeats the runs that lie beside it."""
    if path.name not in {"summary.json", "summary.jsonl"}:
        return False
    return any(other.parent == path.parent and other.name.startswith("run=") for other in files)


def _read_csv(path: Path) -> ReadResult:
    header = decoded(path, errors="surrogateescape").partition("\n")[0]
    if not header.strip():
        raise InputError(f"{path}: the file is empty")
    try:
        names = set(next(csv.reader([header], delimiter=delimiter_of(header))))
    except csv.Error as error:
        raise InputError(f"{path}: the header is no line of CSV: {error}") from error
    for columns, reader in _CSV:
        if names.issuperset(columns):
            return reader(path)
    raise InputError(
        f"{path}: columns of no format we know: {', '.join(name[:40] for name in sorted(names)[:8])}",
        hint=f"our own CSV has at least {', '.join(OWN_COLUMNS)} and one measured column such as ttft_ms_mean",
    )
