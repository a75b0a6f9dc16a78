"""Statements of a source about how a point was asked and served, beside sizes and lengths.

They are typed, and set by the file's reader. Not here: what follows for a prediction (evaluator.ledger)."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

from store.records import MeasurementRecord

FIELD = "circumstances"  # of the fields that a record keeps beside its columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Facts of one measured point; what a source does not say is as here."""

    point_id: str = ""  # at the source, where recipes of launches are known by it
    measured_year: int | None = None
    saturated: bool = False  # everything is asked for at once, and the memory decides how many are served together
    all_at_once: bool = False  # the number beside the point counts requests, all there from the start, not users
    static_batch: bool = False  # all requests of a batch are there at the start, none follows
    replayed: bool = False  # a few fixed prompts over and over, against a prefix cache whose hits nobody states
    attention_replicas: bool = False  # attention data parallelism over all devices, experts split by expert
    narrow_keys: bool = False  # keys and values in eight bits
    ttft_holds_transfer: bool = False  # a prompt's first token counts when its keys have reached the decode instance
    line_rate_bytes_per_s: float | None = None  # between instances
    linear_format: str | None = None  # where linears and experts are named apart
    experts_format: str | None = None
    shortest_length: float | None = None  # of a client that spreads lengths: its shortest over its longest


_FIELDS = fields(Circumstances)


def kept(circumstances: Circumstances) -> dict[str, object]:
    """The circumstances that are not as usual, as a record keeps them; nothing where all are usual."""
    unusual = {item.name: value for item in _FIELDS if (value := getattr(circumstances, item.name)) != item.default}
    return {FIELD: unusual} if unusual else {}


def circumstances_of(record: MeasurementRecord) -> Circumstances:
    """The facts that the reader of a point's file has set."""
    stored = json.loads(record.extra).get(FIELD) or {}
    known = {item.name for item in fields(Circumstances)}
    return Circumstances(**{name: value for name, value in stored.items() if name in known})
