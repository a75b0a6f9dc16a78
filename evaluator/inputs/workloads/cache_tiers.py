"""Where keys and values of prompts lie outside the devices: what share of a prompt, and how fast it is read.

Shares are data of a workload, as the hit rate of the prefix cache is; no replacement policy is played here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from store.errors import InputError
from store.schema import TIER_PLACES, TierName

TIERS: tuple[TierName, ...] = tuple(TIER_PLACES)  # from the nearest on
_FASTEST = 1e16


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTier:
    """A share of each prompt that one tier holds. `bytes_per_s` are those of one device; 0: what its profile says."""

    name: TierName
    hit_rate: float
    bytes_per_s: float = 0.0


def cache_tiers(
    hit_rates: Mapping[TierName, float], gb_per_s: Mapping[TierName, float | None]
) -> tuple[CacheTier, ...]:
    """The tiers that hold something, from the nearest on. A tier that holds nothing is none, however fast."""
    for name in TIERS:
        rate, speed = hit_rates.get(name, 0.0), gb_per_s.get(name)
        if not 0 <= rate < 1:
            raise InputError(f"`{name}_hit_rate` must lie in [0, 1), not {rate:g}")
        if speed is not None and not (math.isfinite(speed) and 0.0 < speed <= 1e-9 * _FASTEST):
            raise InputError(f"`{name}_gb_per_s` must be above 0, not {speed:g}")
    return tuple(
        CacheTier(name=name, hit_rate=float(hit_rates[name]), bytes_per_s=1e9 * (gb_per_s.get(name) or 0.0))
        for name in TIERS
        if hit_rates.get(name)
    )


def hit_rate_of(tiers: Sequence[CacheTier], name: TierName) -> float:
    return math.fsum(one.hit_rate for one in tiers if one.name == name)


def told_tiers(tiers: Sequence[CacheTier]) -> str:
    """`host 0.5 ssd 0.2 at 6 GB/s`, as labels of workloads say it."""
    return " ".join(
        f"{one.name} {one.hit_rate:g}" + (f" at {1e-9 * one.bytes_per_s:g} GB/s" if one.bytes_per_s else "")
        for one in tiers
    )
