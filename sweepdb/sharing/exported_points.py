"""Points and predictions in other programs' formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator import ledger
from queries.asking import Limits
from queries.connect import connect
from store.errors import InputError
from store.opening import open_store
from store.records import MeasurementRecord
from store.texts import csv_line
from store.whole_files import written_whole
from store.writing import get_measurements
from sweepdb.measuring import PointSelection, selected_points

ROWS = ("measured", "predicted", "both")
MOST_FILES = 10_000  # of a format with a file a point
_YAML, _JSON, _LINES = {".yaml", ".yml"}, {".json"}, {".jsonl", ".ndjson"}
_PREDICTED = """
    SELECT probe, model, device, serving_model, num_devices, tp, pp, dp, ep, moe_tp, moe_dp, batch_size, concurrency,
        linear_quantization, input_length_mean, output_length, ttft_ms, tpot_exclusive_ms, e2e_ms, input_tokens_per_s,
        output_tokens_per_s, requests_per_s, family, formula_version
    FROM fits($reserved, 'full')
    WHERE phase = 'aggregated'
        AND ($sweep IS NULL OR probe IN (SELECT probe FROM sweep_probe WHERE starts_with(sweep, $sweep)))
        AND ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    ORDER BY probe
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToExport:
    """And how many have no numbers: failed servers."""

    records: Sequence[MeasurementRecord]
    without_numbers: int


def points_to_export(
    selection: PointSelection, store_url: str | None, *, rows: str = "measured", sweep: str | None = None
) -> ToExport:
    if rows not in ROWS:
        raise InputError(f"`rows={rows}` is not one of {', '.join(ROWS)}")
    if sweep is not None and rows == "measured":
        raise InputError("`sweep` chooses predictions", hint="`rows=predicted` or `rows=both`")
    measured: list[MeasurementRecord] = []
    if rows != "predicted":
        with open_store(store_url, read_only=True) as store:
            measured = selected_points(selection, get_measurements(store))
    found = [one for one in measured if one.metrics]
    if rows != "measured":
        found += _predictions(selection, store_url, sweep)
    if not found:
        raise InputError("there is no row to export", hint="sweepdb measurements list, or sweepdb sweeps")
    return ToExport(records=found, without_numbers=len(measured) - len([one for one in measured if one.metrics]))


def _predictions(selection: PointSelection, store_url: str | None, sweep: str | None) -> Iterator[MeasurementRecord]:
    asked = {"reserved": Limits().reserved_gib, "sweep": sweep, "model": selection.model, "device": selection.device}
    with connect(store_url) as connection:
        cursor = connection.execute(_PREDICTED, asked)
        names = [str(item[0]) for item in cursor.description or ()]
        while rows := cursor.fetchmany(10_000):
            yield from (ledger.point_of_prediction(dict(zip(names, row, strict=True))) for row in rows)


def pieces_of_points(records: Sequence[MeasurementRecord], format_: str) -> Iterator[str]:
    return _PIECES[format_](records)


def write_exported(records: Sequence[MeasurementRecord], format_: str, to: Path) -> int:
    """A file, or a folder with one each; returns how many."""
    if format_ != REPORT or to.suffix.lower() in _LINES:
        pieces = pieces_of_points(records, format_)
    elif to.suffix.lower() in _YAML | _JSON:
        if len(records) > 1:
            raise InputError(
                f"{to}: a report holds one point, not {len(records):,}",
                hint="name a folder, or a file such as points.jsonl",
            )
        pieces = _yaml(records[0]) if to.suffix.lower() in _YAML else iter([_json(ledger.report_of(records[0])), "\n"])
    else:
        return _write_folder(records, to)
    with written_whole(to) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
    return 1


def _write_folder(records: Sequence[MeasurementRecord], folder: Path) -> int:
    if len(records) > MOST_FILES:
        raise InputError(
            f"{len(records):,} points would be as many files, of at most {MOST_FILES:,}",
            hint="name a file such as points.jsonl, or choose by `model`, `device` or `sweep`",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: no folder can be made there: {error.strerror}") from error
    for record in records:
        kind = ledger.rows_of_kind(record)
        with written_whole(folder / f"{kind}_{record.key[:16]}.yaml") as temporary:
            temporary.write_text("".join(_yaml(record)), encoding="utf-8")
    return len(records)


def _yaml(record: MeasurementRecord) -> Iterator[str]:
    import yaml

    yield str(yaml.safe_dump(ledger.report_of(record), sort_keys=False, allow_unicode=True))


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _report_lines(records: Iterable[MeasurementRecord]) -> Iterator[str]:
    for record in records:
        yield f"{_json(ledger.report_of(record))}\n"


def _inferencex_rows(records: Iterable[MeasurementRecord]) -> Iterator[str]:
    before = "[\n"
    for record in records:
        yield f"{before}{_json(ledger.row_of_inferencex(record))}"
        before = ",\n"
    yield "\n]\n"


def _guidellm_lines(records: Iterable[MeasurementRecord]) -> Iterator[str]:
    for line in zip(*ledger.headers_of_guidellm(), strict=True):
        yield csv_line(line, exact=True)
    for record in records:
        yield csv_line(ledger.cells_of_guidellm(record), exact=True)


REPORT = "benchmark-report"
_PIECES: Mapping[str, Callable[[Iterable[MeasurementRecord]], Iterator[str]]] = {
    REPORT: _report_lines,
    "inferencex": _inferencex_rows,
    "guidellm": _guidellm_lines,
}
POINT_FORMATS = tuple(_PIECES)
