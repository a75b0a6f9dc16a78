"""Loads as lines, a line a block: stream, packed distributions, and digest."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from queries.bundles.format import Row, record_of
from store.errors import StoreError
from store.loads import (
    ArrivalRecord,
    KeptRequests,
    LoadRecord,
    PackedLoad,
    kept_digest,
    loads_digest,
    unpack_cells,
    unpack_kept,
    unpack_rows,
    whole_counts,
)
from store.reading import LOAD_VALUES, ReadTransaction, stored_loads
from store.schema import TABLES

_GAP_COLUMNS = 5
_PACKED = {"cells", "gaps", "requests", "requests_digest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledLoads:
    """Committed together; their digest is compared when read."""

    scenario: str
    sweep: str
    arrival: ArrivalRecord
    loads: tuple[LoadRecord, ...]


class _Arrival(NamedTuple):
    key: str
    process: str
    requests: int
    seed: int
    cv: float
    trace_sha256: str | None


def load_lines(transaction: ReadTransaction, keys: Collection[str]) -> Iterator[Row]:
    names = ", ".join(_Arrival._fields)
    streams = {one.key: one for one in transaction.rows(_Arrival, f"SELECT {names} FROM arrival")}  # noqa: S608 - ours
    for block in stored_loads(transaction):
        if block.scenario not in keys:
            continue
        if not block.unchanged:
            raise StoreError(
                f"The loads of block {block.block_id}, of scenario {block.scenario[:12]}, are not those that were"
                " committed.",
                hint="Nothing was written. Run: sweepdb db check",
            )
        yield {
            "scenario": block.scenario,
            "sweep": block.sweep,
            "arrival": streams[block.arrival]._asdict(),
            "digest": block.digest,
            "loads": [_line(one) for one in block.loads],
        }


def loads_of_line(item: Mapping[str, Any]) -> BundledLoads:
    """ValueError where a line is none, or not its digest's."""
    arrival = record_of(ArrivalRecord, item["arrival"])
    packed = [_packed(one) for one in item["loads"]]
    scenario = str(item["scenario"])
    try:
        made = loads_digest(scenario, arrival.key, packed)
    except StoreError as error:
        raise ValueError(error.message) from error
    if made != item["digest"]:
        raise ValueError(f"the loads of scenario {scenario[:12]} are not those that were exported")
    return BundledLoads(scenario=scenario, sweep=str(item["sweep"]), arrival=arrival, loads=tuple(map(_record, packed)))


def _line(load: PackedLoad) -> Row:
    line = {**load.values, "cells": _text(load.cells), "gaps": _text(load.gaps)}
    if load.requests is not None:
        line |= {"requests": _text(load.requests), "requests_digest": load.requests_digest}
    return line


def _text(packed: bytes) -> str:
    return base64.b64encode(packed).decode()


def _packed(item: Mapping[str, Any]) -> PackedLoad:
    values = {name: value for name, value in item.items() if name not in _PACKED}
    requests = None if item.get("requests") is None else base64.b64decode(item["requests"], validate=True)
    if odd := set(values) - set(LOAD_VALUES):
        raise ValueError(f"a load has no {min(odd)!r}")
    return PackedLoad(
        values={name: _value(name, values.get(name)) for name in LOAD_VALUES},
        cells=base64.b64decode(item["cells"], validate=True),
        gaps=base64.b64decode(item["gaps"], validate=True),
        requests=requests,
        requests_digest=item.get("requests_digest"),
    )


def _value(name: str, value: object) -> object:
    column = TABLES["load"].column(name)
    if value is None and column.nullable:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    kind = column.type.kind
    fits = isinstance(value, str) if kind == "text" else number and (kind == "double" or isinstance(value, int))
    if not fits:
        raise ValueError(f"{name} of a load is {value!r:.40}, which it cannot be")
    return float(value) if kind == "double" and isinstance(value, int) else value


def _record(packed: PackedLoad) -> LoadRecord:
    values: dict[str, Any] = dict(packed.values)
    try:
        cells, parts = unpack_cells(packed.cells)
        gaps = whole_counts(unpack_rows(packed.gaps, _GAP_COLUMNS))
        requests = None if packed.requests is None else _requests(packed.requests, packed.requests_digest, values)
    except StoreError as error:
        raise ValueError(error.message) from error
    return LoadRecord(**values, cells=cells, parts=parts, gaps=gaps, requests=requests)


def _requests(packed: bytes, digest: str | None, values: Mapping[str, Any]) -> KeptRequests:
    """As many as count, and of its digest."""
    if kept_digest(str(values["key"]), packed) != digest:
        raise ValueError(f"the requests of load {values['key']:.12} are not those that were exported")
    requests = unpack_kept(packed)
    rejected = int((requests.ttft_us < 0).sum())
    if (requests.ttft_us.size, rejected) != (values["counted_requests"], values["rejected"]):
        raise ValueError(f"load {values['key']:.12} has other requests than it counts")
    return requests
