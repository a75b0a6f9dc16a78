"""Prefill instances with block caches: dispatch of prompts, and cache contents.

Source: Qin et al. 2024, Mooncake (arXiv 2407.00079), algorithm 1. An instance takes a prompt at a time, in order;
fetches overlap the wait. Left out: batches of short prompts, load of links, caches on disks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Literal, Protocol

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.streams import dealt_replicas
from evaluator.inputs.workloads.arrival_times import BLOCK_TOKENS
from store.light_dataclass import dataclass

PrefillPolicy = Literal["random", "load", "cache", "mooncake"]
_Seconds = Callable[[int, int], float]


class PromptSeconds(Protocol):
    """By cached tokens, all tokens, and images before the text."""

    def __call__(self, cached: int, prompt: int, images: int = 0) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    policy: PrefillPolicy
    instances: int = 4
    cache_blocks: int = 20_000  # of each instance
    balance_threshold: float = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRules:
    """`random` deals; `load` takes the least wait, `cache` the least wait and prompt.

    `mooncake` fetches the pool's longest prefix where it exceeds `balance_threshold` times the own, at
    `token_transfer_s` a token. Requests predicted beyond `reject_s` are turned away."""

    policy: PrefillPolicy
    instances: int
    cache_blocks: int
    balance_threshold: float = 1.3
    token_transfer_s: float = 0.0
    reject_s: float = inf
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PooledRequests:
    """Seconds to first token (NaN: rejected), cached tokens, seconds worked."""

    ttft_s: FloatArray
    cached: Integers
    busy_s: float

    def hit_rate(self, prompts: Integers) -> float:
        entered = ~np.isnan(self.ttft_s)
        return float(self.cached[entered].sum() / max(1, prompts[entered].sum()))


class PrefixCache:
    def __init__(self, size: int) -> None:
        self.size = size
        self.blocks: OrderedDict[int, None] = OrderedDict()

    def prefix(self, blocks: Sequence[int]) -> int:
        return next((place for place, block in enumerate(blocks) if block not in self.blocks), len(blocks))

    def keep(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self.blocks[block] = None
            self.blocks.move_to_end(block)
        while len(self.blocks) > self.size:
            self.blocks.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Choice:
    instance: int
    cached: int
    start: float
    end: float


def play_pool(
    rules: PoolRules,
    prompt_s: PromptSeconds,
    arrive_s: FloatArray,
    prompts: Integers,
    blocks: Sequence[Sequence[int]],
    *,
    images: Integers | None = None,
) -> PooledRequests:
    caches = [PrefixCache(rules.cache_blocks) for _ in range(rules.instances)]
    free = [0.0] * rules.instances
    dealt = dealt_replicas(rules.instances, rules.seed, arrive_s.size)
    ttft = np.full(arrive_s.size, np.nan)
    held = np.zeros(arrive_s.size, dtype=np.int64)
    busy = 0.0
    for number, (now, prompt) in enumerate(zip(arrive_s.tolist(), prompts.tolist(), strict=True)):
        prefixes = [min(BLOCK_TOKENS * cache.prefix(blocks[number]), prompt - 1) for cache in caches]
        seconds: _Seconds = prompt_s if images is None else partial(prompt_s, images=int(images[number]))
        chosen = _chosen(rules, seconds, (now, prompt, int(dealt[number])), prefixes, free)
        if chosen.end - now > rules.reject_s:
            continue
        ttft[number], held[number] = chosen.end - now, chosen.cached
        free[chosen.instance] = chosen.end
        busy += chosen.end - chosen.start
        caches[chosen.instance].keep(blocks[number])
    return PooledRequests(ttft_s=ttft, cached=held, busy_s=busy)


def _chosen(
    rules: PoolRules, prompt_s: _Seconds, request: tuple[float, int, int], prefixes: list[int], free: list[float]
) -> _Choice:
    now, prompt, dealt = request
    if rules.policy == "random":
        return _on(dealt, prefixes[dealt], now, prompt_s, prompt, free)
    if rules.policy == "load":
        least = min(range(rules.instances), key=free.__getitem__)
        return _on(least, prefixes[least], now, prompt_s, prompt, free)
    best = max(prefixes)
    choices = []
    for instance, own in enumerate(prefixes):
        fetches = rules.policy == "mooncake" and best > rules.balance_threshold * own
        ready = now + (best - own) * rules.token_transfer_s if fetches else now
        choices.append(_on(instance, best if fetches else own, ready, prompt_s, prompt, free))
    return min(choices, key=lambda one: one.end)


def _on(instance: int, cached: int, ready: float, prompt_s: _Seconds, prompt: int, free: list[float]) -> _Choice:  # noqa: PLR0917  one of each
    start = max(ready, free[instance])
    return _Choice(instance, cached, start, start + prompt_s(cached, prompt))
