"""Compares a kept answer file with the answer given again, both written and read alike."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from queries.asking.question import Answer
from queries.proofs.document import (
    SIGNIFICANT_DIGITS,
    first_difference,
    in_one_form,
    is_local,
    plain,
    shown_digest,
    spelled,
    strict_json,
)
from store.errors import InputError, StoreError
from store.reading import duckdb, in_memory
from store.texts import from_text

Written = Callable[[Answer, str, bool], Iterable[str]]  # an answer in a format, with composition or not, in pieces
_KINDS = "a file of `format` csv, json, jsonl, json-full or parquet"
_FLOAT = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_CHANGED = "the file was changed after it was written, or is of another question"
_TABLES = ("rows", "nearest")


class KeptAnswer(NamedTuple):
    path: Path
    written: Written


class _Row(NamedTuple):
    names: list[str]
    cells: list[object]


class _Kept(NamedTuple):
    rows: list[_Row]
    nearest: list[_Row]
    beside: dict[str, Any]


def compare_answer(file: KeptAnswer, answer: Answer, shown: Mapping[str, Sequence[str]]) -> None:
    """Raises at the first difference.

    `shown` are digests of whole rows: cells of one copy of a store, or of errors known on a day, may be as then."""
    path = file.path
    try:
        raw = path.read_bytes()
        kind = _kind_of(raw)
        kept = _parquet(path) if kind == "parquet" else _read(raw.decode("utf-8"), kind)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
        csv.Error,
        duckdb.Error,
    ) as error:
        raise InputError(f"{path}: not an answer: {str(error).partition(chr(10))[0][:300]}", hint=_KINDS) from error
    if kind == "parquet":
        now = _in_one_form(answer.columns, answer.rows)
    else:
        now = _read("".join(file.written(answer, kind, "composition" in kept.beside)), kind)
    found = first_difference(kept.beside, now.beside)
    if found is not None:
        place, said, here = found
        raise StoreError(f"{path}: says {place} is {said!r:.60}, the answer says {here!r:.60}", hint=_CHANGED)
    for name, mine, theirs in zip(_TABLES, kept[:2], now[:2], strict=True):
        _compare_rows(f"{path}: {'row' if name == 'rows' else 'nearest row'}", mine, theirs, shown.get(name, ()))


def _compare_rows(place: str, kept: Sequence[_Row], now: Sequence[_Row], shown: Sequence[str]) -> None:
    if len(kept) != len(now):
        raise StoreError(f"{place}s: the file holds {len(kept)} rows, the answer has {len(now)}", hint=_CHANGED)
    for number, (mine, theirs) in enumerate(zip(kept, now, strict=True), start=1):
        if mine.names != theirs.names:
            odd = sorted(set(mine.names) ^ set(theirs.names))
            raise StoreError(
                f"{place} {number}: its columns are not those of the answer: {odd[0] if odd else 'another order'}",
                hint=_CHANGED,
            )
        others = [
            (name, cell, value)
            for name, cell, value in zip(mine.names, mine.cells, theirs.cells, strict=True)
            if spelled(plain(cell)) != spelled(plain(value))
        ]
        local = all(is_local(name) for name, *_ in others)
        if not others or (local and number <= len(shown) and shown_digest(*mine) == shown[number - 1]):
            continue
        name, cell, value = others[0]
        raise StoreError(
            f"{place} {number} says {name} is {cell!r:.60}, the answer says {value!r:.60}",
            hint=_CHANGED,
        )


def _kind_of(raw: bytes) -> str:
    if raw[:4] == b"PAR1":
        return "parquet"
    start = raw.lstrip()[:1]
    if start == b"[":
        return "json"
    if start != b"{":
        return "csv" if start else "jsonl"  # without rows
    try:
        return "json-full" if "rows" in json.loads(raw) else "jsonl"
    except ValueError:
        return "jsonl"  # a row a line


def _read(text: str, kind: str) -> _Kept:
    if kind == "csv":
        read = csv.reader(io.StringIO(text, newline=""), strict=True)
        names, *lines = ([from_text(cell) for cell in line] for line in read)
        if any(len(line) != len(names) for line in lines):
            raise ValueError("a line has another number of cells than the first")
        return _Kept([_Row(names, [*map(_cell, line)]) for line in lines], [], {"columns": names})
    if kind == "jsonl":
        return _Kept([_row(strict_json(line)) for line in text.split("\n") if line.strip()], [], {})
    document = strict_json(text)
    if kind == "json":
        return _Kept([*map(_row, document)], [], {})
    beside = {name: value for name, value in document.items() if name not in _TABLES}
    return _Kept(
        [*map(_row, document["rows"])], [*map(_row, document["nearest"])], plain(beside, digits=SIGNIFICANT_DIGITS)
    )


def _row(item: Mapping[str, object]) -> _Row:
    return _Row(list(item), plain(list(item.values()), digits=SIGNIFICANT_DIGITS))


def _cell(text: str) -> object:
    """Numbers other than whole ones to twelve digits."""
    is_float = _FLOAT.fullmatch(text) is not None and not text.lstrip("-").isdecimal()
    return plain(float(text), digits=SIGNIFICANT_DIGITS) if is_float else text


def _parquet(path: Path) -> _Kept:
    with in_memory() as connection:
        cursor = connection.execute("FROM read_parquet($path)", {"path": str(path)})
        names = [str(item[0]) for item in cursor.description or ()]
        return _in_one_form(names, cursor.fetchall())


def _in_one_form(names: Sequence[str], rows: Iterable[Sequence[object]]) -> _Kept:
    return _Kept([_Row(list(names), [*map(in_one_form, row)]) for row in rows], [], {"columns": list(names)})
