"""Serving by formulas: every request is there at the start, prompts run in waves, then all decode together.

Source: seed 001. `seed002` runs a mixed-length prefill batch whole (seed 002). Not here: engines (models.engine)."""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.pricing.step import StepTimes
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.columns import (
    MS,
    completion_columns,
    decode_columns,
    decode_periods,
    gained_tokens,
    prefill_columns,
    prompts_in_waves,
)
from evaluator.serving.interface import Columns, Run, ServingModel
from evaluator.serving.phases import shared_steps
from evaluator.serving.sources import batches_of
from evaluator.serving.waves.chunked_mixed import shared_mixed_steps
from evaluator.serving.waves.compared import not_compared
from evaluator.serving.waves.mixed import MixedLengths, PrefillRule
from evaluator.serving.waves.rotating import rotated_steps
from evaluator.serving.waves.side_by_side import SideBySide
from evaluator.serving.waves.wave_latencies import PrefillCompletion, RequestTimes, aggregated_times, said_of_reading
from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The formulas; `rule` says how prompts of several lengths share a prefill step."""

    rule: PrefillRule

    def engine(self, scenario: Scenario) -> None:  # noqa: ARG002  no engine serves
        """None: formulas know no scheduler."""
        return

    def source(self, scenario: Scenario) -> BatchSource:
        """Whole batches under the rule."""
        return batches_of(scenario, self.rule)

    def refusal(self, scenario: Scenario, source: BatchSource) -> InputError | None:  # noqa: ARG002
        """None: the formulas cover every legal plan and workload."""
        return None

    def said(self, scenario: Scenario) -> tuple[str, ...]:
        """Where a row under upstream lies beyond what is compared with that program, and what prompts read."""
        return (*not_compared(scenario), *said_of_reading(scenario, self.source(scenario)))

    def parts(self, run: Run) -> list[slice]:
        """As many batches together as keep the packed steps of mixed lengths small."""
        if run.scenario.phase != "decode" and isinstance(run.source, MixedLengths):
            return run.source.blocks(run.requests)
        return [slice(0, run.batch_sizes.size)]

    def prefill(self, run: Run) -> Columns:
        """Waves of the token budget, one after the other."""
        completion, full = prompts_in_waves(run, run.scenario.serving_cost_ms / MS)
        return {**prefill_columns(run, full), **completion_columns(completion)}

    def decode(self, run: Run) -> Columns:
        """One step after the other."""
        step, quantiles = decode_periods(run, run.scenario.serving_cost_ms / MS)
        tpot = MS * step.total / gained_tokens(run)
        return {**decode_columns(run, step), **quantiles, "tpot_inclusive_ms": tpot, "tpot_exclusive_ms": tpot}

    def aggregated(self, run: Run) -> Columns:
        """Prefill of everything, then decode; chunks of long prompts share steps with decodes."""
        step, quantiles = decode_periods(run, 0.0)
        completion, times, full = _aggregated_times(run, step)
        return {
            **prefill_columns(run, full),
            **decode_columns(run, step),
            **quantiles,
            **completion_columns(completion),
            "e2e_ms": MS * times.e2e,
            "tpot_inclusive_ms": MS * times.tpot_inclusive,
            "tpot_exclusive_ms": MS * times.tpot_exclusive,
        }


def _aggregated_times(run: Run, step: StepTimes) -> tuple[PrefillCompletion, RequestTimes, StepTimes]:
    """Completion of the prompts, times of a request, and the first prefill step of each batch."""
    gained, source, convention = gained_tokens(run), run.source, run.scenario.convention
    chunked = source.chunks > 1
    if chunked and isinstance(source, MixedLengths) and convention == "physical":
        return shared_mixed_steps(run, source, gained, step.total)
    completion, full = prompts_in_waves(run, 0.0)
    if chunked and isinstance(source, FixedLengths):
        shared = rotated_steps if convention == "upstream" else shared_steps
        return *shared(run, source, gained), full
    output = source.output_lengths if isinstance(source, SideBySide) else run.scenario.workload.output_length
    return completion, aggregated_times(completion.mean, step.total / gained, output, convention), full


MODELS: dict[str, ServingModel] = {"waves": Waves(rule="packed"), "seed002": Waves(rule="whole")}
