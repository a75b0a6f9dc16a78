"""Reads an answer that was kept in a file, and compares it with the answer given again.

Not here: writing answers (cli.output)."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import duckdb

from queries.asking.question import Answer
from queries.proofs.document import SIGNIFICANT_DIGITS, is_local
from store.errors import InputError, StoreError
from store.reading import in_memory
from store.texts import from_text

_KINDS = "a file of `format` csv, json, jsonl, json-full or parquet"
_Table = tuple[list[str], list[list[object]]]


def compare_answer(path: Path, answer: Answer) -> None:
    """Raise at the first column, row or cell in which a file differs from an answer."""
    columns, rows = _read(path)
    if not columns and not answer.rows:  # JSON has no columns where it has no rows
        return
    if columns != list(answer.columns):
        odd = sorted(set(columns) ^ set(answer.columns))
        raise StoreError(f"{path}: its columns are not those of the answer: {odd[0] if odd else 'another order'}")
    if len(rows) != len(answer.rows):
        raise StoreError(f"{path}: holds {len(rows)} rows, the answer has {len(answer.rows)}")
    for number, (mine, theirs) in enumerate(zip(rows, answer.rows, strict=True), start=1):
        for name, cell, value in zip(columns, mine, theirs, strict=True):
            if not is_local(name) and _same(cell) != _same(value):
                raise StoreError(
                    f"{path}: row {number} says {name} is {cell!r:.60}, the answer says {value!r:.60}",
                    hint="the file was changed after it was written, or is of another question",
                )


def _read(path: Path) -> _Table:
    try:
        raw = path.read_bytes()
        if raw[:4] == b"PAR1":
            return _parquet(path)
        text = raw.decode("utf-8")
        if text.lstrip().startswith(("[", "{")):
            return _json(text)
        lines = list(csv.reader(text.splitlines()))
        named, *rows = [[from_text(cell) for cell in line] for line in lines]
        return named, [list[object](row) for row in rows]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, csv.Error, duckdb.Error) as error:
        raise InputError(f"{path}: not an answer: {str(error).partition(chr(10))[0][:300]}", hint=_KINDS) from error


def _parquet(path: Path) -> _Table:
    with in_memory() as connection:
        cursor = connection.execute("FROM read_parquet($path)", {"path": str(path)})
        return [str(item[0]) for item in cursor.description or ()], [list(row) for row in cursor.fetchall()]


def _json(text: str) -> _Table:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = [json.loads(line) for line in text.splitlines() if line.strip()]  # a row a line
    if isinstance(document, dict):
        document = document.get("rows", [document])
    rows = [dict(row) for row in document]
    columns = list(rows[0]) if rows else []
    return columns, [[row[name] for name in columns] for row in rows]


def _same(value: object) -> object:
    """A cell in the one form that every kind of file keeps."""
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{float(value):.{SIGNIFICANT_DIGITS}g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_same(item) for item in value]
    return _number(str(value))


def _number(text: str) -> object:
    try:
        return f"{float(text):.{SIGNIFICANT_DIGITS}g}"
    except ValueError:
        return text.lower() if text.lower() in {"true", "false"} else text
