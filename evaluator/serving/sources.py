"""Batches of a workload: one length, or a distribution."""

from __future__ import annotations

import functools
from dataclasses import replace

from evaluator.inputs.model import ModelSpec, Span
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.same_objects import SameObjects
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.waves.mixed import MixedLengths, PrefillRule
from store.schema import Convention


def batches_of(scenario: Scenario, rule: PrefillRule = "packed") -> BatchSource:
    workload, windows = scenario.workload, _spans(scenario.model)
    fixed = _fixed_lengths(workload, scenario.plan.dp, scenario.convention, windows)
    return fixed or mixed_lengths(workload, scenario.convention, rule, windows)


@SameObjects
def _spans(model: ModelSpec) -> tuple[Span, ...]:
    return model.spans


@SameObjects
def _fixed_lengths(
    workload: Workload, replicas: int, convention: Convention, windows: tuple[Span, ...]
) -> FixedLengths | None:
    """None for a distribution, which keeps much of itself."""
    single = _single_lengths(workload)
    if single is None:
        return None
    input_length, output_length, hit_rate = single
    return FixedLengths(
        input_length=input_length,
        output_length=output_length,
        hit_rate=hit_rate,
        token_budget=workload.max_batched_tokens,
        convention=convention,
        replicas=replicas,
        windows=windows,
        tokens_per_decode=1 + workload.mtp_tokens,
    )


@functools.lru_cache(maxsize=4)
def mixed_lengths(
    workload: Workload, convention: Convention, rule: PrefillRule, windows: tuple[Span, ...]
) -> MixedLengths:
    """Shared by plans and phases: what it has composed and packed is used again."""
    return MixedLengths(
        bins=_with_tiers(workload),
        hit_rate=workload.kept_share(),
        token_budget=workload.max_batched_tokens,
        convention=convention,
        rule=rule,
        windows=windows,
        tokens_per_decode=1 + workload.mtp_tokens,
    )


def _with_tiers(workload: Workload) -> tuple[LengthBin, ...]:
    """Bins with a rate of their own, with all that is computed already."""
    return tuple(
        bin_
        if bin_.prefix_cache_hit_rate is None or not workload.tiers
        else replace(bin_, prefix_cache_hit_rate=workload.kept_share(bin_.prefix_cache_hit_rate))
        for bin_ in workload.bins
    )


def _single_lengths(workload: Workload) -> tuple[int, float, float] | None:
    """(prompt, output, hit rate); None for distributed lengths."""
    if workload.input_length is not None:
        return workload.input_length, workload.output_length, workload.kept_share()
    own = {
        (
            round(bin_.input_length),
            bin_.output_length,
            workload.kept_share(bin_.prefix_cache_hit_rate),
        )
        for bin_ in workload.bins
    }
    return next(iter(own)) if len(own) == 1 else None
