"""What is served: input and output lengths, prefix cache, token budget, MTP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBin:
    """One bin of a joint length distribution: representative lengths, probability, an own hit rate if given."""

    input_length: float
    output_length: float
    weight: float
    min_input_length: int
    max_input_length: int
    prefix_cache_hit_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload. Exactly one of `input_length` and `bins` is set; with bins, `output_length` is their mean."""

    input_length: int | None
    output_length: float
    prefix_cache_hit_rate: float = 0.0
    max_batched_tokens: int = 8192
    mtp_tokens: int = 0
    mtp_acceptance: tuple[float, ...] = ()
    bins: tuple[LengthBin, ...] = ()
    name: str | None = None
