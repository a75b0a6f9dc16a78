"""Operators traced ahead, so that most questions trace none.

`operators.zip` has a member a model: columns that its sets share, and each set's choice."""

from __future__ import annotations

import functools
import json
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from evaluator.graph.capture import capture_operators
from evaluator.graph.operators import OperatorSet, operators_from_json, operators_to_json
from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from evaluator.graph.capture.capture_request import CaptureRequest

FILE = Path(__file__).with_name("operators.zip")
TEMPLATES = "templates"  # the member of what operators of all models are written with: JSON without its numbers
NUMBER, KEY, STEP, DRAFT = "#", '"<key>"', '"<operators>"', '"<draft_operators>"'  # what stands in their place


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One model's sets, by shape: those with the same templates, a row a set."""

    columns: tuple[tuple[str, ...], ...]  # the numbers of several rows, or one that all rows share
    tables: tuple[tuple[int, ...], ...]  # template, and the column of each of its numbers
    shapes: tuple[tuple[tuple[int, int], ...], ...]  # table and the column of rows of it: the set, then its operators
    steps: tuple[int, ...]  # how many operators of a shape are of the step; others draft
    rows: dict[tuple[str, str], tuple[int, int]]  # shape and row of a plan and all else

    def text(self, place: tuple[str, str], key: str) -> str | None:
        if place not in self.rows:
            return None
        shape, row = self.rows[place]
        head, *parts = [self._filled(table, int(self._of(column, row))) for table, column in self.shapes[shape]]
        steps = self.steps[shape]
        head = head.replace(KEY, f'"{key}"').replace(STEP, ",".join(parts[:steps]))
        return head.replace(DRAFT, ",".join(parts[steps:]))

    def _of(self, column: int, row: int) -> str:
        values = self.columns[column]
        return values[row] if len(values) > 1 else values[0]

    def _filled(self, table: int, row: int) -> str:
        template, *columns = self.tables[table]
        return "".join(
            chain(*zip_longest(_templates()[template], [self._of(one, row) for one in columns], fillvalue=""))
        )


def shipped_text(request: CaptureRequest) -> str | None:
    model, *place = request.place
    shelf = _shelf(model)
    return None if shelf is None else shelf.text((place[0], place[1]), request.key)


def operators_text(request: CaptureRequest) -> tuple[str, bool]:
    shipped = shipped_text(request)
    return (operators_to_json(capture_operators(request)), True) if shipped is None else (shipped, False)


def operators_of_request(request: CaptureRequest) -> OperatorSet:
    shipped = shipped_text(request)
    return capture_operators(request) if shipped is None else operators_from_json(shipped)


@functools.cache
def _file() -> ZipFile:
    return ZipFile(FILE)


def _read(member: str) -> Any:  # noqa: ANN401  JSON
    return json.loads(_file().read(member))


@functools.cache
def _templates() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(one.split(NUMBER)) for one in _read(TEMPLATES))


@functools.lru_cache(maxsize=8)
def _shelf(model: str) -> Shelf | None:
    if not FILE.exists() or model not in _file().NameToInfo:
        return None
    said = _read(model)
    plans, others, found = said["plans"], said["others"], said["rows"]
    return Shelf(
        columns=tuple(tuple(one.split(" ")) for one in said["columns"]),
        tables=tuple(map(tuple, said["tables"])),
        shapes=tuple(tuple(zip(one[::2], one[1::2], strict=True)) for one in said["shapes"]),
        steps=tuple(said["steps"]),
        rows={
            (plans[plan], others[other]): (shape, row)
            for shape, (of_plans, of_others) in enumerate(found)
            for row, (plan, other) in enumerate(zip(of_plans, of_others, strict=True))
        },
    )
