"""Reads tables of measured kernels, whose columns tell their kind."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from store.errors import InputError
from store.light_dataclass import dataclass
from store.reading import in_memory

# A line a column of a kind: it holds words, a number, or a size that is above 0, since it is divided by, or its
# logarithm is taken. Every table also has `latency_us`: microseconds of one kernel. Other columns are ignored.
with Path(__file__).with_name("kernel_tables.csv").open(encoding="utf-8", newline="") as _file:
    _LINES = tuple(csv.DictReader(_file))
COLUMNS: Mapping[str, Mapping[str, str]] = {
    kind: {line["column"]: line["meaning"] for line in _LINES if line["kind"] == kind}
    for kind in dict.fromkeys(line["kind"] for line in _LINES)
}
_WORDS, _SIZES = ({line["column"] for line in _LINES if line["holds"] == what} for what in ("words", "size"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTable:
    """Numbers are float64, words strings, `latency_s` seconds."""

    kind: str
    numbers: Mapping[str, npt.NDArray[np.float64]]
    words: Mapping[str, npt.NDArray[np.str_]]
    latency_s: npt.NDArray[np.float64]
    source: str


def read_tables(path: Path) -> tuple[KernelTable, ...]:
    """From a file, or a folder without its sub-folders.

    A folder's files of unknown kinds are skipped."""
    if not path.exists():
        raise InputError(
            f"no kernel measurements at {path}", hint="give a folder of .parquet or .csv files, or one such file"
        )
    if path.is_file():
        return (_read(path),)
    files = sorted(file for file in path.iterdir() if file.suffix in {".parquet", ".csv"})
    tables = tuple(_read(file) for file in files if _kind(_columns(file)) is not None)
    if not tables:
        raise InputError(f"no kernel table among the {len(files)} files of {path}", hint=_known())
    return tables


def _known() -> str:
    return "a table has latency_us and the columns of one kind: " + "; ".join(
        f"{kind}: {', '.join(names)}" for kind, names in COLUMNS.items()
    )


def _kind(columns: set[str]) -> str | None:
    if "latency_us" not in columns:
        return None
    if "gemm_type" in columns:  # has the columns of `mla`, too
        return "mla_module"
    fitting = [kind for kind, names in COLUMNS.items() if set(names) <= columns]
    return max(fitting, key=lambda kind: len(COLUMNS[kind]), default=None)


def write_tables(tables: Iterable[KernelTable], folder: Path) -> tuple[Path, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        columns = {**table.words, **table.numbers, "latency_us": table.latency_s * 1e6}
        path = folder / f"{table.kind}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        written.append(path)
    return tuple(written)


_SCANS = {True: "select * from read_parquet(?)", False: "select * from read_csv(?)"}


@contextmanager
def _scanned(path: Path, before: str) -> Iterator[Any]:
    import duckdb

    try:
        with in_memory() as connection:
            yield connection.execute(before + _SCANS[path.suffix == ".parquet"], [str(path)])
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = lines[0].partition(": ")[2] or lines[0]
        raise InputError(
            f"{path}: not a table that can be read: {what[:_LONGEST_REASON]}", hint="a CSV file in UTF-8, or Parquet"
        ) from error


def _columns(path: Path) -> set[str]:
    with _scanned(path, "describe ") as found:
        return {str(row[0]) for row in found.fetchall()}


def _read(path: Path) -> KernelTable:
    kind = _kind(_columns(path))
    if kind is None:
        raise InputError(f"{path} is not a table of measured kernels", hint=_known())
    with _scanned(path, "") as scanned:
        found = scanned.fetchnumpy()
    numbers: dict[str, npt.NDArray[np.float64]] = {}
    words: dict[str, npt.NDArray[np.str_]] = {}
    for name in (*COLUMNS[kind], "latency_us"):
        column = found[name]
        if name in _WORDS:
            words[name] = np.ma.filled(column.astype(np.str_), "")
        elif column.dtype.kind in "iuf":
            numbers[name] = np.ma.filled(column.astype(np.float64), np.nan)
        else:
            raise InputError(
                f"{path}: {name} holds something else than numbers", hint=f"{name}: {_meaning(kind, name)}"
            )
    latency = numbers.pop("latency_us") * 1e-6
    sizes = {name: values for name, values in numbers.items() if name in _SIZES}
    _check_positive(path, {**sizes, "latency_us": latency})
    return KernelTable(kind=kind, numbers=numbers, words=words, latency_s=latency, source=str(path))


_LONGEST_REASON = 200


def _meaning(kind: str, name: str) -> str:
    return COLUMNS[kind].get(name, "microseconds of one kernel")


def _check_positive(path: Path, columns: Mapping[str, npt.NDArray[np.float64]]) -> None:
    for name, values in columns.items():
        bad = ~np.isfinite(values) | (values <= 0)
        if bad.any():
            raise InputError(
                f"{path}: {name} of row {int(np.flatnonzero(bad)[0]) + 1} is not a positive number",
                hint="remove or repair the row",
            )
