"""Engine profiles in the store, by the label that scenarios carry.

Not here: fitting (evaluator.ledger.fitting.engine_fit)."""

from __future__ import annotations

import json
from dataclasses import replace

from evaluator.canonical import canonical
from evaluator.inputs.engines.engine_profiles import EngineProfile, key_of_engine
from evaluator.restore import restored
from store.errors import InputError
from store.opening import Store
from store.records import CalibrationRecord
from store.writing import list_calibrations, put_calibration

ENGINE_OWNER = "engine "  # beside device names, in the table of calibrations


def keep_engine(store: Store, engine: EngineProfile, *, source: str, errors: object = None) -> int:
    """Store a profile, unless its content is there; returns its version under its name."""
    return put_calibration(
        store,
        CalibrationRecord(
            key=key_of_engine(engine),
            device_name=ENGINE_OWNER + engine.name,
            version=0,
            spec=canonical(engine),
            errors=json.dumps(errors or {}, sort_keys=True),
            source=source,
        ),
    )


def stored_engine(store: Store, label: str) -> EngineProfile:
    """The profile that a label such as `vllm@0a239add` stands for."""
    name, _, key = label.partition("@")
    stored = [one for one in list_calibrations(store) if one.device_name.startswith(ENGINE_OWNER)]
    found = [one for one in stored if key and one.key.startswith(key.lower())]
    if len(found) == 1:
        engine: EngineProfile = restored(found[0].spec)
        return replace(engine, name=name)  # one content may be known by several names
    known = ", ".join(f"{one.device_name.removeprefix(ENGINE_OWNER)}@{one.key[:8]}" for one in stored)
    raise InputError(
        f"no engine profile {label!r} in this store", hint=f"stored: {known}" if known else "a profile's file works"
    )
