"""The schema, as SQLAlchemy 2 typed models: every column carries a comment that ends in its unit in brackets.

Not here: opening, writing and reading. Limits are never stored; the database is the only truth."""

from __future__ import annotations

from store.schema.base import Base
from store.schema.dimensions import (
    Calibration,
    Device,
    Model,
    ModelAlias,
    Plan,
    Precision,
    StoreIdentity,
    Workload,
    WorkloadBin,
    WorkloadName,
)
from store.schema.ledger import Measurement, Price, Tombstone, Validation
from store.schema.probes import Block, Composition, OperatorSet, Probe, Scenario, Subject, Sweep, SweepInterval

__all__ = [
    "Base",
    "Block",
    "Calibration",
    "Composition",
    "Device",
    "Measurement",
    "Model",
    "ModelAlias",
    "OperatorSet",
    "Plan",
    "Precision",
    "Price",
    "Probe",
    "Scenario",
    "StoreIdentity",
    "Subject",
    "Sweep",
    "SweepInterval",
    "Tombstone",
    "Validation",
    "Workload",
    "WorkloadBin",
    "WorkloadName",
]
