"""The columns of a stored probe as readers see it: names joined to measures, in the order snapshots hold them.

Not here: measures derived from these (queries/views), and the declarations (store.schema.tables)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from store.schema.closed_sets import TIER_PLACES
from store.schema.declaring import Column
from store.schema.joins import ALIASES
from store.schema.measures import MEASURES
from store.schema.plan_columns import OF_PLANS
from store.schema.tables import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumn:
    """One column as readers see it: its DuckDB type, unit and meaning, and where the store has it."""

    name: str
    type: str
    unit: str
    meaning: str
    source: str


def read_column(column: Column, source: str, *, name: str | None = None, meaning: str | None = None) -> ReadColumn:
    """Return a declared column as readers see it, under its own name and meaning unless others are given."""
    return ReadColumn(
        name=name or column.name,
        type=column.type.read_as,
        unit=column.unit,
        meaning=meaning or column.told or column.meaning,
        source=source,
    )


def _of(source: str, name: str | None = None, meaning: str | None = None) -> ReadColumn:
    alias, _, stored = source.partition(".")
    return read_column(TABLES[ALIASES[alias]].column(stored), source, name=name, meaning=meaning)


_NAMED_BY_HAND = {"device_name", "phase"}  # the device's own name, and the last of all


def _of_subject() -> Iterator[ReadColumn]:
    """Every field of the subject, the first two as the first snapshots had them."""
    fields = [column for column in TABLES["subject"].columns if not (column.primary or column.unique)]
    own = {column.name: column for column in fields if not column.refers_to and column.name not in _NAMED_BY_HAND}
    for name in dict.fromkeys(("compile", "convention", *own)):
        yield read_column(own[name], f"sj.{name}")


NAMED_COLUMNS: tuple[ReadColumn, ...] = (
    _of("sc.id", "scenario_id", "integer key of the scenario, for joins within one store"),
    _of("b.id", "block_id", "integer key of the block the probe was committed with"),
    _of("sj.key", "subject", "content key of what the row is about"),
    _of("sc.key", "scenario", "content key of what determines the numbers"),
    _of("sw.key", "first_sweep", "sweep that stored the probe"),
    _of("b.created_at", "stored_at", "when the probe was committed"),
    _of("sc.formula_version"),
    _of("d.family", meaning="cost model: theoretical or calibrated"),
    _of("m.name", "model", "the name the model was first asked by"),
    _of("m.architecture"),
    _of("d.name", "device", "device profile by name"),
    _of("d.key", "device_key", "content key of the device profile, calibration included"),
    _of("d.vendor", meaning="who makes the device"),
    _of("d.memory_bytes", "device_memory_bytes", "memory of one device"),
    *(_of(f"p.{name}") for name in (*(size.name for size in OF_PLANS), "num_devices")),
    _of("pr.linear_quantization", meaning="number format of linears"),
    _of("pr.experts_quantization", meaning="number format of experts"),
    _of("pr.attention_quantization", meaning="number format of the KV cache"),
    _of("pr.mxfp4_group_size", meaning="weights that share one MXFP4 scale"),
    _of("pr.mixers_quantization", meaning="number format of what mixes tokens; NULL: as linears"),
    _of("pr.head_quantization", meaning="number format of the vocabulary head; NULL: 16 bits"),
    _of("pr.drafts_quantization", meaning="number format of layers that draft; NULL: as the others"),
    *_of_subject(),
    _of("sc.launchable_by", "launchable"),
    ReadColumn(
        name="workload",
        type="VARCHAR",
        unit="none",
        meaning="the user's name of the workload, else its label",
        source="COALESCE(w.name, w.label)",
    ),
    _of("w.key", "workload_key", "content key of the workload"),
    *(_of(f"w.{name}") for name in ("input_length", "input_length_mean", "output_length", "prefix_cache_hit_rate")),
    *(_of(f"w.{tier}_hit_rate") for tier in TIER_PLACES),
    _of("w.max_batched_tokens", meaning="token budget of one step, per replica"),
    _of("w.mtp_tokens"),
    _of("sj.phase"),
)
MEASURE_COLUMNS: tuple[ReadColumn, ...] = (
    _of("pb.batch_size"),
    *(read_column(column, f"pb.{column.name}") for column in MEASURES),
)
PROBE_COLUMNS = NAMED_COLUMNS + MEASURE_COLUMNS

SORT_ORDER = (
    "model, workload, phase, device, num_devices, tp, pp, dp, ep, moe_tp, moe_dp, scenario_id, batch_size, block_id"
)


def layout_digest() -> str:
    """Identify names, order and types of the columns, so that a snapshot of another layout is recognised."""
    text = ",".join(f"{column.name} {column.type}" for column in PROBE_COLUMNS)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
