"""Evaluates scenarios side by side where possible, and finds their batch sizes.

Those have the same operators, prices and phase, and one prompt length each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from evaluator.evaluate import batch_source, cost_of, evaluate_run, evaluate_scenario
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.workloads.workload import Workload
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from evaluator.serving.batches import FixedLengths
from evaluator.serving.interface import Run
from evaluator.serving.waves.side_by_side import SideBySide
from evaluator.together.ranges import FIRST_BLOCK, BatchRange, batch_range, fitting_of, most_worth, range_up_to
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


Made = TypeVar("Made")
Given = ParamSpec("Given")
Ranged = tuple[Scenario, Mapping[str, OperatorSet], int | None]  # with the most batch sizes that are asked for


class SideBySideWarning(RuntimeWarning):
    """Only side by side did they fail: a fault of the program, though numbers are right."""


_SIDE_FAULTS: list[str] = []


def side_faults() -> int:
    return len(_SIDE_FAULTS)


def evaluate_many(asked: Sequence[AskedSizes]) -> Iterator[ProbeBlock | Exception]:
    """In order, to the bit as `evaluate_scenario`; errors stand for their scenarios.

    A group is made with its first, and waits for its turns."""
    beside = {place: places for places in grouped(asked) for place in places}
    made: dict[int, ProbeBlock | Exception] = {}
    for place in range(len(asked)):
        if place not in made:
            places = beside[place]
            made.update(zip(places, _evaluated([asked[one] for one in places]), strict=True))
        yield made.pop(place)


def _evaluated(group: Sequence[AskedSizes]) -> Sequence[ProbeBlock | Exception]:
    block = _tried(lambda group: evaluate_run(_side_by_side(group)), group) if len(group) > 1 else None
    if isinstance(block, ProbeBlock):
        return [block.rows(part) for part in _slices(group)]
    alone = [_tried(_alone, one) for one in group]
    _tell(block, alone)
    return alone


def _alone(one: AskedSizes) -> ProbeBlock:
    return evaluate_scenario(one.scenario, np.arange(one.first, one.last + 1, dtype=np.int64), one.operators)


def _tried(make: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made | Exception:
    """One scenario's failure is a row with its reason, not the others' end."""
    try:
        return make(*given, **named)
    except Exception as error:  # noqa: BLE001  see above
        return error


def _tell(fault: Exception | None, alone: Sequence[object]) -> None:
    """Only where a group failed and none of its scenarios does alone."""
    if fault is not None and not any(isinstance(one, Exception) for one in alone):
        said = f"{type(fault).__name__}: {fault}"
        _SIDE_FAULTS.append(said)
        warnings.warn(f"{len(alone)} scenarios were evaluated one by one: {said}", SideBySideWarning, stacklevel=2)


def _side_by_side(group: Sequence[AskedSizes]) -> Run:
    scenario = group[0].scenario
    sources = [batch_source(one.scenario) for one in group]
    source = SideBySide(
        workloads=tuple(one.scenario.workload for one in group),
        lengths=tuple(source for source in sources if isinstance(source, FixedLengths)),
        sizes=tuple(one.probes for one in group),
    )
    return Run(
        scenario=scenario,
        operators=group[0].operators,
        source=source,
        cost=cost_of(scenario),
        batch_sizes=np.concatenate([np.arange(one.first, one.last + 1, dtype=np.int64) for one in group]),
    )


def _slices(group: Sequence[AskedSizes]) -> Iterator[slice]:
    end = 0
    for one in group:
        end += one.probes
        yield slice(end - one.probes, end)


def batch_ranges(scenarios: Sequence[Ranged]) -> list[BatchRange | Exception]:
    """As `batch_range`, or the error."""
    made: dict[int, BatchRange | Exception] = {}
    firsts: list[tuple[int, AskedSizes, int]] = []
    for place, (scenario, operators, ceiling) in enumerate(scenarios):
        most = _tried(_most, scenario, ceiling)
        if isinstance(most, Exception):
            made[place] = most
        else:
            firsts.append((place, AskedSizes(scenario, operators, 1, min(most, FIRST_BLOCK)), most))
    for places in grouped([one for _, one, _ in firsts], in_memory=True):
        group = [firsts[place] for place in places]
        for (place, _, _), found in zip(group, _ranges(group), strict=True):
            made[place] = found
    return [made[place] for place in range(len(scenarios))]


def _most(scenario: Scenario, ceiling: int | None) -> int:
    return most_worth(scenario, batch_source(scenario), ceiling)


def _ranges(group: Sequence[tuple[int, AskedSizes, int]]) -> Sequence[BatchRange | Exception]:
    asked = [one for _, one, _ in group]
    fitting = _tried(lambda group: fitting_of(_side_by_side(group)), asked) if len(group) > 1 else None
    if isinstance(fitting, np.ndarray):
        parts = zip(group, _slices(asked), strict=True)
        return [_tried(_range, one, most, fitting[part]) for (_, one, most), part in parts]
    alone = [_tried(_range, one, most, None) for _, one, most in group]
    _tell(fitting, alone)
    return alone


def _range(one: AskedSizes, most: int, fits: NDArray[np.bool_] | None) -> BatchRange:
    if fits is not None and not fits.all():
        return range_up_to(most, int(np.argmin(fits)))
    if fits is not None and fits.size == most:
        return range_up_to(most, most)
    return batch_range(one.scenario, one.operators, ceiling=most, known=0 if fits is None else fits.size)
