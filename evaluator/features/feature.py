"""The interface of a feature."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from evaluator.graph.operators import OperatorSet
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.yaml_file import parse_yaml
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario
from store.errors import InputError
from store.light_dataclass import dataclass

State = Literal["exact", "by hand", "fitted", "carried", "stated", "data sheet", "left out", "refused", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportPart:
    """How well a part of a model, device or engine is known."""

    part: str
    state: State
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWay:
    """A size of a plan; the engines that have it follow from `plan`."""

    name: str
    row: str  # of the page of support
    plan: Plan
    how: str


@functools.cache
def _declared() -> Any:  # noqa: ANN401  a document
    path = Path(__file__).with_name("ways.yaml")
    return parse_yaml(path.read_text(encoding="utf-8"), path.name)


def plans_of(feature: str) -> tuple[PlanWay, ...]:
    return tuple(PlanWay(**{**one, "plan": Plan(**one["plan"])}) for one in _declared()[feature]["plans"])


def ways_of(feature: str, **named: str) -> tuple[SupportPart, ...]:
    """From ways.yaml, with `named` filled in."""
    return tuple(SupportPart(**{**one, "how": one["how"].format(**named)}) for one in _declared()[feature]["ways"])


class Feature:
    plans: tuple[PlanWay, ...] = ()
    ways: tuple[SupportPart, ...] = ()  # of serving, that are no size of a plan

    def refuses(self, scenario: Scenario) -> InputError | None:  # noqa: ARG002  every feature is asked alike
        return None

    def lacking(self, scenario: Scenario) -> str:  # noqa: ARG002
        """Parts that upstream's formulas lack; empty: none."""
        return ""

    def said(self, scenario: Scenario) -> Iterable[str]:  # noqa: ARG002
        return ()

    def said_of_cost(self, scenario: Scenario, cost: CostModel, sets: Iterable[OperatorSet]) -> Iterable[str]:  # noqa: ARG002
        return ()

    def of_model(self, name: str, spec: ModelSpec) -> Iterator[SupportPart]:  # noqa: ARG002
        yield from ()

    def of_device(self, profile: DeviceProfile) -> Iterator[SupportPart]:  # noqa: ARG002
        yield from ()


def refused(part: str, how: str) -> SupportPart:
    return SupportPart(part=part, state="refused", how=how)
