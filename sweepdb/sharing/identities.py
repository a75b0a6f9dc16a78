"""Recomputes keys, sizes and rates from a scenario's specs; others are forgeries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from evaluator.canonical import content_key, keyed
from evaluator.identity import device_record, model_record, precision_record, workload_record
from evaluator.inputs import EngineProfile, Plan, catalogued_model, engine_profile, key_of_engine, list_engines
from evaluator.restore import restored
from evaluator.serving import ENGINE_OWNER, list_serving_models
from store.errors import InputError, SweepdbError
from store.records import (
    CalibrationRecord,
    DeviceRecord,
    ModelRecord,
    PrecisionRecord,
    ScenarioRecord,
    SubjectRecord,
    WorkloadRecord,
)
from store.schema import SHARES

_SAME_SIZE = 0.01  # of a model whose entry in the catalogue was mended since
_CLIENT = {"shortest": "shortest_length", "prompts_per_user": "prompts_per_user", "poll_steps": "poll_steps"}
Engines = Mapping[str, tuple[EngineProfile, ...]]  # profiles by the name of the serving model


def engines_of(calibrations: Iterable[CalibrationRecord]) -> Engines:
    found: dict[str, tuple[EngineProfile, ...]] = {name: (engine_profile(name),) for name in list_engines()}
    for record in calibrations:
        if record.device_name.startswith(ENGINE_OWNER):
            profile = restored(record.spec)
            if not isinstance(profile, EngineProfile) or key_of_engine(profile) != record.key:
                raise InputError(f"the profile of {record.device_name} does not have the key {record.key[:12]}")
            name = record.device_name.removeprefix(ENGINE_OWNER)
            found[name] = (*found.get(name, ()), profile)
    return found


def refuse_forged(records: Iterable[ScenarioRecord], engines: Engines) -> int:
    """Returns how many keys cannot be recomputed."""
    unknown = 0
    for record in records:
        try:
            differing = _differing(record)
        except (
            SweepdbError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            said = str(error).partition("\n")[0][:300]
            raise _forged(record, f"its specs cannot be read: {said}") from error
        if differing:
            raise _forged(record, f"{differing} does not follow from its specs")
        known = _key_follows(record, engines)
        if known is False:
            raise _forged(record, "its key does not follow from its subject, device and engine")
        unknown += known is None
    return unknown


def refuse_misnamed(records: Iterable[ScenarioRecord], names: Iterable[tuple[str, str, str]]) -> None:
    models = {record.subject.model.key: record.subject.model for record in records}
    given = [(name, models[key]) for kind, name, key in names if kind == "model" and key in models]
    for name, model in (*given, *((model.name, model) for model in models.values())):
        spec = catalogued_model(name)
        if spec is None:
            continue
        known = model_record(name, spec)
        alike = abs(model.parameters - known.parameters) <= _SAME_SIZE * known.parameters
        if known.key != model.key and not (model.architecture == known.architecture and alike):
            raise InputError(
                f"the bundle calls a model of {model.parameters:,} parameters {name!r}, which has {known.parameters:,}",
                hint="nothing of it was taken in; export it again from the store that evaluated it",
            )


def _forged(record: ScenarioRecord, what: str) -> InputError:
    return InputError(
        f"scenario {record.key[:12]} is not what an evaluation stores: {what}",
        hint="nothing of it was taken in; export it again from the store that evaluated it",
    )


def _differing(record: ScenarioRecord) -> str:
    subject, device = record.subject, record.device
    model, workload = subject.model, subject.workload
    least = {share.name: share.usual for share in SHARES}
    if any(size < least.get(name, 1) for name, size in asdict(subject.plan).items()):
        return "its plan"
    made: dict[str, tuple[ModelRecord | DeviceRecord | PrecisionRecord | WorkloadRecord, object]] = {
        "its model": (model_record(model.name, restored(model.spec)), model),
        "its device": (device_record(restored(device.spec)), device),
        "its precision": (precision_record(restored(subject.precision.spec)), subject.precision),
        "its workload": (
            replace(workload_record(restored(workload.spec)), name=workload.name, spec=workload.spec),
            workload,
        ),
    }
    for what, (again, said) in made.items():
        if again != said:
            name = next(name for name in type(again).__slots__ if getattr(said, name) != getattr(again, name))
            return f"{name} of {what}"
    if subject.device_name != device.name:
        return "the device of its subject"
    return "" if _subject_key(subject) == subject.key else "the key of its subject"


def _subject_key(subject: SubjectRecord) -> str:
    unusual = subject.unusual_service.split(",") if subject.unusual_service else []
    return content_key(
        {
            "model": subject.model.key,
            "device": subject.device_name,
            "precision": subject.precision.key,
            "plan": keyed(Plan(**asdict(subject.plan))),
            "workload": subject.workload.key,
            "phase": subject.phase,
            "convention": subject.convention,
            "compile": subject.compile,
            "serving_model": subject.serving_model,
            "serving_cost_ms": subject.serving_cost_ms,
            **{name: getattr(subject, name) for name in unusual},
        }
    )


def _key_follows(record: ScenarioRecord, engines: Engines) -> bool | None:
    """None where the engine's profile is not known."""
    determines: dict[str, object] = {
        "subject": record.subject.key,
        "device": record.device.key,
        "formula_version": record.formula_version,
    }
    if content_key(determines) == record.key:
        return True
    subject = record.subject
    candidates = engines.get(subject.serving_model.partition("@")[0], ())
    for profile in candidates:
        stated = {mine: getattr(subject, theirs) for mine, theirs in _CLIENT.items()}
        client = replace(profile.client, **{name: value for name, value in stated.items() if value is not None})
        clients = [client, replace(client, poll_steps=1)]
        budget = subject.workload.max_batched_tokens
        for one in clients:
            engine = replace(profile, token_budget=budget, client=one)
            if content_key({**determines, "engine": key_of_engine(engine)}) == record.key:
                return True
    # A client of the user's own counts in the key also where a phase does not read all of it.
    formulas = set(list_serving_models()) - set(list_engines())
    return False if subject.serving_model in formulas else None
