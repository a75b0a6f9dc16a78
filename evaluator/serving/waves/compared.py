"""Which rows under upstream's convention lie within what tests compare with that program, and which beyond.

The tests are tests/evaluator/test_upstream_*.py; docs/explanation/seeds.md has their table."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.inputs.workloads.workload import new_prompt_tokens
from evaluator.scenario import Scenario

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
    if scenario.serving_model != "waves":
        yield f"serving model {scenario.serving_model}"
    yield from _beyond_in_workload(scenario)
    if scenario.drafting and (compiled or scenario.workload.mtp_tokens > 1 or scenario.phase == "aggregated"):
        yield "drafts other than one a step, eager and with prefill and decode apart"
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
