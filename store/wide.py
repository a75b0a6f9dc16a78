"""The columns of a stored probe as readers see it: names joined to measures, in the order snapshots hold them.

Not here: measures derived from these (queries/views), and the measures themselves (store.columns)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from store.columns import PROBE_COLUMNS

_MEASURE_TYPES = {"integer": "BIGINT", "float": "DOUBLE", "split": "FLOAT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WideColumn:
    """One column of a stored probe: its DuckDB type, unit and meaning, and where the store has it."""

    name: str
    type: str
    unit: str
    meaning: str
    source: str


def _named(name: str, type_: str, source: str, unit: str, meaning: str) -> WideColumn:
    return WideColumn(name=name, type=type_, unit=unit, meaning=meaning, source=source)


NAMED_COLUMNS: tuple[WideColumn, ...] = (
    _named("scenario_id", "BIGINT", "sc.id", "none", "integer key of the scenario, for joins within one store"),
    _named("block_id", "BIGINT", "b.id", "none", "integer key of the block the probe was committed with"),
    _named("subject", "VARCHAR", "sj.key", "sha256", "content key of what the row is about"),
    _named("scenario", "VARCHAR", "sc.key", "sha256", "content key of what determines the numbers"),
    _named("first_sweep", "VARCHAR", "sw.key", "hex", "sweep that stored the probe"),
    _named("stored_at", "TIMESTAMP", "b.created_at", "UTC", "when the probe was committed"),
    _named("formula_version", "INTEGER", "sc.formula_version", "none", "raised when stored numbers change"),
    _named("family", "VARCHAR", "d.family", "none", "cost model: theoretical or calibrated"),
    _named("model", "VARCHAR", "m.name", "none", "the name the model was first asked by"),
    _named("architecture", "VARCHAR", "m.architecture", "none", "model_type of its config.json"),
    _named("device", "VARCHAR", "d.name", "none", "device profile by name"),
    _named("device_key", "VARCHAR", "d.key", "sha256", "content key of the device profile, calibration included"),
    _named("vendor", "VARCHAR", "d.vendor", "none", "who makes the device"),
    _named("device_memory_bytes", "BIGINT", "d.memory_bytes", "bytes", "memory of one device"),
    _named("tp", "INTEGER", "p.tp", "devices", "tensor parallel size"),
    _named("pp", "INTEGER", "p.pp", "devices", "pipeline stages"),
    _named("dp", "INTEGER", "p.dp", "replicas", "data parallel replicas"),
    _named("ep", "INTEGER", "p.ep", "devices", "expert parallel size"),
    _named("moe_tp", "INTEGER", "p.moe_tp", "devices", "tensor parallel size inside experts"),
    _named("moe_dp", "INTEGER", "p.moe_dp", "replicas", "replicas of the expert group"),
    _named("num_devices", "INTEGER", "p.num_devices", "devices", "devices of one instance: tp x pp x dp"),
    _named("linear_quantization", "VARCHAR", "pr.linear_quantization", "none", "number format of linears"),
    _named("experts_quantization", "VARCHAR", "pr.experts_quantization", "none", "number format of experts"),
    _named("attention_quantization", "VARCHAR", "pr.attention_quantization", "none", "number format of the KV cache"),
    _named("mxfp4_group_size", "INTEGER", "pr.mxfp4_group_size", "weights", "weights that share one MXFP4 scale"),
    _named("compile", "BOOLEAN", "sj.compile", "none", "compiled graph rather than eager"),
    _named("convention", "VARCHAR", "sj.convention", "none", "physical or upstream"),
    _named("serving_model", "VARCHAR", "sj.serving_model", "none", "how step times become latencies"),
    _named("serving_cost_ms", "DOUBLE", "sj.serving_cost_ms", "ms", "fixed cost of delivery"),
    _named(
        "shortest_length",
        "DOUBLE",
        "sj.shortest_length",
        "ratio",
        "shortest request of the client, as a share of the nominal length; NULL where the serving model reads none",
    ),
    _named(
        "prompts_per_user", "INTEGER", "sj.prompts_per_user", "requests", "requests each user sends; NULL: not read"
    ),
    _named("poll_steps", "INTEGER", "sj.poll_steps", "steps", "steps between looks for new requests; NULL: not read"),
    _named(
        "seats", "INTEGER", "sj.seats", "requests", "requests a replica decodes at once; NULL: no bound or not read"
    ),
    _named("wait_steps", "INTEGER", "sj.wait_steps", "steps", "steps that prompts wait for each other; NULL: not read"),
    _named(
        "routing", "VARCHAR", "sj.routing", "none", "how experts are loaded: balanced or power_law_1.2; NULL: not read"
    ),
    _named(
        "launchable",
        "VARCHAR",
        "sc.launchable_by",
        "none",
        "engines that can launch the plan as one server, separated by commas; empty: none, NULL: not known",
    ),
    _named(
        "workload", "VARCHAR", "COALESCE(w.name, w.label)", "none", "the user's name of the workload, else its label"
    ),
    _named("workload_key", "VARCHAR", "w.key", "sha256", "content key of the workload"),
    _named("input_length", "INTEGER", "w.input_length", "tokens", "prompt length; NULL for distributions"),
    _named("input_length_mean", "DOUBLE", "w.input_length_mean", "tokens", "mean prompt length"),
    _named("output_length", "DOUBLE", "w.output_length", "tokens", "generated length, the mean for distributions"),
    _named("prefix_cache_hit_rate", "DOUBLE", "w.prefix_cache_hit_rate", "ratio", "share of a prompt found in cache"),
    _named("max_batched_tokens", "BIGINT", "w.max_batched_tokens", "tokens", "token budget of one step, per replica"),
    _named("mtp_tokens", "INTEGER", "w.mtp_tokens", "tokens", "tokens drafted a step"),
    _named("phase", "VARCHAR", "sj.phase", "none", "prefill, decode or aggregated"),
)

MEASURE_COLUMNS: tuple[WideColumn, ...] = (
    WideColumn(
        name="batch_size",
        type="INTEGER",
        unit="requests",
        meaning="requests of one data parallel replica and pipeline stage",
        source="pb.batch_size",
    ),
    *(
        WideColumn(
            name=column.name,
            type=_MEASURE_TYPES[column.type],
            unit=column.unit,
            meaning=column.meaning,
            source=f"pb.{column.name}",
        )
        for column in PROBE_COLUMNS
    ),
)

WIDE_COLUMNS = NAMED_COLUMNS + MEASURE_COLUMNS

SCENARIO_JOINS = (  # table, alias, column of an earlier table that refers to it
    ("subject", "sj", "sc.subject_id"),
    ("model", "m", "sj.model_id"),
    ("device", "d", "sc.device_id"),
    ("plan", "p", "sj.plan_id"),
    ("precision", "pr", "sj.precision_id"),
    ("workload", "w", "sj.workload_id"),
)


def scenario_tables(schema: str = "") -> str:
    """Return the FROM clause that joins scenarios with their names, `sc` first."""
    joins = (f"JOIN {schema}{table} {alias} ON {alias}.id = {reference}" for table, alias, reference in SCENARIO_JOINS)
    return f"{schema}scenario sc {' '.join(joins)}"


SCENARIO_TABLES = scenario_tables()
BLOCK_TABLES = (
    "block b JOIN scenario sc ON sc.id = b.scenario_id JOIN sweep sw ON sw.id = b.sweep_id"
    + SCENARIO_TABLES.removeprefix("scenario sc")
)

SORT_ORDER = (
    "model, workload, phase, device, num_devices, tp, pp, dp, ep, moe_tp, moe_dp, scenario_id, batch_size, block_id"
)


def layout_digest() -> str:
    """Identify names, order and types of the columns, so that a snapshot of another layout is recognised."""
    text = ",".join(f"{column.name} {column.type}" for column in WIDE_COLUMNS)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
