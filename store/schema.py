"""The schema, as SQLAlchemy 2 typed models: every column carries a comment that ends in its unit in brackets.

Not here: opening, writing and reading. Limits are never stored; the database is the only truth."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from store.columns import PROBE_COLUMNS, ProbeColumn

# SQLite gives rowid speed only to a column of the exact type INTEGER.
BigKey = BigInteger().with_variant(Integer, "sqlite")
Identifier = Annotated[int, mapped_column(BigKey, primary_key=True, autoincrement=True)]
Key = Annotated[str, mapped_column(String(64))]
Name = Annotated[str, mapped_column(String(200))]
JsonText = Annotated[str, mapped_column(Text)]

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Declarative base with deterministic constraint names, so that migrations can address them."""

    metadata = MetaData(naming_convention=NAMING)


def _reference(target: str, comment: str, *, nullable: bool = False, index: bool = True) -> Mapped[int]:
    return mapped_column(BigKey, ForeignKey(target), nullable=nullable, index=index, comment=comment)


class StoreIdentity(Base):
    """One row: which store this is, so that snapshots of another store are recognised."""

    __tablename__ = "store_identity"
    __table_args__ = (CheckConstraint("id = 1", name="single_row"), {"comment": "one row: which store this is"})

    id: Mapped[int] = mapped_column(Integer, primary_key=True, comment="always 1 [none]")
    store_id: Mapped[str] = mapped_column(String(32), comment="random identity of this store [hex]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when the store was created [UTC]")


class Model(Base):
    """A model by its normalised hyper-parameters."""

    __tablename__ = "model"
    __table_args__ = ({"comment": "models, by normalised hyper-parameters"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key of the hyper-parameters [sha256]")
    name: Mapped[Name] = mapped_column(index=True, comment="the name it was first asked by [none]")
    architecture: Mapped[Name] = mapped_column(comment="model_type of its config.json [none]")
    parameters: Mapped[int] = mapped_column(BigInteger, comment="all weights [parameters]")
    active_parameters: Mapped[int] = mapped_column(BigInteger, comment="weights a token visits [parameters]")
    spec: Mapped[JsonText] = mapped_column(comment="canonical hyper-parameters [JSON]")


class ModelAlias(Base):
    """Names that resolve to a model: Hugging Face ids, directories."""

    __tablename__ = "model_alias"
    __table_args__ = ({"comment": "names a model was asked by"},)

    alias: Mapped[str] = mapped_column(String(500), primary_key=True, comment="id or path [none]")
    model_id: Mapped[int] = mapped_column(BigKey, ForeignKey("model.id"), primary_key=True, comment="the model [none]")


class Calibration(Base):
    """A fitted set of coefficients for a device, with the kernels it was fitted on."""

    __tablename__ = "calibration"
    __table_args__ = (UniqueConstraint("device_name", "version"), {"comment": "fitted device coefficients"})

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key of the coefficients [sha256]")
    device_name: Mapped[Name] = mapped_column(comment="device it describes [none]")
    version: Mapped[int] = mapped_column(Integer, comment="counts up for a device [none]")
    spec: Mapped[JsonText] = mapped_column(comment="coefficients with units in their names [JSON]")
    errors: Mapped[JsonText] = mapped_column(comment="held-out error per kind, in percent [JSON]")
    kernels: Mapped[bytes | None] = mapped_column(LargeBinary, comment="measured kernel table [Parquet]")
    source: Mapped[str] = mapped_column(Text, comment="where the measurements come from [none]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was stored [UTC]")


class Device(Base):
    """The snapshot of a device profile that produced numbers."""

    __tablename__ = "device"
    __table_args__ = ({"comment": "device profile snapshots"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key of the profile, calibration included [sha256]")
    name: Mapped[Name] = mapped_column(index=True, comment="profile name [none]")
    vendor: Mapped[Name] = mapped_column(comment="who makes it [none]")
    family: Mapped[str] = mapped_column(String(16), comment="theoretical, calibrated or empirical [none]")
    matrix_flops_per_s: Mapped[float] = mapped_column(Double, comment="effective bf16 matrix rate [FLOP/s]")
    vector_flops_per_s: Mapped[float] = mapped_column(Double, comment="effective bf16 vector rate [FLOP/s]")
    memory_bytes: Mapped[int] = mapped_column(BigInteger, comment="device memory [bytes]")
    memory_bandwidth_bytes_per_s: Mapped[float] = mapped_column(Double, comment="effective bandwidth [bytes/s]")
    grid: Mapped[Name] = mapped_column(comment="interconnect grid, outermost first [devices]")
    link_bandwidths: Mapped[Name] = mapped_column(comment="effective bandwidth of each grid level [bytes/s]")
    calibration_key: Mapped[str | None] = mapped_column(String(64), comment="calibration used [sha256]")
    spec: Mapped[JsonText] = mapped_column(comment="canonical profile [JSON]")


class Precision(Base):
    """Number formats of linears, experts, attention and KV cache."""

    __tablename__ = "precision"
    __table_args__ = ({"comment": "number formats"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    linear_quantization: Mapped[str] = mapped_column(String(32), comment="format of linears [none]")
    experts_quantization: Mapped[str] = mapped_column(String(32), comment="format of experts [none]")
    attention_quantization: Mapped[str] = mapped_column(String(32), comment="format of the KV cache [none]")
    mxfp4_group_size: Mapped[int] = mapped_column(Integer, comment="weights sharing one MXFP4 scale [weights]")
    spec: Mapped[JsonText] = mapped_column(comment="canonical form [JSON]")


class Plan(Base):
    """How one instance is split over its devices."""

    __tablename__ = "plan"
    __table_args__ = (
        UniqueConstraint("tp", "pp", "dp", "ep", "moe_tp", "moe_dp"),
        {"comment": "parallel splits of one instance"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    tp: Mapped[int] = mapped_column(Integer, comment="tensor parallel size [devices]")
    pp: Mapped[int] = mapped_column(Integer, comment="pipeline stages [devices]")
    dp: Mapped[int] = mapped_column(Integer, comment="data parallel replicas [replicas]")
    ep: Mapped[int] = mapped_column(Integer, comment="expert parallel size [devices]")
    moe_tp: Mapped[int] = mapped_column(Integer, comment="tensor parallel size inside experts [devices]")
    moe_dp: Mapped[int] = mapped_column(Integer, comment="replicas of the expert group [replicas]")
    num_devices: Mapped[int] = mapped_column(Integer, comment="devices of one instance: tp x pp x dp [devices]")


class Workload(Base):
    """What is served."""

    __tablename__ = "workload"
    __table_args__ = ({"comment": "lengths, prefix cache, token budget and MTP"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    label: Mapped[Name] = mapped_column(comment="derived short form, such as 3500/1500 [tokens]")
    name: Mapped[str | None] = mapped_column(String(200), index=True, comment="the user's name for it [none]")
    input_length: Mapped[int | None] = mapped_column(Integer, comment="prompt length; NULL for distributions [tokens]")
    input_length_mean: Mapped[float] = mapped_column(Double, comment="mean prompt length [tokens]")
    output_length: Mapped[float] = mapped_column(
        Double, comment="generated length, the mean for distributions [tokens]"
    )
    prefix_cache_hit_rate: Mapped[float] = mapped_column(Double, comment="share of a prompt found in cache [ratio]")
    max_batched_tokens: Mapped[int] = mapped_column(BigInteger, comment="token budget of one step [tokens]")
    mtp_tokens: Mapped[int] = mapped_column(SmallInteger, comment="tokens drafted a step [tokens]")
    mtp_acceptance: Mapped[str] = mapped_column(Text, comment="acceptance rate of each drafted token [JSON]")
    spec: Mapped[JsonText] = mapped_column(comment="canonical form [JSON]")


class WorkloadBin(Base):
    """One bin of a length distribution."""

    __tablename__ = "workload_bin"
    __table_args__ = ({"comment": "bins of length distributions"},)

    workload_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("workload.id"), primary_key=True, comment="its workload [none]"
    )
    bin_index: Mapped[int] = mapped_column(Integer, primary_key=True, comment="position, from 0 [none]")
    min_input_length: Mapped[int] = mapped_column(Integer, comment="shortest prompt of the bin [tokens]")
    max_input_length: Mapped[int] = mapped_column(Integer, comment="longest prompt of the bin [tokens]")
    input_length: Mapped[float] = mapped_column(Double, comment="representative prompt length [tokens]")
    output_length: Mapped[float] = mapped_column(Double, comment="representative generated length [tokens]")
    weight: Mapped[float] = mapped_column(Double, comment="probability, summing to 1 [ratio]")
    prefix_cache_hit_rate: Mapped[float] = mapped_column(Double, comment="share of the prompt found in cache [ratio]")


class Subject(Base):
    """What a row is about."""

    __tablename__ = "subject"
    __table_args__ = ({"comment": "what rows are about; sweeps are compared by subject"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    model_id: Mapped[int] = _reference("model.id", "the model [none]")
    device_name: Mapped[Name] = mapped_column(index=True, comment="device by name [none]")
    precision_id: Mapped[int] = _reference("precision.id", "number formats [none]", index=False)
    plan_id: Mapped[int] = _reference("plan.id", "parallel split [none]", index=False)
    workload_id: Mapped[int] = _reference("workload.id", "what is served [none]")
    phase: Mapped[str] = mapped_column(String(16), comment="prefill, decode or aggregated [none]")
    convention: Mapped[str] = mapped_column(String(16), comment="physical or upstream [none]")
    compile: Mapped[bool] = mapped_column(comment="compiled graph, not eager [none]")
    serving_model: Mapped[str] = mapped_column(String(64), comment="how step times become latencies [none]")
    serving_cost_ms: Mapped[float] = mapped_column(Double, comment="fixed cost of delivery [ms]")


class Scenario(Base):
    """What determines numbers, and how its evaluation ended. Failures are rows."""

    __tablename__ = "scenario"
    __table_args__ = (
        CheckConstraint("status IN ('ok', 'illegal', 'unsupported', 'error')", name="status"),
        CheckConstraint("status = 'ok' OR reason IS NOT NULL", name="failure_has_reason"),
        {"comment": "subject + device profile + formula version, with status and reason"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    subject_id: Mapped[int] = _reference("subject.id", "what it is about [none]")
    device_id: Mapped[int] = _reference("device.id", "profile snapshot used [none]")
    formula_version: Mapped[int] = mapped_column(Integer, comment="raised when stored numbers change [none]")
    status: Mapped[str] = mapped_column(String(16), comment="ok, illegal, unsupported or error [none]")
    reason: Mapped[str | None] = mapped_column(Text, comment="why it is not ok [none]")
    assumptions: Mapped[str | None] = mapped_column(Text, comment="what was assumed, one sentence a line [none]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was first stored [UTC]")


class Sweep(Base):
    """A request record."""

    __tablename__ = "sweep"
    __table_args__ = (
        CheckConstraint("status IN ('running', 'finished', 'interrupted', 'failed')", name="status"),
        {"comment": "requests: arguments, program version, time, outcome"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key, ascending in time [none]")
    key: Mapped[str] = mapped_column(String(32), unique=True, comment="random public reference [hex]")
    label: Mapped[str | None] = mapped_column(String(200), index=True, comment="the user's label [none]")
    arguments: Mapped[JsonText] = mapped_column(comment="what was asked, every default written out [JSON]")
    program_version: Mapped[str] = mapped_column(String(64), comment="version of sweepdb that ran [none]")
    started_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), index=True, comment="start [UTC]")
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="end [UTC]")
    status: Mapped[str] = mapped_column(String(16), comment="running, finished, interrupted or failed [none]")
    probes_stored: Mapped[int] = mapped_column(BigInteger, comment="probes this sweep added [probes]")
    probes_known: Mapped[int] = mapped_column(BigInteger, comment="probes asked for and already stored [probes]")
    scenarios_failed: Mapped[int] = mapped_column(Integer, comment="scenarios that are not ok [scenarios]")


class Block(Base):
    """The unit that is committed together and never changes."""

    __tablename__ = "block"
    __table_args__ = (
        UniqueConstraint("scenario_id", "first_batch_size"),
        CheckConstraint("last_batch_size >= first_batch_size", name="interval"),
        {"comment": "probes of one scenario over one batch interval, committed together"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key, ascending in time of commit [none]")
    scenario_id: Mapped[int] = _reference("scenario.id", "whose probes [none]", index=False)
    first_batch_size: Mapped[int] = mapped_column(Integer, comment="smallest batch size [requests]")
    last_batch_size: Mapped[int] = mapped_column(Integer, comment="largest batch size [requests]")
    probe_count: Mapped[int] = mapped_column(Integer, comment="probes of the block [probes]")
    sweep_id: Mapped[int] = _reference("sweep.id", "the sweep that added it [none]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was committed [UTC]")


class SweepInterval(Base):
    """Which sweep asked for which scenario and batch interval, new or already there."""

    __tablename__ = "sweep_interval"
    __table_args__ = ({"comment": "which sweep asked for which batch interval of which scenario"},)

    sweep_id: Mapped[int] = mapped_column(BigKey, ForeignKey("sweep.id"), primary_key=True, comment="asker [none]")
    scenario_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("scenario.id"), primary_key=True, index=True, comment="asked for [none]"
    )
    first_batch_size: Mapped[int] = mapped_column(Integer, primary_key=True, comment="from; 0 for failures [requests]")
    last_batch_size: Mapped[int] = mapped_column(Integer, comment="to; 0 for failures [requests]")


def _probe_column(column: ProbeColumn) -> Mapped[float | int | None]:
    type_ = BigInteger() if column.type == "integer" else Double()
    return mapped_column(type_, nullable=column.nullable, comment=f"{column.meaning} [{column.unit}]")


class Probe(Base):
    """One scenario at one batch size; its measures are declared in store.columns."""

    __tablename__ = "probe"
    __table_args__ = (
        CheckConstraint("batch_size >= 1", name="batch_size"),
        {"comment": "one scenario at one batch size", "sqlite_with_rowid": False},
    )

    scenario_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("scenario.id"), primary_key=True, comment="its scenario [none]"
    )
    batch_size: Mapped[int] = mapped_column(
        Integer, primary_key=True, comment="per data parallel replica and stage [requests]"
    )


for _column in PROBE_COLUMNS:
    setattr(Probe, _column.name, _probe_column(_column))


class Composition(Base):
    """How many requests of each bin a probe's batch holds; only bins with samples are stored."""

    __tablename__ = "composition"
    __table_args__ = ({"comment": "requests of each length bin in a probe's batch", "sqlite_with_rowid": False},)

    scenario_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("scenario.id"), primary_key=True, comment="its scenario [none]"
    )
    batch_size: Mapped[int] = mapped_column(Integer, primary_key=True, comment="batch size of the probe [requests]")
    bin_index: Mapped[int] = mapped_column(Integer, primary_key=True, comment="bin of the workload [none]")
    samples: Mapped[int] = mapped_column(Integer, comment="requests of the bin in one replica [requests]")


class OperatorSet(Base):
    """Captured operators by content key."""

    __tablename__ = "operator_set"
    __table_args__ = ({"comment": "captured operators, so that torch is needed once"},)

    key: Mapped[Key] = mapped_column(primary_key=True, comment="content key of what was captured [sha256]")
    payload: Mapped[JsonText] = mapped_column(comment="operators as closed forms [JSON]")
    torch_version: Mapped[str] = mapped_column(String(64), comment="torch that captured them [none]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when they were captured [UTC]")


class Measurement(Base):
    """One measured point; two sides for disaggregated deployments."""

    __tablename__ = "measurement"
    __table_args__ = ({"comment": "measured serving points with their configuration"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    source: Mapped[str] = mapped_column(Text, comment="file and line or id it came from [none]")
    source_format: Mapped[str] = mapped_column(String(64), comment="reader that understood it [none]")
    model: Mapped[str | None] = mapped_column(String(500), index=True, comment="model as the source names it [none]")
    device: Mapped[str | None] = mapped_column(String(200), index=True, comment="device, our name where known [none]")
    engine: Mapped[str | None] = mapped_column(String(64), comment="serving engine [none]")
    engine_version: Mapped[str | None] = mapped_column(String(64), comment="its version [none]")
    mode: Mapped[str | None] = mapped_column(String(32), comment="aggregated, disaggregated, prefill, decode [none]")
    precision: Mapped[str | None] = mapped_column(String(64), comment="weights, as the source names them [none]")
    kv_precision: Mapped[str | None] = mapped_column(String(64), comment="KV cache, as the source names it [none]")
    num_devices: Mapped[int | None] = mapped_column(Integer, comment="devices of everything that served it [devices]")
    input_length: Mapped[float | None] = mapped_column(Double, comment="prompt length [tokens]")
    output_length: Mapped[float | None] = mapped_column(Double, comment="generated length [tokens]")
    concurrency: Mapped[float | None] = mapped_column(Double, comment="requests in flight [requests]")
    request_rate: Mapped[float | None] = mapped_column(Double, comment="offered rate [requests/s]")
    metrics: Mapped[JsonText] = mapped_column(comment="measured values by our names with units [JSON]")
    definitions: Mapped[JsonText] = mapped_column(comment="how the source defines each metric [JSON]")
    extra: Mapped[JsonText] = mapped_column(comment="fields of the source we do not interpret [JSON]")
    measured_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="when measured [UTC]")
    imported_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when imported [UTC]")


_SIDE_COLUMNS = (
    ("instances", "instances of this side [instances]"),
    ("tp", "tensor parallel size [devices]"),
    ("pp", "pipeline stages [devices]"),
    ("dp", "data parallel replicas [replicas]"),
    ("ep", "expert parallel size [devices]"),
    ("moe_tp", "tensor parallel size inside experts [devices]"),
    ("moe_dp", "replicas of the expert group [replicas]"),
)
for _side in ("prefill", "decode"):
    for _name, _comment in _SIDE_COLUMNS:
        setattr(
            Measurement,
            f"{_side}_{_name}",
            mapped_column(Integer, nullable=True, comment=f"{_side} side (aggregated: the same on both): {_comment}"),
        )
    setattr(
        Measurement,
        f"{_side}_batch_size",
        mapped_column(Double, nullable=True, comment=f"{_side} side: batch size [requests]"),
    )


class Validation(Base):
    """A measured value beside the prediction of the same configuration."""

    __tablename__ = "validation"
    __table_args__ = ({"comment": "predicted against measured"},)

    measurement_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("measurement.id"), primary_key=True, comment="measured point [none]"
    )
    metric: Mapped[str] = mapped_column(String(64), primary_key=True, comment="which metric [none]")
    scenario_id: Mapped[int] = mapped_column(
        BigKey, ForeignKey("scenario.id"), primary_key=True, comment="what predicted it [none]"
    )
    batch_size: Mapped[int] = mapped_column(Integer, comment="batch size of the prediction [requests]")
    measured: Mapped[float] = mapped_column(Double, comment="measured value, in the metric's unit [metric]")
    predicted: Mapped[float] = mapped_column(Double, comment="predicted value, in the metric's unit [metric]")
    signed_error: Mapped[float] = mapped_column(Double, comment="(predicted - measured) / measured [ratio]")
    region: Mapped[str] = mapped_column(
        String(200), index=True, comment="device, model kind, engine, batch, length [none]"
    )
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was matched [UTC]")


class Price(Base):
    """What a device costs and draws, from a date on."""

    __tablename__ = "price"
    __table_args__ = ({"comment": "dated device prices and power; joined when asked, never stored in a probe"},)

    device_name: Mapped[Name] = mapped_column(primary_key=True, comment="device by name [none]")
    effective_from: Mapped[str] = mapped_column(String(10), primary_key=True, comment="valid from [ISO date]")
    usd_per_device_hour: Mapped[float | None] = mapped_column(Double, comment="price [USD/h]")
    watts_per_device: Mapped[float | None] = mapped_column(Double, comment="power draw [W]")
    source: Mapped[str] = mapped_column(Text, comment="where the figures come from [none]")


class Tombstone(Base):
    """A voided sweep or scenario; reversible."""

    __tablename__ = "tombstone"
    __table_args__ = (
        CheckConstraint("(sweep_id IS NULL) <> (scenario_id IS NULL)", name="one_target"),
        Index("ix_tombstone_active", "lifted_at"),
        {"comment": "voided sweeps and scenarios: reason, when, lifted when"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    sweep_id: Mapped[int | None] = _reference("sweep.id", "voided sweep [none]", nullable=True)  # type: ignore[assignment]
    scenario_id: Mapped[int | None] = _reference("scenario.id", "voided scenario [none]", nullable=True)  # type: ignore[assignment]
    reason: Mapped[str] = mapped_column(Text, comment="why [none]")
    voided_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when voided [UTC]")
    lifted_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="when unvoided; NULL: still void [UTC]"
    )
