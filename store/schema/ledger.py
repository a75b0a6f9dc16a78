"""What is compared with evaluations or said about them: measurement, validation, price, tombstone."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
)
from sqlalchemy.orm import Mapped, mapped_column

from store.schema.base import Base, BigKey, Identifier, JsonText, Key, Name, optional_reference


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
    knowledge: Mapped[str | None] = mapped_column(
        String(8), comment="evaluated as asked, as known, or both where they are one; NULL: not known [none]"
    )


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
    sweep_id: Mapped[int | None] = optional_reference("sweep.id", "voided sweep [none]")
    scenario_id: Mapped[int | None] = optional_reference("scenario.id", "voided scenario [none]")
    reason: Mapped[str] = mapped_column(Text, comment="why [none]")
    voided_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when voided [UTC]")
    lifted_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="when unvoided; NULL: still void [UTC]"
    )
