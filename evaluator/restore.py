"""Records from their stored canonical JSON; engine profiles by label."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

from evaluator.canonical import canonical
from evaluator.inputs import formats, images, launch, model
from evaluator.inputs.devices import device
from evaluator.inputs.engines import engine_profiles
from evaluator.inputs.engines.engine_profiles import EngineProfile, key_of_engine
from evaluator.inputs.workloads import workload
from store.errors import InputError, StoreError
from store.opening import Store
from store.records import CalibrationRecord
from store.writing import list_calibrations, put_calibration

_MODULES = (device, engine_profiles, images, formats, launch, model, workload)
_KNOWN: dict[str, type[Any]] = {
    name: kind
    for module in _MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and is_dataclass(kind)
}


def restored(text: str) -> Any:  # noqa: ANN401  whichever record was stored
    return _record(json.loads(text))


def _record(value: object) -> Any:  # noqa: ANN401
    if isinstance(value, list):
        return tuple(_record(item) for item in value)
    if not isinstance(value, dict):
        return value
    kind = _KNOWN.get(str(value.get("")))
    if kind is None:
        raise StoreError(
            f"a stored record is of unknown kind {value.get('')!r}", hint="was it written by a newer sweepdb?"
        )
    types = {item.name: str(item.type) for item in fields(kind)}
    return kind(**{name: _typed(_record(item), types[name]) for name, item in value.items() if name in types})


def _typed(value: Any, type_: str) -> Any:  # noqa: ANN401
    # Canonical JSON writes 1.0 as 1; content keys of operators tell the two apart.
    return float(value) if isinstance(value, int) and type_.startswith("float") else value


ENGINE_OWNER = "engine "  # beside device names, in the table of calibrations


def keep_engine(store: Store, engine: EngineProfile, *, source: str, errors: object = None) -> int:
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
