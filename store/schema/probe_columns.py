"""A probe's columns for readers: joined names, measures, and derived ones.

Snapshots, views, instances and pairs follow. Declarations: store.schema.tables."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

from store.light_dataclass import dataclass
from store.schema.declaring import PHASES, TYPES, Column, OnPairs, Phase
from store.schema.plan_columns import OF_PLANS, label_sql
from store.schema.tables import ALIASES, MEASURES, TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadColumn:
    """DuckDB type, unit, meaning, and source.

    A derived column's source is portable SQL over a stored probe's columns."""

    name: str
    type: str
    unit: str
    meaning: str
    source: str
    phases: tuple[Phase, ...] = PHASES
    on_pairs: OnPairs = "sides"


def read_column(
    column: Column,
    source: str,
    *,
    name: str | None = None,
    meaning: str | None = None,
    on_pairs: OnPairs | None = None,
) -> ReadColumn:
    """Under its own name and meaning unless others are given."""
    return ReadColumn(
        name=name or column.name,
        type=column.type.read_as,
        unit=column.unit,
        meaning=meaning or column.told or column.meaning,
        source=source,
        phases=column.phases,
        on_pairs=on_pairs or column.on_pairs or "sides",
    )


def _of(
    source: str, name: str | None = None, meaning: str | None = None, *, on_pairs: OnPairs | None = None
) -> ReadColumn:
    alias, _, stored = source.partition(".")
    table = TABLES[ALIASES[alias]]
    column = table.column(stored)
    shown = on_pairs or column.on_pairs or ("once" if table.once else "sides")
    return read_column(column, source, name=name, meaning=meaning, on_pairs=shown)


def _every(alias: str, *without: str) -> Iterator[ReadColumn]:
    """Without keys, references and documents."""
    for column in TABLES[ALIASES[alias]].columns:
        if not (column.primary or column.unique or column.refers_to or column.unit == "JSON" or column.name in without):
            yield _of(f"{alias}.{column.name}")


NAMED_COLUMNS: tuple[ReadColumn, ...] = (
    _of("sc.id", "scenario_id", "integer key of the scenario, for joins within one store", on_pairs="hidden"),
    _of("b.id", "block_id", "integer key of the block the probe was committed with", on_pairs="hidden"),
    _of("sj.key", "subject", "content key of what the row is about"),
    _of("sc.key", "scenario", "content key of what determines the numbers"),
    _of("sw.key", "first_sweep", "sweep that stored the probe"),
    _of("b.created_at", "stored_at", "when the probe was committed"),
    _of("sc.formula_version"),
    _of("d.family"),
    _of("m.name", "model", "the name the model was first asked by", on_pairs="once"),
    _of("m.architecture", on_pairs="once"),
    _of("d.name", "device", "device profile by name"),
    _of("d.key", "device_key", "content key of the device profile, calibration included"),
    _of("d.vendor"),
    _of("d.memory_bytes", "device_memory_bytes"),
    *(_of(f"p.{name}") for name in (*(size.name for size in OF_PLANS), "num_devices")),
    *_every("pr"),
    *_every("sj", "device_name", "phase"),  # the device's own name, and the last of all
    _of("sc.launchable_by", "launchable"),
    ReadColumn(
        name="workload",
        type="VARCHAR",
        unit="none",
        meaning="the user's name of the workload, else its label",
        source="COALESCE(w.name, w.label)",
        on_pairs="once",
    ),
    _of("w.key", "workload_key", "content key of the workload"),
    *_every("w", "label", "name"),
    _of("sj.phase"),
)
MEASURE_COLUMNS: tuple[ReadColumn, ...] = (
    _of("pb.batch_size"),
    *(read_column(column, f"pb.{column.name}") for column in MEASURES),
)
PROBE_COLUMNS = NAMED_COLUMNS + MEASURE_COLUMNS

# A composed batch whose prompts are shorter than the distribution's is not faster: QPS by mean work a request.
_WORK_SHARE = "coalesce(realised_input_length_mean / input_length_mean, 1)"
# Of an aggregated batch only the prefills are composed: its decodes are of the whole distribution already.
_MISSED_MS = f"(CASE convention WHEN 'upstream' THEN 0 ELSE ttft_ms * (1 / {_WORK_SHARE} - 1) END)"
# Clients that draw lengths from [shortest, 1] of those named see their mean; a probe is stored for the longest.
# From 0.8 on the mean is 0.9: of 500 tokens at 10 ms, 50 tokens and 500 ms less.
_LENGTH_SHARE = "((1.0 + coalesce(shortest_length, 1.0)) / 2)"
WHOLE_MS = f"(e2e_ms - coalesce((1.0 - {_LENGTH_SHARE}) * output_length * tpot_exclusive_ms, 0))"
STEPS = {  # what several derived columns are made of, by the name that stands for it in them
    "capacity": f"(1000.0 * concurrency / nullif(makespan_ms, 0) * {_WORK_SHARE})",
    "decoded_per_s": "(concurrency * 1000.0 / nullif(tpot_exclusive_ms, 0))",
    "missed_ms": _MISSED_MS,
    "length_share": _LENGTH_SHARE,
    "whole_ms": WHOLE_MS,
    "finished_per_s": f"(1000.0 * concurrency / nullif({WHOLE_MS} + {_MISSED_MS}, 0))",
}
_TEXTS = {
    "{work_share}": _WORK_SHARE,
    "{minus_one}": "{decoded_per_s} / (CASE WHEN output_length - 1 > 1 THEN output_length - 1 ELSE 1 END)",
    "{plan_label}": label_sql(),
}


def _derived(line: Mapping[str, str]) -> ReadColumn:
    """Portable SQL over a stored probe's columns: for every row, or by phase."""
    every = line["every"]
    cases = "".join(f" WHEN '{phase}' THEN {line[phase]}" for phase in PHASES if line[phase])
    source = every or f"CASE phase{cases} END"
    for name, sql in _TEXTS.items():
        source = source.replace(name, sql)
    phases = line["phases"].split("+") if line["phases"] else PHASES
    return ReadColumn(
        name=line["name"],
        type=TYPES[line["type"]].read_as,
        unit=line["unit"],
        meaning=line["meaning"],
        source=source,
        phases=tuple(phase for phase in PHASES if phase in phases and (every or line[phase])),
        on_pairs=cast("OnPairs", line["pairs"] or "sides"),
    )


# A row's reference; what comes in the place of the column of its name; and further ones.
with Path(__file__).with_name("derived_columns.csv").open(encoding="utf-8", newline="") as _file:
    REFERENCE, WHOLE_REQUEST, *_derived_columns = map(_derived, csv.DictReader(_file))
DERIVED_COLUMNS: tuple[ReadColumn, ...] = tuple(_derived_columns)
# Stored names that readers see under another one; both can be read until the next release.
_OLD_RATES = {
    name.replace("requests_per_s", "qps"): name
    for name in (
        "prefill_capacity_requests_per_s", "prefill_ttft_requests_per_s", "decode_minus_one_requests_per_s",
        "decode_full_requests_per_s",
    )
}  # fmt: skip
OLD_COLUMNS = {"seats": "max_num_seqs", "max_batched_tokens": "max_num_batched_tokens", **_OLD_RATES}
_RENAMED = tuple(
    replace(one, name=OLD_COLUMNS[one.name], source=one.name) for one in PROBE_COLUMNS if one.name in OLD_COLUMNS
)
_OF_BEFORE = tuple(
    replace(one, name=old) for old, new in _OLD_RATES.items() for one in DERIVED_COLUMNS if one.name == new
)


def _as_read(column: ReadColumn) -> ReadColumn:
    """Another in its place, or marked as an old name."""
    if column.name == WHOLE_REQUEST.name:
        return WHOLE_REQUEST
    if column.name in OLD_COLUMNS:
        return replace(column, meaning=f"old name of {OLD_COLUMNS[column.name]}, gone with the next release")
    return column


# In the order of the view `probe`; the keys that hold within a store come last.
VIEW_COLUMNS = (
    REFERENCE,
    *map(_as_read, PROBE_COLUMNS[2:]),
    *DERIVED_COLUMNS,
    *_RENAMED,
    *map(_as_read, _OF_BEFORE),
    *PROBE_COLUMNS[:2],
)
_SHOWN = tuple(column for column in VIEW_COLUMNS if column.name not in OLD_COLUMNS)

SORT_ORDER = (
    "model, workload, phase, device, num_devices, tp, pp, dp, ep, moe_tp, moe_dp, scenario_id, batch_size, block_id"
)


def layout_digest() -> str:
    """Names, order and types, so that other layouts are recognised."""
    text = ",".join(f"{column.name} {column.type}" for column in PROBE_COLUMNS)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def view_sql(stored: str) -> str:
    derived = {
        column.name: column.source.format(**STEPS)
        for column in (REFERENCE, WHOLE_REQUEST, *DERIVED_COLUMNS, *_RENAMED, *_OF_BEFORE)
    }
    shown = ", ".join(
        f"{derived[name]} AS {name}" if name in derived else name for name in (column.name for column in VIEW_COLUMNS)
    )
    return f"SELECT {shown} FROM {stored}"  # noqa: S608 - our text


def probe_select(stored: str, wanted: Collection[str] | None = None) -> str:
    """The view `probe`; of its columns those that are `wanted`, and of stored ones what they are made of."""
    derived = {
        one.name: one.source.format(**{name: name for name in STEPS})
        for one in (REFERENCE, WHOLE_REQUEST, *DERIVED_COLUMNS, *_RENAMED, *_OF_BEFORE)
    }
    names = [one.name for one in VIEW_COLUMNS if wanted is None or one.name in wanted]
    shown = ", ".join(f"{derived[name]} AS {name}" if name in derived else name for name in names)
    steps = {name: sql for name, sql in STEPS.items() if name in words_of(shown)}
    read = words_of(" ".join((shown, *steps.values())))
    inner = ", ".join(
        (*(one.name for one in PROBE_COLUMNS if one.name in read), *(f"{sql} AS {name}" for name, sql in steps.items()))
    )
    return f"SELECT {shown} FROM (SELECT {inner} FROM {stored})"  # noqa: S608 - our text


def words_of(sql: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sql))


MEASURED_COLUMNS = frozenset((
    "probe", "subject", "scenario", "stored_at", "family", "model", "device", "tp", "pp", "dp", "ep", "plan",
    "num_devices", "linear_quantization", "attention_quantization", "convention", "serving_model", "input_length",
    "input_length_mean", "output_length", "workload", "phase", "batch_size", "concurrency", "ttft_ms",
    "tpot_exclusive_ms", "tpot_inclusive_ms", "e2e_ms", "requests_per_s", "input_tokens_per_s", "output_tokens_per_s",
    "output_tokens_per_s_per_device", "tokens_per_s_per_user",
))  # fmt: skip  # of a probe, that a measured setting has


def measured_select(also: Collection[str] = ()) -> str:
    """In the columns of `probe`; `also` names further ones."""
    return ", ".join(
        one.name if one.name in MEASURED_COLUMNS or one.name in also else f"NULL::{one.type} AS {one.name}"
        for one in VIEW_COLUMNS
    )


@cache
def shown_columns() -> Mapping[str, Mapping[str, str]]:
    """Lists of what is shown of a probe `p`, or of a pair of `p` and `d`: what selects each column, by its name."""
    of_instances = [one.name for one in _SHOWN if one.name not in (*_KEYS, _BY_RULE)]
    return {
        "instance_columns": {name: f"p.{name}" for name in of_instances},
        "pair_columns": dict(_pair_columns("p", "d")),
    }


def _pair_columns(prefill: str, decode: str) -> Iterator[tuple[str, str]]:
    for column in _SHOWN:
        if column.on_pairs == "once":
            yield column.name, f"{prefill}.{column.name}"
    for side, alias in (("prefill", prefill), ("decode", decode)):
        for column in _SHOWN:
            if column.name != _BY_RULE and column.on_pairs in {"sides", "alone"} and side in column.phases:
                name = column.name
                plain = column.on_pairs == "alone" or name.startswith(f"{side}_")
                yield (name, f"{alias}.{name}") if plain else (f"{side}_{name}", f"{alias}.{name} AS {side}_{name}")


def filled(sql: str) -> str:
    """Fills names in braces: `{pair_columns}`."""
    return _NAMED.sub(lambda match: _declared()[match[1]], sql)


@cache
def _declared() -> dict[str, str]:
    return {
        "probe_select": probe_select("raw.stored_probe"),
        **{name: ", ".join(columns.values()) for name, columns in shown_columns().items()},
        "measured_columns": measured_select(),
        "reference": REFERENCE.source,
        "plan_label": label_sql(),
        "plan_sizes": ", ".join(size.name for size in OF_PLANS),
        "plan_knobs": ", ".join(
            f"{{'section': 'knob', 'name': '{size.name}', 'unit': '{size.unit}', 'position': {33 + place / 100},"
            f" 'value': {size.name}::DOUBLE}}"
            for place, size in enumerate(OF_PLANS)
        ),
    }


_KEYS = ("scenario_id", "block_id")
_BY_RULE = "requests_per_s"  # an answer has those of the named rule
_NAMED = re.compile(r"\{([a-z_]+)\}")
_WORD = re.compile(r"[a-z]\w*")
