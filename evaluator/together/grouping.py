"""Scenarios that may be evaluated side by side: same operators, prices and phase, one prompt length each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from evaluator.evaluate import batch_source
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario
from evaluator.serving.batches import FixedLengths
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS

_MOST_PROBES = 16_384  # side by side: what stays in a core's cache
_FEW_LAYERS = 7  # kinds of them: up to here a sum over them has one order, however many batches it is of
# Every field but lengths and what is large: one that is added later keeps scenarios apart until somebody decides.
_LENGTHS = {"input_length", "output_length", "prefix_cache_hit_rate", "max_batched_tokens", "bins", "name"}
_decided = attrgetter(*(item.name for item in fields(Scenario) if item.name not in {"model", "device", "workload"}))
_shared = attrgetter(*(item.name for item in fields(Workload) if item.name not in _LENGTHS))


@dataclass(frozen=True, slots=True)
class AskedSizes:
    """Operators by trace, and the first and last batch size."""

    scenario: Scenario
    operators: Mapping[str, OperatorSet]
    first: int
    last: int

    @property
    def probes(self) -> int:
        return self.last - self.first + 1


def grouped(asked: Sequence[AskedSizes], *, in_memory: bool = False) -> Iterator[list[int]]:
    """Indices of scenarios; others stand alone.

    `in_memory`: only their memory is asked, which chunks beside decodes do not change."""
    open_groups: dict[Hashable, tuple[list[int], int]] = {}
    for place, one in enumerate(asked):
        alike = likeness(one.scenario, one.operators, in_memory=in_memory)
        if alike is None:
            yield [place]
            continue
        places, probes = open_groups.pop(alike, ([], 0))
        if places and probes + one.probes > _MOST_PROBES:
            yield places
            places, probes = [], 0
        open_groups[alike] = ([*places, place], probes + one.probes)
    for places, _ in open_groups.values():
        yield places


def likeness(scenario: Scenario, operators: Mapping[str, OperatorSet], *, in_memory: bool = False) -> Hashable | None:
    """Equal where only lengths differ; None stands alone.

    Large parts compare by identity: scenarios of a request share them."""
    workload = scenario.workload
    if scenario.serving_model not in FORMULA_MODELS or scenario.engine is not None or scenario.convention != "physical":
        return None
    if workload.images is not None or workload.tiers or len(scenario.model.layers) >= _FEW_LAYERS:
        return None
    source = batch_source(scenario)
    if not isinstance(source, FixedLengths):
        return None
    chunks = 1 if scenario.phase == "decode" else source.chunks
    if chunks > 1 and scenario.phase == "aggregated" and not in_memory:
        return None  # each has a schedule of its own
    large = (
        chunks,
        id(scenario.model),
        id(scenario.device),
        *sorted((trace, id(one)) for trace, one in operators.items()),
    )
    return large, _decided(scenario), _shared(workload)
