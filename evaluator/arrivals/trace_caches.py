"""Cached tokens of a log's prompts: stated shares, or prefixes left in tiers.

Prompts follow in the log's order at any rate, and are cached at once. Blocks leave least recently used; tiers write
through, as in vLLM and SGLang. Left out: answers, until a later prompt hashes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.prefix_pools import PrefixCache
from evaluator.inputs.workloads.arrival_times import BLOCK_TOKENS, TracedArrivals
from evaluator.inputs.workloads.workload import TIERS, CacheTier, Workload
from evaluator.pricing.memory import transfer_bytes
from evaluator.scenario import Scenario
from evaluator.serving.engine.tier_loads import bytes_per_s, read_bytes, read_seconds
from evaluator.serving.occupancy import kv_cache_bits
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import TierName

_MANY_TOKENS = 1.0e6  # of one request, over which what its states take is nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRoom:
    """A replica's room in a tier. `bytes_per_s` a device; 0: the profile's."""

    name: TierName
    room_bytes: float
    bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldTokens:
    """By devices, and by each tier beyond them."""

    device: Integers
    tiers: Mapping[TierName, Integers] = field(default_factory=dict)

    @property
    def cached(self) -> Integers:
        return np.asarray(sum(self.tiers.values(), self.device), dtype=np.int64)

    def shares(self, prompts: Integers) -> dict[str, float]:
        total, places = float(prompts.sum()), [("device", self.device), *self.tiers.items()]
        return {name: float(tokens.sum()) / total for name, tokens in places}


def told_rooms(rooms: Sequence[CacheRoom]) -> str:
    """`device,host:400`, in GB."""
    return ",".join(["device", *(f"{room.name}:{1e-9 * room.room_bytes:g}" for room in rooms)])


def stated_tokens(prompts: Integers, workload: Workload) -> HeldTokens:
    kept, found, before = 0.0, [], np.zeros_like(prompts)
    for share in (workload.prefix_cache_hit_rate, *(tier.hit_rate for tier in workload.tiers)):
        kept += share
        until = np.minimum(np.floor(kept * prompts + 1e-9).astype(np.int64), prompts - 1)
        found.append(until - before)
        before = until
    tiers = {tier.name: tokens for tier, tokens in zip(workload.tiers, found[1:], strict=True)}
    return HeldTokens(device=found[0], tiers=tiers)


def prefix_tokens(
    trace: TracedArrivals, rooms: Mapping[TierName | str, int], replicas: Integers | None = None
) -> HeldTokens:
    """Tokens shared with earlier prompts, by `rooms` in blocks, devices first.

    Each replica has its own caches."""
    if trace.blocks is None:
        raise InputError(
            "the log does not say which prompts share a prefix",
            hint="`hash_ids` of each request, one for 512 tokens; or state shares: `host_hit_rate`",
        )
    dealt = np.zeros(trace.input_lengths.size, dtype=np.int64) if replicas is None else replicas
    caches = [[PrefixCache(size) for size in rooms.values()] for _ in range(int(dealt.max()) + 1)]
    found = np.zeros((len(rooms), trace.input_lengths.size), dtype=np.int64)
    for number, (prompt, blocks) in enumerate(zip(trace.input_lengths.tolist(), trace.blocks, strict=True)):
        longest = 0
        for place, cache in enumerate(caches[int(dealt[number])]):
            held = min(BLOCK_TOKENS * cache.prefix(blocks), prompt - 1)
            found[place, number] = max(held - longest, 0)
            longest = max(longest, held)
            cache.keep(blocks)
    names = list(rooms)
    return HeldTokens(device=found[0], tiers={name: found[place] for place, name in enumerate(names) if place})  # type: ignore[misc]


def block_bytes(scenario: Scenario) -> float:
    one = transfer_bytes(scenario.model, kv_cache_bits(scenario.precision), _MANY_TOKENS)
    return BLOCK_TOKENS * one / _MANY_TOKENS


def rooms_in_blocks(scenario: Scenario, kv_tokens: float, rooms: Sequence[CacheRoom]) -> dict[TierName | str, int]:
    each = block_bytes(scenario)
    sizes = {room.name: int(room.room_bytes // each) for room in rooms}
    return {"device": int(kv_tokens // BLOCK_TOKENS), **{name: sizes[name] for name in TIERS if name in sizes}}


def reading_tiers(scenario: Scenario, rooms: Sequence[CacheRoom]) -> tuple[CacheTier, ...]:
    """Tiers with rooms hold no stated share."""
    if not rooms:
        return scenario.workload.tiers
    tiers = tuple(CacheTier(name=room.name, hit_rate=0.0, bytes_per_s=room.bytes_per_s) for room in rooms)
    for tier in tiers:
        if not bytes_per_s(scenario, tier):
            raise InputError(
                f"{scenario.device.name} states no rate of its {tier.name}", hint=f"`{tier.name}_gb_per_s`: GB a second"
            )
    return tiers


def priced_tier(scenario: Scenario, tier: CacheTier) -> CacheTier:
    return replace(tier, bytes_per_s=bytes_per_s(scenario, tier))


def reading_seconds(scenario: Scenario, held: HeldTokens, tiers: Sequence[CacheTier]) -> FloatArray:
    """The slowest way of each prompt."""
    cached = held.cached
    seconds = np.zeros(cached.shape)
    for number in np.flatnonzero(cached - held.device):
        tokens = {tier.name: float(held.tiers[tier.name][number]) for tier in tiers}
        seconds[number] = read_seconds(scenario, read_bytes(scenario, int(cached[number]), tokens), tiers)
    return seconds
