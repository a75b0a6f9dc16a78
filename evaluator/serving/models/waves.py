"""Serving by formulas: every request is there at the start, prompts run in waves, then all decode together.

Source: seed 001. `seed002` runs a mixed-length prefill batch whole (seed 002).

Rows under upstream's convention beyond what tests compare with that program say so. The tests are
tests/evaluator/test_upstream_*.py; docs/reference/seeds.md has their table."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.inputs.workloads.workload import new_prompt_tokens
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
from evaluator.serving.waves.mixed import MixedLengths, PrefillRule
from evaluator.serving.waves.rotating import rotated_steps
from evaluator.serving.waves.side_by_side import SideBySide
from evaluator.serving.waves.wave_latencies import PrefillCompletion, RequestTimes, aggregated_times, said_of_reading
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import FORMULAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The formulas; `rule` says how prompts of several lengths share a prefill step."""

    rule: PrefillRule

    def source(self, scenario: Scenario) -> BatchSource:
        return batches_of(scenario, self.rule)

    def refusal(self, scenario: Scenario, source: BatchSource) -> InputError | None:  # noqa: ARG002
        return None

    def said(self, scenario: Scenario) -> tuple[str, ...]:
        """Where a row under upstream lies beyond what is compared with that program, and what prompts read."""
        return (*not_compared(scenario), *said_of_reading(scenario, self.source(scenario)))

    def parts(self, run: Run) -> list[slice]:
        if run.scenario.phase != "decode" and isinstance(run.source, MixedLengths):
            return run.source.blocks(run.requests)
        return [slice(0, run.batch_sizes.size)]

    def prefill(self, run: Run) -> Columns:
        completion, full = prompts_in_waves(run, run.scenario.serving_cost_ms / MS)
        return {**prefill_columns(run, full), **completion_columns(completion)}

    def decode(self, run: Run) -> Columns:
        step, quantiles = decode_periods(run, run.scenario.serving_cost_ms / MS)
        tpot = MS * step.total / gained_tokens(run)
        return {**decode_columns(run, step), **quantiles, "tpot_inclusive_ms": tpot, "tpot_exclusive_ms": tpot}

    def aggregated(self, run: Run) -> Columns:
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


MODELS: dict[str, ServingModel] = {FORMULAS: Waves(rule="packed"), "seed002": Waves(rule="whole")}


ARCHITECTURES = frozenset({"qwen3", "qwen3_moe", "minimax_m2", "deepseek_v3"})
FORMATS = frozenset({"BF16", "W8A8_DYNAMIC", "W4A8_DYNAMIC", "FP8"})
ROUTED_FORMATS = frozenset({"W8A8_DYNAMIC", "W4A8_DYNAMIC"})


def not_compared(scenario: Scenario) -> Iterator[str]:
    """The sentence about rows beyond the comparison; none within it, and none under our own convention."""
    if scenario.convention == "upstream" and (beyond := list(_beyond(scenario))):
        yield f"not compared with upstream: {', '.join(beyond)}"


def _beyond(scenario: Scenario) -> Iterator[str]:
    model, plan, compiled = scenario.model, scenario.plan, scenario.launch.compile
    if model.architecture not in ARCHITECTURES:
        yield f"models like {model.architecture}"
    if scenario.device.family != "theoretical":
        yield "measured devices"
    if plan.pp > 1:
        yield "requests in a pipeline"
    if model.routed and plan.ep == 1 and plan.dp > 1:
        yield "experts that are split over replicas"
    if scenario.serving_model != FORMULAS:
        yield f"serving model {scenario.serving_model}"
    yield from _beyond_in_workload(scenario)
    if scenario.drafting and (compiled or scenario.workload.mtp_tokens > 1 or scenario.phase == "aggregated"):
        yield "drafts other than one a step, eager and disaggregated"
    yield from _beyond_in_formats(scenario)


def _beyond_in_workload(scenario: Scenario) -> Iterator[str]:
    workload, compiled = scenario.workload, scenario.launch.compile
    if workload.bins:
        if scenario.model.routed or workload.kept_share():
            yield "length distributions of experts or with a prefix cache"
        if scenario.phase == "decode" or (compiled and scenario.phase == "aggregated"):
            yield "length distributions in this phase and graph"
    elif workload.input_length is not None and scenario.phase != "decode" and scenario.model.routed:
        new = new_prompt_tokens(workload.input_length, workload.kept_share())
        if new > workload.max_batched_tokens:
            yield "experts with prompts in chunks"
    if workload.kept_share() and compiled:
        yield "a prefix cache with compiled graphs"


def _beyond_in_formats(scenario: Scenario) -> Iterator[str]:
    precision, routed, compiled = scenario.precision, scenario.model.routed, scenario.launch.compile
    experts = precision.experts or precision.linear
    usual = {"W8A8_DYNAMIC"}
    known = usual if compiled else (ROUTED_FORMATS if routed else FORMATS)
    for name in dict.fromkeys((precision.linear, experts) if routed else (precision.linear,)):
        if name not in known:
            yield f"{name} in {'compiled' if compiled else 'eager'} graphs{' of experts' if routed else ''}"
    if routed and experts != precision.linear:
        yield "experts in a format of their own"
    if precision.cache == "FP8" or (precision.cache == "INT8" and (routed or compiled)):
        yield f"attention in {precision.cache} here"
