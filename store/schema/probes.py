"""What an evaluation leaves: subject, scenario, sweep, block, interval, probe, composition, operators."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import TypeEngine

from store.columns import PROBE_COLUMNS, ProbeColumn
from store.schema.base import Base, BigKey, Identifier, JsonText, Key, Name, reference


class Subject(Base):
    """What a row is about."""

    __tablename__ = "subject"
    __table_args__ = ({"comment": "what rows are about; sweeps are compared by subject"},)

    id: Mapped[Identifier] = mapped_column(comment="integer key [none]")
    key: Mapped[Key] = mapped_column(unique=True, comment="content key [sha256]")
    model_id: Mapped[int] = reference("model.id", "the model [none]")
    device_name: Mapped[Name] = mapped_column(index=True, comment="device by name [none]")
    precision_id: Mapped[int] = reference("precision.id", "number formats [none]", index=False)
    plan_id: Mapped[int] = reference("plan.id", "parallel split [none]", index=False)
    workload_id: Mapped[int] = reference("workload.id", "what is served [none]")
    phase: Mapped[str] = mapped_column(String(16), comment="prefill, decode or aggregated [none]")
    convention: Mapped[str] = mapped_column(String(16), comment="physical or upstream [none]")
    compile: Mapped[bool] = mapped_column(comment="compiled graph, not eager [none]")
    serving_model: Mapped[str] = mapped_column(String(64), comment="how step times become latencies [none]")
    serving_cost_ms: Mapped[float] = mapped_column(Double, comment="fixed cost of delivery [ms]")
    # Of client, launch and routing: NULL where the serving model does not read them, and in rows of formula version 1.
    shortest_length: Mapped[float | None] = mapped_column(
        Double, comment="shortest request of the client, of its nominal length; NULL: not read [ratio]"
    )
    prompts_per_user: Mapped[int | None] = mapped_column(
        Integer, comment="requests each user sends; NULL: not read [requests]"
    )
    poll_steps: Mapped[int | None] = mapped_column(
        Integer, comment="steps between looks for new requests; NULL: not read [steps]"
    )
    seats: Mapped[int | None] = mapped_column(
        Integer, comment="requests a replica decodes at once; NULL: no bound or not read [requests]"
    )
    wait_steps: Mapped[int | None] = mapped_column(
        Integer, comment="steps that prompts wait for each other; NULL: not read [steps]"
    )
    routing: Mapped[str | None] = mapped_column(String(32), comment="how experts are loaded; NULL: not read [none]")
    unusual_service: Mapped[str | None] = mapped_column(
        String(100), comment="which of client, launch and routing were said, by column; NULL: not known [none]"
    )


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
    subject_id: Mapped[int] = reference("subject.id", "what it is about [none]")
    device_id: Mapped[int] = reference("device.id", "profile snapshot used [none]")
    formula_version: Mapped[int] = mapped_column(Integer, comment="raised when stored numbers change [none]")
    status: Mapped[str] = mapped_column(String(16), comment="ok, illegal, unsupported or error [none]")
    reason: Mapped[str | None] = mapped_column(Text, comment="why it is not ok [none]")
    assumptions: Mapped[str | None] = mapped_column(Text, comment="what was assumed, one sentence a line [none]")
    launchable_by: Mapped[str | None] = mapped_column(
        String(200), comment="engines that launch the plan as one server; NULL: not known [none]"
    )
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="when it was first stored [UTC]")


class Sweep(Base):
    """A request record."""

    __tablename__ = "sweep"
    __table_args__ = (
        CheckConstraint("status IN ('running', 'finished', 'interrupted', 'failed')", name="status"),
        CheckConstraint("kind IN ('request', 'validation', 'import')", name="kind"),
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
    kind: Mapped[str] = mapped_column(
        String(16), server_default="request", comment="request, validation or import [none]"
    )


class Block(Base):
    """The unit that is committed together and never changes."""

    __tablename__ = "block"
    __table_args__ = (
        UniqueConstraint("scenario_id", "first_batch_size"),
        CheckConstraint("last_batch_size >= first_batch_size", name="interval"),
        {"comment": "probes of one scenario over one batch interval, committed together"},
    )

    id: Mapped[Identifier] = mapped_column(comment="integer key, ascending in time of commit [none]")
    scenario_id: Mapped[int] = reference("scenario.id", "whose probes [none]", index=False)
    first_batch_size: Mapped[int] = mapped_column(Integer, comment="smallest batch size [requests]")
    last_batch_size: Mapped[int] = mapped_column(Integer, comment="largest batch size [requests]")
    probe_count: Mapped[int] = mapped_column(Integer, comment="probes of the block [probes]")
    sweep_id: Mapped[int] = reference("sweep.id", "the sweep that added it [none]")
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
    type_: TypeEngine[Any] = BigInteger() if column.type == "integer" else Double()
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
