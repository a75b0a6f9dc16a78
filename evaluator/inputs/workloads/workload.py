"""Lengths, prefix cache, token budget and MTP of the requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from evaluator.canonical import IF_SET
from evaluator.inputs.images import ImageRequest, Images, VisionTower, images_of
from evaluator.inputs.model import ModelSpec
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import TIER_PLACES, TierName

TIERS: tuple[TierName, ...] = tuple(TIER_PLACES)  # from the nearest on
_FASTEST = 1e16


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTier:
    """Part of each prompt held in a tier. `bytes_per_s` a device; 0: the profile's."""

    name: TierName
    hit_rate: float
    bytes_per_s: float = 0.0


def cache_tiers(
    hit_rates: Mapping[TierName, float], gb_per_s: Mapping[TierName, float | None]
) -> tuple[CacheTier, ...]:
    """Nearest first, without empty tiers."""
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
    """`host 0.5 ssd 0.2 at 6 GB/s`, for labels."""
    return " ".join(
        f"{one.name} {one.hit_rate:g}" + (f" at {1e-9 * one.bytes_per_s:g} GB/s" if one.bytes_per_s else "")
        for one in tiers
    )


LARGEST_BIN_COUNT = 1_000  # of one distribution
LARGEST_LENGTH = 16_777_216  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBin:
    input_length: float
    output_length: float
    weight: float
    min_input_length: int
    max_input_length: int
    prefix_cache_hit_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Exactly one of `input_length` and `bins` is set; with bins, `output_length` is their mean.

    Input counts image tokens. The hit rate is of device memory; `tiers` add to it."""

    input_length: int | None
    output_length: float
    prefix_cache_hit_rate: float = 0.0
    max_batched_tokens: int = 8192
    mtp_tokens: int = 0
    mtp_acceptance: tuple[float, ...] = ()
    bins: tuple[LengthBin, ...] = ()
    name: str | None = None
    images: Images | None = field(default=None, metadata={IF_SET: True})
    tiers: tuple[CacheTier, ...] = field(default=(), metadata={IF_SET: True})

    def kept_share(self, own: float | None = None) -> float:
        """Share of a prompt already computed, anywhere; `own` is the bin's hit rate."""
        rate = self.prefix_cache_hit_rate if own is None else own
        return rate + math.fsum(tier.hit_rate for tier in self.tiers) if self.tiers else rate


def with_images(workload: Workload, asked: ImageRequest, model: ModelSpec) -> Workload:
    """An error says why the model sees no images."""
    if not isinstance(model.vision, VisionTower):
        reason = model.vision or "it reads text alone"
        raise InputError(
            f"`images`: no image encoder of {model.architecture} is evaluated: {reason}",
            hint="leave `images` out: its language part is evaluated alone; or write image tokens into `input_length`",
        )
    images = images_of(asked, model.vision)
    text = max((bin_.max_input_length for bin_ in workload.bins), default=0) or workload.input_length or 0
    if (length := text + images.prompt_tokens) > LARGEST_LENGTH:
        raise InputError(f"`images`: {length:,} tokens of text and images are more than {LARGEST_LENGTH:,}")
    bins = tuple(_longer(bin_, images.prompt_tokens) for bin_ in workload.bins)
    # A name is of the workload of text.
    return replace(workload, input_length=None if bins else length, bins=bins, images=images, name=None)


def _longer(bin_: LengthBin, tokens: int) -> LengthBin:
    return replace(
        bin_,
        input_length=bin_.input_length + tokens,
        min_input_length=bin_.min_input_length + tokens,
        max_input_length=bin_.max_input_length + tokens,
    )


def new_prompt_tokens(input_length: int, hit_rate: float) -> int:
    """Seed 001: E = I - floor(I x hit); the last token is always new."""
    # 3500 x 0.29 is 1014.9999999999999 in binary: a grain of 1e-9 keeps the floor what decimal arithmetic says.
    return max(1, input_length - math.floor(input_length * hit_rate + 1e-9))
