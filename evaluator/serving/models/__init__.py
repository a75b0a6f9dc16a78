"""Serving models by name; modules here with `MODELS` are found by themselves."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from evaluator.scenario import Scenario
from evaluator.serving.interface import ServingModel
from store.errors import InputError
from store.schema import FORMULA_MODELS

OWN_ENGINE = "engine"  # the model of a profile that is not shipped, whatever its scenario is called


@functools.cache
def serving_models() -> Mapping[str, ServingModel]:
    found: dict[str, ServingModel] = {}
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        found |= importlib.import_module(f"{__name__}.{module}").MODELS
    return {name: found[name] for name in (*FORMULA_MODELS, *sorted(found.keys() - set(FORMULA_MODELS)))}


def list_serving_models() -> tuple[str, ...]:
    return tuple(name for name in serving_models() if name != OWN_ENGINE)


def serving_model_of(scenario: Scenario) -> ServingModel:
    own = scenario.engine is not None or "@" in scenario.serving_model
    name = OWN_ENGINE if own else scenario.serving_model
    model = serving_models().get(name)
    if model is None:
        raise InputError(
            f"unknown serving model {scenario.serving_model!r}", hint=f"known: {', '.join(list_serving_models())}"
        )
    return model
