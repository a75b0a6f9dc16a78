"""Voids sweeps and scenarios with a reason, and takes that back. Deletes nothing.

A probe is hidden when its scenario, or every sweep that asked for it, is voided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, Connection, exists, func, insert, select, update

from store.errors import InputError
from store.opening import Store
from store.schema.sql_tables import SCENARIO, SWEEP, SWEEP_INTERVAL, TOMBSTONE
from store.schema.tables import TABLES
from store.writing.statements import utc_now

_SHORTEST_REFERENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidReport:
    """The reason given, or lifted."""

    kind: Literal["sweep", "scenario"]
    key: str
    reason: str
    still_asked: int = 0  # scenarios of a voided sweep that other sweeps asked for too, so that they stay visible


def void(store: Store, reference: str, reason: str) -> VoidReport:
    """By the start of a key."""
    if not reason.strip():
        raise InputError("Voiding needs a reason, which every later reader will see.", hint='Add `reason="..."`')
    with store.writing() as connection:
        kind, id_, key = find_target(connection, reference)
        if current := connection.execute(select(TOMBSTONE).where(_active(kind, id_))).first():
            raise InputError(f"The {kind} {key[:12]} is already voided: {current.reason}")
        row = TABLES["tombstone"].row_of(None, **{f"{kind}_id": id_}, reason=reason.strip(), voided_at=utc_now())
        connection.execute(insert(TOMBSTONE).values(row))
        still = _asked_by_others(connection, id_) if kind == "sweep" else 0
    return VoidReport(kind=kind, key=key, reason=reason.strip(), still_asked=still)


def _asked_by_others(connection: Connection, sweep_id: int) -> int:
    others = SWEEP_INTERVAL.alias()
    voided = select(TOMBSTONE.c.sweep_id).where(TOMBSTONE.c.sweep_id.is_not(None), TOMBSTONE.c.lifted_at.is_(None))
    shared = exists().where(others.c.scenario_id == SWEEP_INTERVAL.c.scenario_id, others.c.sweep_id.not_in(voided))
    count = select(func.count(func.distinct(SWEEP_INTERVAL.c.scenario_id))).where(
        SWEEP_INTERVAL.c.sweep_id == sweep_id, shared
    )
    return int(connection.execute(count).scalar_one())


def unvoid(store: Store, reference: str) -> VoidReport:
    """The record of voiding stays."""
    with store.writing() as connection:
        kind, id_, key = find_target(connection, reference)
        current = connection.execute(select(TOMBSTONE).where(_active(kind, id_))).first()
        if current is None:
            raise InputError(f"The {kind} {key[:12]} is not voided.", hint="`sweepdb sweeps` shows what is.")
        connection.execute(update(TOMBSTONE).where(TOMBSTONE.c.id == current.id).values(lifted_at=utc_now()))
    return VoidReport(kind=kind, key=key, reason=current.reason)


def find_target(connection: Connection, reference: str) -> tuple[Literal["sweep", "scenario"], int, str]:
    start = reference.strip().lower().partition(":")[0]
    if len(start) < _SHORTEST_REFERENCE or not set(start) <= set("0123456789abcdef"):
        raise InputError(
            f"{reference!r} is no reference: it takes at least {_SHORTEST_REFERENCE} hexadecimal digits.",
            hint="Take one from `sweepdb sweeps`, or from an answer's column of probes.",
        )
    sweeps = connection.execute(select(SWEEP.c.id, SWEEP.c.key).where(_starts_with(SWEEP.c.key, start)).limit(2)).all()
    scenarios = connection.execute(
        select(SCENARIO.c.id, SCENARIO.c.key).where(_starts_with(SCENARIO.c.key, start)).limit(2)
    ).all()
    if len(sweeps) + len(scenarios) > 1:
        raise InputError(f"{reference!r} is the start of several keys.", hint="Give more digits.")
    if sweeps:
        return "sweep", sweeps[0].id, sweeps[0].key
    if scenarios:
        return "scenario", scenarios[0].id, scenarios[0].key
    raise InputError(
        f"No sweep and no scenario of this store starts with {reference!r}.", hint="`sweepdb sweeps` lists the sweeps."
    )


def _starts_with(column: ColumnElement[str], start: str) -> ColumnElement[bool]:
    """As a range, which an index answers; `g` follows every hexadecimal digit."""
    return (column >= start) & (column < f"{start}g")


def _active(kind: Literal["sweep", "scenario"], id_: int) -> ColumnElement[bool]:
    column = TOMBSTONE.c.sweep_id if kind == "sweep" else TOMBSTONE.c.scenario_id
    return (column == id_) & TOMBSTONE.c.lifted_at.is_(None)
