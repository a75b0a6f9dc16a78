"""Serving models by name; modules here with `MODELS` are found by themselves."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evaluator.inputs.engines.engine_profiles import list_engines
from evaluator.scenario import Scenario
from store.errors import InputError
from store.schema import FORMULA_MODELS

if TYPE_CHECKING:
    from evaluator.serving.interface import ServingModel

OWN_ENGINE = "engine"  # the model of a profile that is not shipped, whatever its scenario is called


@functools.cache
def serving_models() -> Mapping[str, ServingModel]:
    found: dict[str, ServingModel] = {}
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        found |= importlib.import_module(f"{__name__}.{module}").MODELS
    return found


def list_serving_models() -> tuple[str, ...]:
    return (*FORMULA_MODELS, *sorted(list_engines()))


def serving_model_of(scenario: Scenario) -> ServingModel:
    own = scenario.engine is not None or "@" in scenario.serving_model
    name = OWN_ENGINE if own else scenario.serving_model
    model = serving_models().get(name)
    if model is None:
        raise InputError(
            f"unknown serving model {scenario.serving_model!r}", hint=f"known: {', '.join(list_serving_models())}"
        )
    return model
