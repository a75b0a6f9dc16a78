"""What a scenario is made of: store identity, model, calibration, device, precision, plan, workload."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from store.schema.base import Base, BigKey, Identifier, JsonText, Key, Name, reference


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
    name: Mapped[str | None] = mapped_column(String(200), index=True, comment="the name it was first stored by [none]")
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


class WorkloadName(Base):
    """The user's names of workloads; a name stays with its workload."""

    __tablename__ = "workload_name"
    __table_args__ = ({"comment": "names given to workloads"},)

    name: Mapped[Name] = mapped_column(primary_key=True, comment="the user's name [none]")
    workload_id: Mapped[int] = reference("workload.id", "the workload [none]")
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was named [UTC]")
