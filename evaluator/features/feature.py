"""The face of a feature: what it refuses, what a reader should know, and how well each part of it is known."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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

State = Literal["exact", "by hand", "fitted", "carried", "stated", "data sheet", "left out", "refused", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportPart:
    """One part of a model, device or engine, and how well it is known."""

    part: str
    state: State
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWay:
    """A way of serving that is a size of a plan. `plan` has it: which engines are started with it follows."""

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
    """The ways of ways.yaml, with what is `named` in its sentences."""
    return tuple(SupportPart(**{**one, "how": one["how"].format(**named)}) for one in _declared()[feature]["ways"])


class Feature:
    plans: tuple[PlanWay, ...] = ()
    ways: tuple[SupportPart, ...] = ()  # of serving, that are no size of a plan

    def refuses(self, scenario: Scenario) -> InputError | None:  # noqa: ARG002  every feature is asked alike
        return None

    def lacking(self, scenario: Scenario) -> str:  # noqa: ARG002
        """The part of a scenario that upstream's formulas do not have; empty where they have all of it."""
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
