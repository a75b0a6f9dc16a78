"""Checked workloads, their labels and canonical form."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evaluator.inputs.workloads.lengths import mean_input_length, normalised
from evaluator.inputs.workloads.workload import (
    LARGEST_LENGTH,
    CacheTier,
    LengthBin,
    Workload,
    new_prompt_tokens,
    told_tiers,
)
from store.errors import InputError

DEFAULT_TOKEN_BUDGET = 8192  # seed 001
DEFAULT_ACCEPTANCE = (0.9, 0.6, 0.4, 0.2)  # seed 001
MOST_MTP_TOKENS = 9


def workload_of(
    *,
    input_length: int | None,
    output_length: float,
    bins: Sequence[LengthBin] = (),
    prefix_cache_hit_rate: float = 0.0,
    max_batched_tokens: int = DEFAULT_TOKEN_BUDGET,
    mtp_tokens: int = 0,
    mtp_acceptance: Sequence[float] | None = None,
    name: str | None = None,
    tiers: tuple[CacheTier, ...] = (),
) -> Workload:
    """Acceptance is written out for every draft."""
    if (input_length is None) == (not bins):
        raise InputError("give either an input length or length bins")
    if input_length is not None:
        _whole("`input_length`", input_length, 1, LARGEST_LENGTH)
    if not (math.isfinite(output_length) and 1 <= output_length <= LARGEST_LENGTH):
        raise InputError(f"`output_length` must lie between 1 and {LARGEST_LENGTH}, not {output_length:g}")
    if not 0 <= prefix_cache_hit_rate < 1:
        meant = f" Did you mean {prefix_cache_hit_rate / 100:g}?" if 1 < prefix_cache_hit_rate < 100 else ""
        raise InputError(
            f"`prefix_cache_hit_rate` must lie in [0, 1), not {prefix_cache_hit_rate:g}.", hint=meant.strip() or None
        )
    _whole("`max_num_batched_tokens`", max_batched_tokens, 1, 2**40)
    made = Workload(
        input_length=input_length,
        output_length=output_length,
        bins=_shares(bins),
        prefix_cache_hit_rate=float(prefix_cache_hit_rate),
        max_batched_tokens=max_batched_tokens,
        mtp_tokens=mtp_tokens,
        mtp_acceptance=_acceptance(mtp_tokens, mtp_acceptance),
        name=name,
        tiers=tiers,
    )
    own = [bin_.prefix_cache_hit_rate for bin_ in bins] or [None]
    for share in map(made.kept_share, own):
        if tiers and share >= 1:
            raise InputError(f"prompts are found in caches for {share:g} of their length", hint="less than 1 in all")
    return made


def _shares(bins: Sequence[LengthBin]) -> tuple[LengthBin, ...]:
    # Weights that sum to 1 already stay as they are, bit for bit: they are part of a content key.
    summed = math.isclose(math.fsum(bin_.weight for bin_ in bins), 1.0, rel_tol=1e-9)
    return tuple(bins) if summed or not bins else normalised(bins)


def _whole(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{option} must lie between {low} and {high}, not {value}")


def _acceptance(tokens: int, rates: Sequence[float] | None) -> tuple[float, ...]:
    if not 0 <= tokens <= MOST_MTP_TOKENS:
        raise InputError(f"`num_mtp_tokens` must lie between 0 and {MOST_MTP_TOKENS}, not {tokens}")
    if rates is None:
        # Seed 001 gives four; a longer draft is accepted no further.
        padded = (*DEFAULT_ACCEPTANCE, *(0.0 for _ in range(tokens)))
        return padded[:tokens]
    if any(not 0 <= rate <= 1 for rate in rates):
        raise InputError(f"`mtp_acceptance_rate` must lie in [0, 1], not {', '.join(f'{rate:g}' for rate in rates)}")
    if len(rates) < tokens:
        raise InputError(
            f"{tokens} MTP tokens need {tokens} acceptance rates, `mtp_acceptance_rate` gives {len(rates)}",
            hint="give one rate a drafted token, or fewer `num_mtp_tokens`",
        )
    return tuple(float(rate) for rate in rates[:tokens])


def label_of(workload: Workload) -> str:
    """`3500/1500`, then what is not the default."""
    if workload.input_length is not None:
        head = f"{workload.input_length}/{workload.output_length:g}"
    else:
        head = f"~{mean_input_length(workload.bins):.0f}/{workload.output_length:.0f} ({len(workload.bins)} bins)"
    parts = [head]
    if (images := workload.images) is not None:
        parts.append(f"with {images.count} x {images.width}x{images.height}")
        if images.split != "weights":
            parts.append(f"shared as {images.split}")
    if workload.prefix_cache_hit_rate:
        parts.append(f"hit {workload.prefix_cache_hit_rate:g}")
    if workload.tiers:
        parts.append(told_tiers(workload.tiers))
    if workload.max_batched_tokens != DEFAULT_TOKEN_BUDGET:
        parts.append(f"max-num-batched-tokens {workload.max_batched_tokens}")
    if workload.mtp_tokens:
        parts.append(f"mtp {workload.mtp_tokens}")
    return " ".join(parts)


def effective_input_length(workload: Workload) -> float:
    if workload.input_length is not None:
        return new_prompt_tokens(workload.input_length, workload.kept_share())
    return math.fsum(
        bin_.weight
        * new_prompt_tokens(
            round(bin_.input_length),
            workload.kept_share(bin_.prefix_cache_hit_rate),
        )
        for bin_ in workload.bins
    )
