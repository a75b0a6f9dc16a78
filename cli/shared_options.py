"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from cli.derived import spelled
from store.errors import InputError
from sweepdb import asking, evaluating
from sweepdb.stores import STANDARD_OUTPUT

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", envvar="SWEEPDB_STORE", help="sqlite:///path or postgresql://...; default ./sweepdb.sqlite"
    ),
]
FormatOption = Annotated[str, typer.Option("--format", help="table, csv, json, jsonl or parquet")]


JobsOption = Annotated[int, typer.Option(help="threads that simulate requests that arrive; evaluating takes one")]
WorkersOption = Annotated[
    str | None, typer.Option(help="who evaluates: dask://HOST:PORT, dask:N, processes:N, or shard:I/M of an array")
]
PresetOption = Annotated[str, typer.Option(help="definitions: sweepdb, upstream, seed000 or seed001")]
FailEmptyOption = Annotated[bool, typer.Option("--fail-empty", help="exit 5 when nothing fits")]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="seconds that an answer may take")]


def output_path(typed: str) -> Path:
    return STANDARD_OUTPUT if typed == "-" else Path(typed)


OUTPUT_SHAPE = "PATH|-"
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", parser=output_path, metavar=OUTPUT_SHAPE, help="write to this file or pipe; - is standard output"
    ),
]


_Number = TypeVar("_Number", int, float)


def parse_numbers(text: str | None, option: str, kind: type[_Number]) -> tuple[_Number, ...] | None:
    """`1,2,4` as numbers; an empty list stands for powers of two; None was not given."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(",") if part)
    except ValueError:
        raise InputError(f"{option} takes {'whole ' if kind is int else ''}numbers, not {text!r}") from None


def parse_batch_range(text: str | None) -> tuple[int, int | None]:
    sizes = parse_numbers(text, "--batch-range", int) or ()
    if len(sizes) > 2:
        raise InputError(f"--batch-range takes one or two numbers, not {len(sizes)}")
    if not sizes:
        return 1, None
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def joined_numbers(options: Mapping[str, Any], items: Mapping[str, asking.Declared]) -> dict[str, Any]:
    parsed = dict(options)
    for keyword, item in items.items():
        text = options.get(keyword)
        if text is None or not evaluating.takes_numbers(item):
            continue
        if keyword == "rates" and text == "auto":
            parsed[keyword] = None
        elif keyword == "batch_range":
            parsed[keyword] = parse_batch_range(text)
        else:
            kind: type = float if tuple[float, ...] in get_args(item.type) else int
            parsed[keyword] = parse_numbers(text, spelled(keyword), kind)
    return parsed
