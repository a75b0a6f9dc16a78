"""Parts of a form: parameters with units, device figures, shapes to seconds."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evaluator.arithmetic import power
from evaluator.inputs.devices.device import DeviceProfile
from store.light_dataclass import dataclass

# What a device computes in when it lacks a dtype: the next wider one it has.
WIDER = {"fp4": "fp8", "fp8": "bf16", "int8": "bf16", "fp16": "bf16", "bf16": "fp16"}
DEFAULT_COMPUTE_UNITS = 128
PCIE_BYTES_PER_S = 6.4e10  # sixteen lanes of PCIe 5, one direction: a link no faster goes through the host


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """FLOP/s by dtype, bytes/s of memory and the innermost link, compute units."""

    matrix_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes_per_s: float
    link_bytes_per_s: float
    compute_units: int
    cache_bytes: float = 0.0  # of the last level on the chip; 0 where nobody stated it

    @property
    def through_host(self) -> bool:
        """PCIe joins a server's devices, not a fabric."""
        return self.link_bytes_per_s <= PCIE_BYTES_PER_S

    def peak(self, dtype: str) -> float:
        """The next wider dtype where a device lacks one."""
        return dict(self.matrix_flops_per_s)[self.native(dtype)]

    def native(self, dtype: str) -> str:
        have = {name for name, _ in self.matrix_flops_per_s}
        seen = dtype
        for _ in WIDER:
            if seen in have:
                return seen
            seen = WIDER.get(seen, "bf16")
        return next(iter(sorted(have)))


def figures_of(profile: DeviceProfile) -> DeviceFigures:
    """128 compute units if unknown, which only moves wave boundaries."""
    links = profile.links
    return DeviceFigures(
        matrix_flops_per_s=profile.matrix_flops_per_s,
        memory_bytes_per_s=profile.memory_bandwidth_bytes_per_s,
        link_bytes_per_s=links[-1].bandwidth_bytes_per_s if links else profile.memory_bandwidth_bytes_per_s / 10,
        compute_units=profile.compute_units or DEFAULT_COMPUTE_UNITS,
        cache_bytes=float(profile.cache_bytes),
    )


Array = npt.NDArray[np.float64]
Inputs = Mapping[str, Array | float]  # shapes by name; scalars are the same for every row
Values = Mapping[str, float]  # parameters by name
WHOLE = (1.0, 2.0, 4.0, 8.0)  # exponents that products and square roots do


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A fitted number: unit, starts, bounds.

    `choices` are tried one by one; the first stays unless another lowers the cost by a tenth."""

    name: str
    unit: str
    starts: tuple[float, ...] = ()
    low: float = 0.0
    high: float = 0.0
    choices: tuple[float, ...] = ()
    unidentified: float | None = None

    @property
    def standard(self) -> float:
        """The value where rows say nothing."""
        return self.starts[0] if self.unidentified is None else self.unidentified


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`compute` is matrix or vector work, whichever the kernel does."""

    overhead: Array
    compute: Array
    memory: Array

    def total(self) -> Array:
        return self.overhead + self.compute + self.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of kernel: its parameters and time."""

    name: str
    parameters: tuple[Parameter, ...]
    parts: Callable[[Values, Inputs, DeviceFigures], Parts]

    def holds(self, values: Values) -> bool:
        return values.keys() == {parameter.name for parameter in self.parameters}

    def seconds(self, values: Values, inputs: Inputs, figures: DeviceFigures) -> Array:
        return self.parts(values, inputs, figures).total()


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


def _parameter(line: Mapping[str, str]) -> Parameter:
    return Parameter(
        name=line["name"],
        unit=line["unit"],
        starts=_numbers(line["starts"]),
        low=float(line["low"] or 0.0),
        high=float(line["high"] or 0.0),
        choices=_numbers(line["choices"]),
        unidentified=float(line["unidentified"]) if line["unidentified"] else None,
    )


PARAMETERS: dict[str, tuple[Parameter, ...]] = {}  # by form
with Path(__file__).with_name("parameters.csv").open(encoding="utf-8", newline="") as _file:
    for _line in csv.DictReader(_file):
        PARAMETERS[_line["form"]] = (*PARAMETERS.get(_line["form"], ()), _parameter(_line))
# How much faster than memory a loop over the same operands finds them in the device's cache. Rows of measured kernels
# have it; a kernel of a step, whose operands other kernels have driven out of the cache, is priced by memory alone.
CACHED = next(one for one in PARAMETERS["matmul"] if one.name == "cache_gain")


def memory_seconds(
    moved: Array, values: Values, x: Inputs, figures: DeviceFigures, *, again: Array | None = None
) -> Array:
    """From memory, or from a cache that holds what a measurement repeats.

    Rows with `repeated` were measured so; `again` are bytes that each repetition reads. 30 MB at 0.8 of 2e12 bytes/s
    are 18.75 us; looped on a device with 50 MB of cache 12.5 us, if the cache gives 1.5 times that."""
    seconds = moved / (figures.memory_bytes_per_s * values["memory_efficiency"])
    repeated = x.get("repeated")
    if repeated is None or figures.cache_bytes == 0.0:
        return np.asarray(seconds, dtype=np.float64)
    inside = (np.asarray(repeated) > 0) & ((moved if again is None else again) <= figures.cache_bytes)
    return np.where(inside, seconds / values.get(CACHED.name, 1.0), seconds)


def whole_power(base: Array, exponent: float) -> Array:
    if exponent in WHOLE:
        for _ in range(int(exponent).bit_length() - 1):
            base = base * base
        return base
    return power(base, exponent)


def root(base: Array, exponent: float) -> Array:
    """By square roots where possible."""
    if exponent in WHOLE:
        for _ in range(int(exponent).bit_length() - 1):
            base = np.sqrt(base)
        return base
    return power(base, 1.0 / exponent)


def p_norm(compute: Array, memory: Array, exponent: float) -> tuple[Array, Array]:
    """(compute ** p + memory ** p) ** (1/p), split by their share of the sum.

    p = 1: no overlap; p = infinity: the roofline."""
    if exponent in WHOLE:
        compute_power = whole_power(compute, exponent)
        both = compute_power + whole_power(memory, exponent)
        body = root(both, exponent)
        share = compute_power / np.maximum(both, 1e-300)
        return body * share, body * (1.0 - share)
    # The larger times (1 + ratio ** p) ** (1/p): two powers in place of three.
    larger = np.maximum(compute, memory)
    ratio = power(np.minimum(compute, memory) / np.maximum(larger, 1e-300), exponent)
    body = larger * power(1.0 + ratio, 1.0 / exponent)
    smaller = body * (ratio / (1.0 + ratio))
    under = compute < memory
    return np.where(under, smaller, body - smaller), np.where(under, body - smaller, smaller)


def roofline_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    """`chain`: steps that one sequence takes in turn, however many units are idle."""
    rate = np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"]
    compute = np.asarray(x["matrix_flops"], float) / rate + 1e-6 * values["chain_us"] * np.asarray(x["chain"], float)
    memory = memory_seconds(np.asarray(x["moved_bytes"], float), values, x, figures)
    compute, memory = p_norm(compute, memory, values["overlap"])
    return Parts(overhead=np.full_like(compute, 1e-6 * values["fixed_us"]), compute=compute, memory=memory)


# Of kernels whose work is two operators of a step: their times add up to the kernel's.


def elementwise_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    moved = np.asarray(x["moved_bytes"], float)
    memory = moved / (figures.memory_bytes_per_s * values["memory_efficiency"])
    # data that no longer fits a cache moves slower: the rest has a rate of its own
    beyond = np.maximum(moved - values["cache_mb"] * 1e6, 0.0)
    memory = memory + beyond / (figures.memory_bytes_per_s * values["beyond_efficiency"])
    launches = np.asarray(x["launches"], float) + 0 * moved
    return Parts(overhead=values["fixed_us"] * 1e-6 * launches, compute=np.zeros(np.shape(moved)), memory=memory)
