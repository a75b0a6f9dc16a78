"""Times torch kernels on this machine (imports torch). measure.py chooses the shapes."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Kind = Literal["cpu", "cuda"]
Kernel = Callable[[], object]
POOL_BYTES = {"cpu": 256 << 20, "cuda": 1 << 30}  # larger than any cache
MOST_COPIES = 64
MOST_REPEATS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Operands view one pool of random numbers: zeros would draw less power."""

    kind: Kind
    pool: Tensor

    @property
    def device(self) -> torch.device:
        return torch.device(self.kind)

    def tensor(self, *shape: int) -> Tensor:
        """May stay in a cache."""
        numbers = math.prod(shape)
        if numbers > self.pool.numel():
            return torch.randn(shape, device=self.device, dtype=torch.bfloat16)
        return self.pool[:numbers].view(shape).clone()

    def copies(self, *shape: int) -> list[Tensor]:
        """To be used in turn, so that none is cached when its turn comes."""
        numbers = math.prod(shape)
        if numbers > self.pool.numel():
            return [self.tensor(*shape)]
        number = min(MOST_COPIES, self.pool.numel() // numbers)
        apart = self.pool.numel() // number
        return [self.pool[index * apart : index * apart + numbers].view(shape) for index in range(number)]

    def seconds(self, kernels: list[Kernel], budget_s: float) -> float:
        """Of one call, each kernel in turn; the first calls warm up.

        The shortest on a CPU, whose cores are shared; the median on a GPU."""
        for kernel in kernels[:2]:
            kernel()
        return self._graph(kernels, budget_s) if self.kind == "cuda" else self._clock(kernels, budget_s)

    def _clock(self, kernels: list[Kernel], budget_s: float) -> float:
        # One thread: its own time is the wall time less what other programs took from it.
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        taken: list[float] = []
        end = time.perf_counter() + budget_s
        while len(taken) < 3 or (len(taken) < MOST_REPEATS and time.perf_counter() < end):
            kernel = kernels[len(taken) % len(kernels)]
            start = clock()
            kernel()
            taken.append(clock() - start)
        return min(taken)

    def _graph(self, kernels: list[Kernel], budget_s: float) -> float:
        """In a CUDA graph, as engines run kernels, so that no launch from Python is timed."""
        calls = max(len(kernels), 8)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(calls):
                kernels[index % len(kernels)]()
        graph.replay()
        torch.cuda.synchronize()
        taken: list[float] = []
        end = time.perf_counter() + budget_s
        while len(taken) < 3 or (len(taken) < MOST_REPEATS and time.perf_counter() < end):
            start = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            taken.append((time.perf_counter() - start) / calls)
        return statistics.median(taken)


def opened(kind: Kind) -> Bench:
    return Bench(kind=kind, pool=torch.randn(POOL_BYTES[kind] // 2, device=kind, dtype=torch.bfloat16))


@contextmanager
def threads(number: int | None) -> Iterator[int]:
    """None: as they are."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def product(bench: Bench, rows: int, columns: int, inner: int) -> list[Kernel]:
    x = bench.tensor(rows, inner)
    return [partial(functional.linear, x, weight) for weight in bench.copies(columns, inner)]


def narrow_product(bench: Bench, rows: int, columns: int, inner: int) -> list[Kernel]:
    """One FP8 scale a tensor; empty where torch or the device has none."""
    multiply: Callable[..., Tensor] | None = getattr(torch, "_scaled_mm", None)  # has no public name yet
    if multiply is None:
        return []
    one = torch.ones((), device=bench.device)
    x = bench.tensor(max(rows, 16), inner).to(torch.float8_e4m3fn)
    weights = [weight.to(torch.float8_e4m3fn).t() for weight in bench.copies(columns, inner)[:16]]
    kernels = [partial(multiply, x, weight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16) for weight in weights]
    try:
        kernels[0]()
    except RuntimeError:  # the device has no such product, or not of this shape
        return []
    return [*kernels]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Of one attention: query and KV heads, and their size."""

    query: int
    kv: int
    size: int


def prefill(bench: Bench, batch: int, length: int, heads: Heads) -> list[Kernel]:
    query = bench.tensor(batch, heads.query, length, heads.size)
    key, value = (bench.tensor(batch, heads.kv, length, heads.size) for _ in range(2))
    attend = functional.scaled_dot_product_attention
    return [partial(attend, query, key, value, is_causal=True, enable_gqa=heads.query != heads.kv)]


def decode(bench: Bench, batch: int, length: int, heads: Heads) -> list[Kernel]:
    """One new token a sequence over uncached keys and values."""
    query = bench.tensor(batch, heads.query, 1, heads.size)
    attend = partial(functional.scaled_dot_product_attention, query, enable_gqa=heads.query != heads.kv)
    return [partial(attend, cache[0], cache[1]) for cache in bench.copies(2, batch, heads.kv, length, heads.size)]


def elementwise(bench: Bench, operation: str, rows: int, width: int) -> list[Kernel]:
    x, y, weight = bench.tensor(rows, width), bench.tensor(rows, width), bench.tensor(width)
    ids = torch.arange(rows, device=bench.device)
    half = width // 2
    kernels: dict[str, Kernel] = {
        "norm": lambda: functional.rms_norm(x, (width,), weight),
        "activation": lambda: functional.silu(x),
        "kv_write": lambda: y.index_copy_(0, ids, x),
        "embedding": lambda: functional.embedding(ids, x),
        "rope": lambda: torch.cat((y[:, half:], y[:, :half]), dim=-1),
        "elementwise": lambda: torch.add(x, y),
    }
    return [kernels[operation]]


def collective(operation: str, group: int, message_bytes: int) -> Kernel:
    """NCCL over the first `group` devices of this process."""
    from torch.cuda import nccl

    untyped: Any = nccl
    numbers = message_bytes // 2
    whole = [torch.randn(numbers, device=f"cuda:{i}", dtype=torch.bfloat16) for i in range(group)]
    parts = [torch.empty(numbers // group, device=f"cuda:{i}", dtype=torch.bfloat16) for i in range(group)]
    calls: dict[str, Kernel] = {
        "nccl_all_reduce": partial(untyped.all_reduce, whole),
        "nccl_all_gather": partial(untyped.all_gather, parts, whole),
        "nccl_reduce_scatter": partial(untyped.reduce_scatter, whole, parts),
    }
    return calls[operation]


def wall_seconds(kernel: Kernel, devices: int, repeats: int = 20) -> float:
    def wait() -> None:
        for index in range(devices):
            torch.cuda.synchronize(index)

    kernel()
    taken: list[float] = []
    for _ in range(5):
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            kernel()
        wait()
        taken.append((time.perf_counter() - start) / repeats)
    return statistics.median(taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """As the driver states it."""

    name: str
    memory_bytes: int
    compute_units: int  # streaming multiprocessors, or CPU threads
    devices: int


def machine(kind: Kind) -> Machine:
    if kind == "cuda":
        about = torch.cuda.get_device_properties(0)
        return Machine(
            name=str(about.name),
            memory_bytes=int(about.total_memory),
            compute_units=int(about.multi_processor_count),
            devices=torch.cuda.device_count(),
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = platform.processor() or platform.machine() or "cpu"
    return Machine(name=name, memory_bytes=memory, compute_units=torch.get_num_threads(), devices=1)
