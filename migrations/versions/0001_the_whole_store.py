"""Lay down the whole store, so that what is added around it later needs few revisions.

Self-contained: the tables are declared here as they were at this revision, not imported from the models."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

Key = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER is as fast as SQLite's own row number
Time = DateTime(timezone=True)
Type = TypeEngine[Any] | type[TypeEngine[Any]]
TABLES = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def required(name: str, type_: Type, comment: str, *, primary_key: bool = False, index: bool = False) -> Column[Any]:
    """Declare a column that is never NULL."""
    return Column(name, type_, primary_key=primary_key, nullable=False, index=index, comment=comment)


def optional(name: str, type_: Type, comment: str, *, index: bool = False) -> Column[Any]:
    """Declare a column that may be NULL."""
    return Column(name, type_, index=index, comment=comment)


def identifier(comment: str = "integer key [none]") -> Column[Any]:
    """Declare the integer key of a table."""
    return Column("id", Key, primary_key=True, comment=comment)


def content_key(comment: str) -> Column[Any]:
    """Declare a unique hash."""
    return Column("key", String(64), nullable=False, unique=True, comment=comment)


def reference(
    name: str, target: str, comment: str, *, primary_key: bool = False, index: bool = False, nullable: bool = False
) -> Column[Any]:
    """Declare a foreign key."""
    key = ForeignKey(target)
    return Column(name, Key, key, primary_key=primary_key, nullable=nullable, index=index, comment=comment)


Table(
    "store_identity",
    TABLES,
    required("id", Integer, "always 1 [none]", primary_key=True),
    required("store_id", String(32), "random identity of this store [hex]"),
    required("created_at", Time, "when the store was created [UTC]"),
    CheckConstraint("id = 1", name="single_row"),
    comment="one row: which store this is",
)
Table(
    "calibration",
    TABLES,
    identifier(),
    content_key("content key of the coefficients [sha256]"),
    required("device_name", String(200), "device it describes [none]"),
    required("version", Integer, "counts up for a device [none]"),
    required("spec", Text, "coefficients with units in their names [JSON]"),
    required("errors", Text, "held-out error per kind, in percent [JSON]"),
    optional("kernels", LargeBinary, "measured kernel table [Parquet]"),
    required("source", Text, "where the measurements come from [none]"),
    required("created_at", Time, "when it was stored [UTC]"),
    UniqueConstraint("device_name", "version"),
    comment="fitted device coefficients",
)
Table(
    "device",
    TABLES,
    identifier(),
    content_key("content key of the profile, calibration included [sha256]"),
    required("name", String(200), "profile name [none]", index=True),
    required("vendor", String(200), "who makes it [none]"),
    required("family", String(16), "theoretical, calibrated or empirical [none]"),
    required("matrix_flops_per_s", Double, "effective bf16 matrix rate [FLOP/s]"),
    required("vector_flops_per_s", Double, "effective bf16 vector rate [FLOP/s]"),
    required("memory_bytes", BigInteger, "device memory [bytes]"),
    required("memory_bandwidth_bytes_per_s", Double, "effective bandwidth [bytes/s]"),
    required("grid", String(200), "interconnect grid, outermost first [devices]"),
    required("link_bandwidths", String(200), "effective bandwidth of each grid level [bytes/s]"),
    optional("calibration_key", String(64), "calibration used [sha256]"),
    required("spec", Text, "canonical profile [JSON]"),
    comment="device profile snapshots",
)
Table(
    "model",
    TABLES,
    identifier(),
    content_key("content key of the hyper-parameters [sha256]"),
    required("name", String(200), "the name it was first asked by [none]", index=True),
    required("architecture", String(200), "model_type of its config.json [none]"),
    required("parameters", BigInteger, "all weights [parameters]"),
    required("active_parameters", BigInteger, "weights a token visits [parameters]"),
    required("spec", Text, "canonical hyper-parameters [JSON]"),
    comment="models, by normalised hyper-parameters",
)
Table(
    "model_alias",
    TABLES,
    required("alias", String(500), "id or path [none]", primary_key=True),
    reference("model_id", "model.id", "the model [none]", primary_key=True),
    comment="names a model was asked by",
)
Table(
    "precision",
    TABLES,
    identifier(),
    content_key("content key [sha256]"),
    required("linear_quantization", String(32), "format of linears [none]"),
    required("experts_quantization", String(32), "format of experts [none]"),
    required("attention_quantization", String(32), "format of the KV cache [none]"),
    required("mxfp4_group_size", Integer, "weights sharing one MXFP4 scale [weights]"),
    required("spec", Text, "canonical form [JSON]"),
    comment="number formats",
)
Table(
    "plan",
    TABLES,
    identifier(),
    required("tp", Integer, "tensor parallel size [devices]"),
    required("pp", Integer, "pipeline stages [devices]"),
    required("dp", Integer, "data parallel replicas [replicas]"),
    required("ep", Integer, "expert parallel size [devices]"),
    required("moe_tp", Integer, "tensor parallel size inside experts [devices]"),
    required("moe_dp", Integer, "replicas of the expert group [replicas]"),
    required("num_devices", Integer, "devices of one instance: tp x pp x dp [devices]"),
    UniqueConstraint("tp", "pp", "dp", "ep", "moe_tp", "moe_dp"),
    comment="parallel splits of one instance",
)
Table(
    "workload",
    TABLES,
    identifier(),
    content_key("content key [sha256]"),
    required("label", String(200), "derived short form, such as 3500/1500 [tokens]"),
    optional("name", String(200), "the name it was first stored by [none]", index=True),
    optional("input_length", Integer, "prompt length; NULL for distributions [tokens]"),
    required("input_length_mean", Double, "mean prompt length [tokens]"),
    required("output_length", Double, "generated length, the mean for distributions [tokens]"),
    required("prefix_cache_hit_rate", Double, "share of a prompt found in cache [ratio]"),
    required("max_batched_tokens", BigInteger, "token budget of one step [tokens]"),
    required("mtp_tokens", SmallInteger, "tokens drafted a step [tokens]"),
    required("mtp_acceptance", Text, "acceptance rate of each drafted token [JSON]"),
    required("spec", Text, "canonical form [JSON]"),
    comment="lengths, prefix cache, token budget and MTP",
)
Table(
    "workload_bin",
    TABLES,
    reference("workload_id", "workload.id", "its workload [none]", primary_key=True),
    required("bin_index", Integer, "position, from 0 [none]", primary_key=True),
    required("min_input_length", Integer, "shortest prompt of the bin [tokens]"),
    required("max_input_length", Integer, "longest prompt of the bin [tokens]"),
    required("input_length", Double, "representative prompt length [tokens]"),
    required("output_length", Double, "representative generated length [tokens]"),
    required("weight", Double, "probability, summing to 1 [ratio]"),
    required("prefix_cache_hit_rate", Double, "share of the prompt found in cache [ratio]"),
    comment="bins of length distributions",
)
Table(
    "workload_name",
    TABLES,
    required("name", String(200), "the user's name [none]", primary_key=True),
    reference("workload_id", "workload.id", "the workload [none]", index=True),
    required("created_at", Time, "when it was named [UTC]"),
    comment="names given to workloads",
)
Table(
    "subject",
    TABLES,
    identifier(),
    content_key("content key [sha256]"),
    reference("model_id", "model.id", "the model [none]", index=True),
    required("device_name", String(200), "device by name [none]", index=True),
    reference("precision_id", "precision.id", "number formats [none]"),
    reference("plan_id", "plan.id", "parallel split [none]"),
    reference("workload_id", "workload.id", "what is served [none]", index=True),
    required("phase", String(16), "prefill, decode or aggregated [none]"),
    required("convention", String(16), "physical or upstream [none]"),
    required("compile", Boolean, "compiled graph, not eager [none]"),
    required("serving_model", String(64), "how step times become latencies [none]"),
    required("serving_cost_ms", Double, "fixed cost of delivery [ms]"),
    comment="what rows are about; sweeps are compared by subject",
)
Table(
    "scenario",
    TABLES,
    identifier(),
    content_key("content key [sha256]"),
    reference("subject_id", "subject.id", "what it is about [none]", index=True),
    reference("device_id", "device.id", "profile snapshot used [none]", index=True),
    required("formula_version", Integer, "raised when stored numbers change [none]"),
    required("status", String(16), "ok, illegal, unsupported or error [none]"),
    optional("reason", Text, "why it is not ok [none]"),
    optional("assumptions", Text, "what was assumed, one sentence a line [none]"),
    required("created_at", Time, "when it was first stored [UTC]"),
    CheckConstraint("status = 'ok' OR reason IS NOT NULL", name="failure_has_reason"),
    CheckConstraint("status IN ('ok', 'illegal', 'unsupported', 'error')", name="status"),
    comment="subject + device profile + formula version, with status and reason",
)
Table(
    "sweep",
    TABLES,
    identifier("integer key, ascending in time [none]"),
    Column("key", String(32), nullable=False, unique=True, comment="random public reference [hex]"),
    optional("label", String(200), "the user's label [none]", index=True),
    required("arguments", Text, "what was asked, every default written out [JSON]"),
    required("program_version", String(64), "version of sweepdb that ran [none]"),
    required("started_at", Time, "start [UTC]", index=True),
    optional("finished_at", Time, "end [UTC]"),
    required("status", String(16), "running, finished, interrupted or failed [none]"),
    required("probes_stored", BigInteger, "probes this sweep added [probes]"),
    required("probes_known", BigInteger, "probes asked for and already stored [probes]"),
    required("scenarios_failed", Integer, "scenarios that are not ok [scenarios]"),
    CheckConstraint("status IN ('running', 'finished', 'interrupted', 'failed')", name="status"),
    comment="requests: arguments, program version, time, outcome",
)
Table(
    "block",
    TABLES,
    identifier("integer key, ascending in time of commit [none]"),
    reference("scenario_id", "scenario.id", "whose probes [none]"),
    required("first_batch_size", Integer, "smallest batch size [requests]"),
    required("last_batch_size", Integer, "largest batch size [requests]"),
    required("probe_count", Integer, "probes of the block [probes]"),
    reference("sweep_id", "sweep.id", "the sweep that added it [none]", index=True),
    required("created_at", Time, "when it was committed [UTC]"),
    CheckConstraint("last_batch_size >= first_batch_size", name="interval"),
    UniqueConstraint("scenario_id", "first_batch_size"),
    comment="probes of one scenario over one batch interval, committed together",
)
Table(
    "sweep_interval",
    TABLES,
    reference("sweep_id", "sweep.id", "asker [none]", primary_key=True),
    reference("scenario_id", "scenario.id", "asked for [none]", primary_key=True, index=True),
    required("first_batch_size", Integer, "from; 0 for failures [requests]", primary_key=True),
    required("last_batch_size", Integer, "to; 0 for failures [requests]"),
    comment="which sweep asked for which batch interval of which scenario",
)
Table(
    "probe",
    TABLES,
    reference("scenario_id", "scenario.id", "its scenario [none]", primary_key=True),
    required("batch_size", Integer, "per data parallel replica and stage [requests]", primary_key=True),
    required("concurrency", BigInteger, "requests in flight in one instance: batch_size x dp x pp [requests]"),
    optional("ttft_ms", Double, "mean time from arrival at the instance to the first token; NULL for decode [ms]"),
    optional("prefill_step_ms", Double, "one full prefill wave; NULL for decode [ms]"),
    optional(
        "prefill_chunks",
        BigInteger,
        "chunks one prompt is split into; 1 where it fits the token budget; NULL for decode [chunks]",
    ),
    optional(
        "makespan_ms",
        Double,
        "time until the last prompt of the batch is prefilled, serving cost included; NULL for decode [ms]",
    ),
    optional(
        "decode_step_ms", Double, "one engine step over the decode batch, before folding by MTP; NULL for prefill [ms]"
    ),
    optional(
        "tokens_per_step",
        Double,
        "expected tokens a request gains in one decode step (1 without MTP); NULL for prefill [tokens]",
    ),
    optional("tpot_inclusive_ms", Double, "e2e / output_length; NULL for prefill [ms]"),
    optional("tpot_exclusive_ms", Double, "(e2e - ttft) / max(output_length - 1, 1); NULL for prefill [ms]"),
    optional("e2e_ms", Double, "arrival to last token; NULL where the phase has none [ms]"),
    required("weight_bytes", BigInteger, "weights on the fullest device [bytes]"),
    required("kv_cache_bytes", BigInteger, "KV cache on one device with every request at its full length [bytes]"),
    required("kv_cache_mean_bytes", BigInteger, "KV cache on one device with every request at its mean length [bytes]"),
    required("activation_bytes", BigInteger, "peak activations on one device [bytes]"),
    required(
        "kv_bytes_per_request",
        BigInteger,
        "KV cache of one prompt over the whole instance: what a PD transfer moves [bytes]",
    ),
    optional("prefill_step_matrix_ms", Double, "matrix part of the prefill step [ms]"),
    optional("prefill_step_vector_ms", Double, "vector part of the prefill step [ms]"),
    optional("prefill_step_memory_ms", Double, "memory part of the prefill step [ms]"),
    optional("prefill_step_communication_ms", Double, "communication part of the prefill step [ms]"),
    optional("prefill_step_overhead_ms", Double, "overhead part of the prefill step [ms]"),
    optional("decode_step_matrix_ms", Double, "matrix part of the decode step [ms]"),
    optional("decode_step_vector_ms", Double, "vector part of the decode step [ms]"),
    optional("decode_step_memory_ms", Double, "memory part of the decode step [ms]"),
    optional("decode_step_communication_ms", Double, "communication part of the decode step [ms]"),
    optional("decode_step_overhead_ms", Double, "overhead part of the decode step [ms]"),
    optional(
        "realised_input_length_mean", Double, "mean input length of the composed batch; NULL for fixed lengths [tokens]"
    ),
    optional("decode_step_p50_ms", Double, "median decode step over random compositions; NULL for fixed lengths [ms]"),
    optional(
        "decode_step_p90_ms",
        Double,
        "90th percentile of the decode step over random compositions; NULL for fixed lengths [ms]",
    ),
    optional(
        "decode_step_p99_ms",
        Double,
        "99th percentile of the decode step over random compositions; NULL for fixed lengths [ms]",
    ),
    CheckConstraint("batch_size >= 1", name="batch_size"),
    comment="one scenario at one batch size",
    sqlite_with_rowid=False,
)
Table(
    "composition",
    TABLES,
    reference("scenario_id", "scenario.id", "its scenario [none]", primary_key=True),
    required("batch_size", Integer, "batch size of the probe [requests]", primary_key=True),
    required("bin_index", Integer, "bin of the workload [none]", primary_key=True),
    required("samples", Integer, "requests of the bin in one replica [requests]"),
    comment="requests of each length bin in a probe's batch",
    sqlite_with_rowid=False,
)
Table(
    "operator_set",
    TABLES,
    required("key", String(64), "content key of what was captured [sha256]", primary_key=True),
    required("payload", Text, "operators as closed forms [JSON]"),
    required("torch_version", String(64), "torch that captured them [none]"),
    required("created_at", Time, "when they were captured [UTC]"),
    comment="captured operators, so that torch is needed once",
)
Table(
    "measurement",
    TABLES,
    identifier(),
    content_key("content key [sha256]"),
    required("source", Text, "file and line or id it came from [none]"),
    required("source_format", String(64), "reader that understood it [none]"),
    optional("model", String(500), "model as the source names it [none]", index=True),
    optional("device", String(200), "device, our name where known [none]", index=True),
    optional("engine", String(64), "serving engine [none]"),
    optional("engine_version", String(64), "its version [none]"),
    optional("mode", String(32), "aggregated, disaggregated, prefill, decode [none]"),
    optional("precision", String(64), "weights, as the source names them [none]"),
    optional("kv_precision", String(64), "KV cache, as the source names it [none]"),
    optional("num_devices", Integer, "devices of everything that served it [devices]"),
    optional("input_length", Double, "prompt length [tokens]"),
    optional("output_length", Double, "generated length [tokens]"),
    optional("concurrency", Double, "requests in flight [requests]"),
    optional("request_rate", Double, "offered rate [requests/s]"),
    required("metrics", Text, "measured values by our names with units [JSON]"),
    required("definitions", Text, "how the source defines each metric [JSON]"),
    required("extra", Text, "fields of the source we do not interpret [JSON]"),
    optional("measured_at", Time, "when measured [UTC]"),
    required("imported_at", Time, "when imported [UTC]"),
    optional(
        "prefill_instances", Integer, "prefill side (aggregated: the same on both): instances of this side [instances]"
    ),
    optional("prefill_tp", Integer, "prefill side (aggregated: the same on both): tensor parallel size [devices]"),
    optional("prefill_pp", Integer, "prefill side (aggregated: the same on both): pipeline stages [devices]"),
    optional("prefill_dp", Integer, "prefill side (aggregated: the same on both): data parallel replicas [replicas]"),
    optional("prefill_ep", Integer, "prefill side (aggregated: the same on both): expert parallel size [devices]"),
    optional(
        "prefill_moe_tp",
        Integer,
        "prefill side (aggregated: the same on both): tensor parallel size inside experts [devices]",
    ),
    optional(
        "prefill_moe_dp",
        Integer,
        "prefill side (aggregated: the same on both): replicas of the expert group [replicas]",
    ),
    optional("prefill_batch_size", Double, "prefill side: batch size [requests]"),
    optional(
        "decode_instances", Integer, "decode side (aggregated: the same on both): instances of this side [instances]"
    ),
    optional("decode_tp", Integer, "decode side (aggregated: the same on both): tensor parallel size [devices]"),
    optional("decode_pp", Integer, "decode side (aggregated: the same on both): pipeline stages [devices]"),
    optional("decode_dp", Integer, "decode side (aggregated: the same on both): data parallel replicas [replicas]"),
    optional("decode_ep", Integer, "decode side (aggregated: the same on both): expert parallel size [devices]"),
    optional(
        "decode_moe_tp",
        Integer,
        "decode side (aggregated: the same on both): tensor parallel size inside experts [devices]",
    ),
    optional(
        "decode_moe_dp", Integer, "decode side (aggregated: the same on both): replicas of the expert group [replicas]"
    ),
    optional("decode_batch_size", Double, "decode side: batch size [requests]"),
    comment="measured serving points with their configuration",
)
Table(
    "validation",
    TABLES,
    reference("measurement_id", "measurement.id", "measured point [none]", primary_key=True),
    required("metric", String(64), "which metric [none]", primary_key=True),
    reference("scenario_id", "scenario.id", "what predicted it [none]", primary_key=True),
    required("batch_size", Integer, "batch size of the prediction [requests]"),
    required("measured", Double, "measured value, in the metric's unit [metric]"),
    required("predicted", Double, "predicted value, in the metric's unit [metric]"),
    required("signed_error", Double, "(predicted - measured) / measured [ratio]"),
    required("region", String(200), "device, model kind, engine, batch, length [none]", index=True),
    required("created_at", Time, "when it was matched [UTC]"),
    comment="predicted against measured",
)
Table(
    "price",
    TABLES,
    required("device_name", String(200), "device by name [none]", primary_key=True),
    required("effective_from", String(10), "valid from [ISO date]", primary_key=True),
    optional("usd_per_device_hour", Double, "price [USD/h]"),
    optional("watts_per_device", Double, "power draw [W]"),
    required("source", Text, "where the figures come from [none]"),
    comment="dated device prices and power; joined when asked, never stored in a probe",
)
Table(
    "tombstone",
    TABLES,
    identifier(),
    reference("sweep_id", "sweep.id", "voided sweep [none]", index=True, nullable=True),
    reference("scenario_id", "scenario.id", "voided scenario [none]", index=True, nullable=True),
    required("reason", Text, "why [none]"),
    required("voided_at", Time, "when voided [UTC]"),
    optional("lifted_at", Time, "when unvoided; NULL: still void [UTC]"),
    CheckConstraint("(sweep_id IS NULL) <> (scenario_id IS NULL)", name="one_target"),
    Index("ix_tombstone_active", "lifted_at"),
    comment="voided sweeps and scenarios: reason, when, lifted when",
)

NEVER_CHANGED = ("block", "probe", "composition")


def upgrade() -> None:
    """Create the tables, and the triggers that keep committed blocks as they are."""
    connection = op.get_bind()
    TABLES.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'a committed block never changes'; END $$"
        )
    for table in NEVER_CHANGED:
        for change in ("update", "delete"):
            op.execute(_refusal(table, change, connection.dialect.name))


def _refusal(table: str, change: str, dialect: str) -> str:
    head = f"CREATE TRIGGER {table}_refuses_{change} BEFORE {change.upper()} ON {table}"
    if dialect == "postgresql":
        return f"{head} FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    return f"{head} BEGIN SELECT RAISE(ABORT, 'a committed block never changes'); END"


def downgrade() -> None:
    """Drop everything; triggers go with their tables."""
    connection = op.get_bind()
    TABLES.drop_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")
