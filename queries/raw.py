"""The raw relations public views are built on: what each is called, its columns, and where the store has them.

A light mirror of the schema, so that reading needs no SQLAlchemy; a test compares the two. Not here: stored probes
(store.wide), and public names (queries/views)."""

from __future__ import annotations

from dataclasses import dataclass

from store.wide import NAMED_COLUMNS, SCENARIO_TABLES, WideColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTable:
    """A relation of schema `raw` that is copied from the store when a statement needs it."""

    name: str
    meaning: str
    columns: tuple[WideColumn, ...]
    tables: str  # FROM clause over the store

    @property
    def statement(self) -> str:
        """The SELECT over the store."""
        return f"SELECT {', '.join(column.source for column in self.columns)} FROM {self.tables}"  # noqa: S608 - our text

    @property
    def typed_names(self) -> list[tuple[str, str]]:
        """Name and DuckDB type of each column."""
        return [(column.name, column.type) for column in self.columns]


def _table(
    name: str, meaning: str, *columns: tuple[str, str, str, str], added: tuple[WideColumn, ...] = ()
) -> RawTable:
    return RawTable(
        name=name,
        meaning=meaning,
        columns=(
            *(
                WideColumn(name=column, type=type_, unit=unit, meaning=text, source=column)
                for column, type_, unit, text in columns
            ),
            *added,
        ),
        tables=name,
    )


_OF_BLOCKS = {"block_id", "first_sweep", "stored_at"}

SCENARIO = RawTable(
    name="scenario",
    meaning="subject + device profile + formula version, names joined, with status and reason",
    columns=(
        *(column for column in NAMED_COLUMNS if column.name not in _OF_BLOCKS),
        WideColumn(
            name="status", type="VARCHAR", unit="none", meaning="ok, illegal, unsupported or error", source="sc.status"
        ),
        WideColumn(name="reason", type="VARCHAR", unit="none", meaning="why it is not ok", source="sc.reason"),
        WideColumn(
            name="assumptions",
            type="VARCHAR",
            unit="none",
            meaning="what was assumed, one sentence a line",
            source="sc.assumptions",
        ),
        WideColumn(
            name="created_at",
            type="TIMESTAMP",
            unit="UTC",
            meaning="when it was first stored",
            source="sc.created_at",
        ),
        WideColumn(
            name="voided",
            type="BOOLEAN",
            unit="none",
            meaning="it, or every sweep that asked for it, is voided",
            source="sc.id IN (SELECT scenario_id FROM joining.voided)",
        ),
    ),
    tables=SCENARIO_TABLES,
)

_VOIDED_SWEEP = WideColumn(
    name="voided",
    type="BOOLEAN",
    unit="none",
    meaning="it is voided",
    source="CASE WHEN id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)"
    " THEN 1 ELSE 0 END",
)
_SIDE_COLUMNS = (
    ("instances", "INTEGER", "instances", "instances of this side"),
    ("tp", "INTEGER", "devices", "tensor parallel size"),
    ("pp", "INTEGER", "devices", "pipeline stages"),
    ("dp", "INTEGER", "replicas", "data parallel replicas"),
    ("ep", "INTEGER", "devices", "expert parallel size"),
    ("moe_tp", "INTEGER", "devices", "tensor parallel size inside experts"),
    ("moe_dp", "INTEGER", "replicas", "replicas of the expert group"),
    ("batch_size", "DOUBLE", "requests", "batch size"),
)
_SIDES = tuple(
    (
        f"{side}_{name}",
        type_,
        unit,
        f"{side} side: {meaning}" if name == "batch_size" else f"{side} side (aggregated: the same on both): {meaning}",
    )
    for side in ("prefill", "decode")
    for name, type_, unit, meaning in _SIDE_COLUMNS
)

RAW_TABLES: tuple[RawTable, ...] = (
    SCENARIO,
    _table(
        "model",
        "models, by normalised hyper-parameters",
        ("id", "BIGINT", "none", "integer key"),
        ("key", "VARCHAR", "sha256", "content key of the hyper-parameters"),
        ("name", "VARCHAR", "none", "the name it was first asked by"),
        ("architecture", "VARCHAR", "none", "model_type of its config.json"),
        ("parameters", "BIGINT", "parameters", "all weights"),
        ("active_parameters", "BIGINT", "parameters", "weights a token visits"),
        ("spec", "VARCHAR", "JSON", "canonical hyper-parameters"),
    ),
    _table(
        "model_alias",
        "names a model was asked by",
        ("alias", "VARCHAR", "none", "id or path"),
        ("model_id", "BIGINT", "none", "the model"),
    ),
    _table(
        "device",
        "device profile snapshots",
        ("id", "BIGINT", "none", "integer key"),
        ("key", "VARCHAR", "sha256", "content key of the profile, calibration included"),
        ("name", "VARCHAR", "none", "profile name"),
        ("vendor", "VARCHAR", "none", "who makes it"),
        ("family", "VARCHAR", "none", "theoretical, calibrated or empirical"),
        ("matrix_flops_per_s", "DOUBLE", "FLOP/s", "effective bf16 matrix rate"),
        ("vector_flops_per_s", "DOUBLE", "FLOP/s", "effective bf16 vector rate"),
        ("memory_bytes", "BIGINT", "bytes", "device memory"),
        ("memory_bandwidth_bytes_per_s", "DOUBLE", "bytes/s", "effective bandwidth"),
        ("grid", "VARCHAR", "devices", "interconnect grid, outermost first"),
        ("link_bandwidths", "VARCHAR", "bytes/s", "effective bandwidth of each grid level"),
        ("calibration_key", "VARCHAR", "sha256", "calibration used"),
        ("spec", "VARCHAR", "JSON", "canonical profile"),
    ),
    _table(
        "workload",
        "lengths, prefix cache, token budget and MTP",
        ("id", "BIGINT", "none", "integer key"),
        ("key", "VARCHAR", "sha256", "content key"),
        ("label", "VARCHAR", "tokens", "derived short form, such as 3500/1500"),
        ("name", "VARCHAR", "none", "the name it was first stored by"),
        ("input_length", "INTEGER", "tokens", "prompt length; NULL for distributions"),
        ("input_length_mean", "DOUBLE", "tokens", "mean prompt length"),
        ("output_length", "DOUBLE", "tokens", "generated length, the mean for distributions"),
        ("prefix_cache_hit_rate", "DOUBLE", "ratio", "share of a prompt found in cache"),
        ("max_batched_tokens", "BIGINT", "tokens", "token budget of one step"),
        ("mtp_tokens", "INTEGER", "tokens", "tokens drafted a step"),
        ("mtp_acceptance", "VARCHAR", "JSON", "acceptance rate of each drafted token"),
        ("spec", "VARCHAR", "JSON", "canonical form"),
    ),
    _table(
        "workload_name",
        "names given to workloads",
        ("name", "VARCHAR", "none", "the user's name"),
        ("workload_id", "BIGINT", "none", "the workload"),
        ("created_at", "TIMESTAMP", "UTC", "when it was named"),
    ),
    _table(
        "workload_bin",
        "bins of length distributions",
        ("workload_id", "BIGINT", "none", "its workload"),
        ("bin_index", "INTEGER", "none", "position, from 0"),
        ("min_input_length", "INTEGER", "tokens", "shortest prompt of the bin"),
        ("max_input_length", "INTEGER", "tokens", "longest prompt of the bin"),
        ("input_length", "DOUBLE", "tokens", "representative prompt length"),
        ("output_length", "DOUBLE", "tokens", "representative generated length"),
        ("weight", "DOUBLE", "ratio", "probability, summing to 1"),
        ("prefix_cache_hit_rate", "DOUBLE", "ratio", "share of the prompt found in cache"),
    ),
    _table(
        "sweep",
        "requests: arguments, program version, time, outcome",
        ("id", "BIGINT", "none", "integer key, ascending in time"),
        ("key", "VARCHAR", "hex", "random public reference"),
        ("label", "VARCHAR", "none", "the user's label"),
        ("arguments", "VARCHAR", "JSON", "what was asked, every default written out"),
        ("program_version", "VARCHAR", "none", "version of sweepdb that ran"),
        ("started_at", "TIMESTAMP", "UTC", "start"),
        ("finished_at", "TIMESTAMP", "UTC", "end"),
        ("status", "VARCHAR", "none", "running, finished, interrupted or failed"),
        ("probes_stored", "BIGINT", "probes", "probes this sweep added"),
        ("probes_known", "BIGINT", "probes", "probes asked for and already stored"),
        ("scenarios_failed", "INTEGER", "scenarios", "scenarios that are not ok"),
        ("kind", "VARCHAR", "none", "request, validation or import"),
        added=(_VOIDED_SWEEP,),
    ),
    _table(
        "sweep_interval",
        "which sweep asked for which batch interval of which scenario",
        ("sweep_id", "BIGINT", "none", "asker"),
        ("scenario_id", "BIGINT", "none", "asked for"),
        ("first_batch_size", "INTEGER", "requests", "from; 0 for failures"),
        ("last_batch_size", "INTEGER", "requests", "to; 0 for failures"),
    ),
    _table(
        "composition",
        "requests of each length bin in a probe's batch",
        ("scenario_id", "BIGINT", "none", "its scenario"),
        ("batch_size", "INTEGER", "requests", "batch size of the probe"),
        ("bin_index", "INTEGER", "none", "bin of the workload"),
        ("samples", "INTEGER", "requests", "requests of the bin in one replica"),
    ),
    _table(
        "measurement",
        "measured serving points with their configuration",
        ("id", "BIGINT", "none", "integer key"),
        ("key", "VARCHAR", "sha256", "content key"),
        ("source", "VARCHAR", "none", "file and line or id it came from"),
        ("source_format", "VARCHAR", "none", "reader that understood it"),
        ("model", "VARCHAR", "none", "model as the source names it"),
        ("device", "VARCHAR", "none", "device, our name where known"),
        ("engine", "VARCHAR", "none", "serving engine"),
        ("engine_version", "VARCHAR", "none", "its version"),
        ("mode", "VARCHAR", "none", "aggregated, disaggregated, prefill, decode"),
        ("precision", "VARCHAR", "none", "weights, as the source names them"),
        ("kv_precision", "VARCHAR", "none", "KV cache, as the source names it"),
        ("num_devices", "INTEGER", "devices", "devices of everything that served it"),
        ("input_length", "DOUBLE", "tokens", "prompt length"),
        ("output_length", "DOUBLE", "tokens", "generated length"),
        ("concurrency", "DOUBLE", "requests", "requests in flight"),
        ("request_rate", "DOUBLE", "requests/s", "offered rate"),
        ("metrics", "VARCHAR", "JSON", "measured values by our names with units"),
        ("definitions", "VARCHAR", "JSON", "how the source defines each metric"),
        ("extra", "VARCHAR", "JSON", "fields of the source we do not interpret"),
        ("measured_at", "TIMESTAMP", "UTC", "when measured"),
        ("imported_at", "TIMESTAMP", "UTC", "when imported"),
        *_SIDES,
    ),
    _table(
        "validation",
        "predicted against measured",
        ("measurement_id", "BIGINT", "none", "measured point"),
        ("metric", "VARCHAR", "none", "which metric"),
        ("scenario_id", "BIGINT", "none", "what predicted it"),
        ("batch_size", "INTEGER", "requests", "batch size of the prediction"),
        ("measured", "DOUBLE", "metric", "measured value, in the metric's unit"),
        ("predicted", "DOUBLE", "metric", "predicted value, in the metric's unit"),
        ("signed_error", "DOUBLE", "ratio", "(predicted - measured) / measured"),
        ("region", "VARCHAR", "none", "device, model kind, engine, batch, length"),
        ("created_at", "TIMESTAMP", "UTC", "when it was matched"),
        ("knowledge", "VARCHAR", "none", "evaluated as asked, as known, or both where they are one; NULL: not known"),
    ),
    _table(
        "price",
        "dated device prices and power; joined when asked, never stored in a probe",
        ("device_name", "VARCHAR", "none", "device by name"),
        ("effective_from", "VARCHAR", "ISO date", "valid from"),
        ("usd_per_device_hour", "DOUBLE", "USD/h", "price"),
        ("watts_per_device", "DOUBLE", "W", "power draw"),
        ("source", "VARCHAR", "none", "where the figures come from"),
    ),
    _table(
        "tombstone",
        "voided sweeps and scenarios: reason, when, lifted when",
        ("id", "BIGINT", "none", "integer key"),
        ("sweep_id", "BIGINT", "none", "voided sweep"),
        ("scenario_id", "BIGINT", "none", "voided scenario"),
        ("reason", "VARCHAR", "none", "why"),
        ("voided_at", "TIMESTAMP", "UTC", "when voided"),
        ("lifted_at", "TIMESTAMP", "UTC", "when unvoided; NULL: still void"),
    ),
    _table(
        "calibration",
        "fitted device coefficients",
        ("id", "BIGINT", "none", "integer key"),
        ("key", "VARCHAR", "sha256", "content key of the coefficients"),
        ("device_name", "VARCHAR", "none", "device it describes"),
        ("version", "INTEGER", "none", "counts up for a device"),
        ("spec", "VARCHAR", "JSON", "coefficients with units in their names"),
        ("errors", "VARCHAR", "JSON", "held-out error per kind, in percent"),
        ("source", "VARCHAR", "none", "where the measurements come from"),
        ("created_at", "TIMESTAMP", "UTC", "when it was stored"),
    ),
)

STORED_PROBE = "stored_probe"
RAW_NAMES = frozenset({STORED_PROBE, *(table.name for table in RAW_TABLES)})
