"""Chooses kernels to time within a budget, and fits a profile to them. bench.py times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evaluator.calibration.device_fit import SEED, fit_device
from evaluator.calibration.tables import KernelTable
from evaluator.inputs.devices.calibration_record import Calibration, calibration_to_json
from evaluator.inputs.devices.device import DeviceProfile, Link
from store.errors import InputError

if TYPE_CHECKING:
    from evaluator.calibration.bench import Bench, Heads, Kind

Progress = Callable[[float, str], None]
Row = dict[str, float | str]

# Share of the budget each kind of kernel may take.
SHARES = {"gemm": 0.45, "attn_prefill": 0.2, "attn_decode": 0.2, "elementwise": 0.15}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernels:
    """Also peak rates seen, which the profile's efficiencies are relative to."""

    tables: tuple[KernelTable, ...]
    matrix_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes_per_s: float
    memory_bytes: int
    compute_units: int
    devices: int
    device_name: str
    kind: Kind


def measure_kernels(
    kind: Kind = "cpu", budget_s: float = 60.0, progress: Progress | None = None, *, cpu_threads: int | None = None
) -> MeasuredKernels:
    """GEMM, attention, memory-bound kernels, and collectives where there are several devices.

    Kernels share `budget_s`; shapes cover the range early. `progress` gets the share done (0 to 1) and the kernel."""
    import torch

    from evaluator.calibration import bench

    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError("torch sees no CUDA device", hint="run on a machine with a GPU, or measure cpu")
    torch.manual_seed(0)
    told = progress if progress is not None else _silent
    with bench.threads(cpu_threads), torch.inference_mode():
        timer = bench.opened(kind)
        tables = [_timed(timer, name, budget_s, told) for name in SHARES]
        about = bench.machine(kind)
        if about.devices > 1:
            tables.append(_collectives(about.devices, told))
        tables = [table for table in tables if table.latency_s.size]
        return MeasuredKernels(
            tables=tuple(tables),
            matrix_flops_per_s=_peak_products(tables),
            memory_bytes_per_s=_peak_bandwidth(tables),
            memory_bytes=about.memory_bytes,
            compute_units=about.compute_units,
            devices=about.devices,
            device_name=about.name,
            kind=kind,
        )


def _silent(_share: float, _what: str) -> None:
    return None


def spread(cases: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """A fixed shuffle whose every beginning covers the list."""
    order = np.random.default_rng(SEED).permutation(len(cases))
    return [cases[index] for index in order]


def _timed(timer: Bench, name: str, budget_s: float, progress: Progress) -> KernelTable:
    begun = sum(share for earlier, share in SHARES.items() if list(SHARES).index(earlier) < list(SHARES).index(name))
    allowed = budget_s * SHARES[name]
    start = time.perf_counter()
    rows: list[Row] = []
    cases = list(_cases(timer, name))
    for done, (row, run) in enumerate(cases):
        used = time.perf_counter() - start
        if used > allowed:
            break
        slice_s = max((allowed - used) / (len(cases) - done), 1e-3)
        seconds = run(slice_s)
        if seconds is not None:
            rows.append(row | {"latency_us": seconds * 1e6})
        progress(begun + SHARES[name] * min(done / len(cases), 1.0), name)
    return _table(name, rows)


Case = tuple[Row, Callable[[float], float | None]]


def _cases(timer: Bench, name: str) -> Iterator[Case]:
    return {"gemm": _products, "attn_prefill": _prefills, "attn_decode": _decodes, "elementwise": _moves}[name](timer)


def _products(timer: Bench) -> Iterator[Case]:
    from evaluator.calibration import bench

    large = timer.kind == "cuda"
    rows = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, *((4096, 8192) if large else ()))
    widths = (256, 1024, 2048, 4096, 8192, 16384) if large else (256, 512, 1024, 1536, 2816, 4096)
    dtypes = ("bfloat16", "fp8") if large else ("bfloat16",)
    work = (1 << 45) if large else (1 << 34)  # multiply-adds of the largest case
    cases = [case for case in itertools.product(rows, widths, widths) if case[0] * case[1] * case[2] <= work]
    for dtype, (m, n, k) in itertools.product(dtypes, spread(cases)):
        build = bench.product if dtype == "bfloat16" else bench.narrow_product

        def run(
            slice_s: float, build: Callable[..., list[bench.Kernel]] = build, shape: tuple[int, ...] = (m, n, k)
        ) -> float | None:
            kernels = build(timer, *shape)
            return timer.seconds(kernels, slice_s) if kernels else None

        yield {"m": m, "n": n, "k": k, "dtype": dtype}, run


def _attention_cases(
    timer: Bench, lengths: tuple[int, ...], batches: tuple[int, ...], most: int
) -> list[tuple[int, ...]]:
    heads = (
        ((32, 8), (32, 32), (16, 2), (8, 1), (64, 8)) if timer.kind == "cuda" else ((16, 4), (16, 16), (8, 2), (4, 1))
    )
    sizes = (64, 128)
    every = itertools.product(batches, lengths, heads, sizes)
    return spread([(b, s, *pair, d) for b, s, pair, d in every if b * s * pair[0] * d <= most])


def _attention_rows(
    timer: Bench, cases: list[tuple[int, ...]], build: Callable[..., list[Callable[[], object]]], length: str
) -> Iterator[Case]:
    from evaluator.calibration import bench

    for batch, tokens, query_heads, kv_heads, head_dim in cases:
        heads = bench.Heads(query=query_heads, kv=kv_heads, size=head_dim)

        def run(slice_s: float, batch: int = batch, tokens: int = tokens, heads: Heads = heads) -> float:
            return timer.seconds(build(timer, batch, tokens, heads), slice_s)

        row: Row = {
            "batch": batch,
            length: tokens,
            "prefix": 0,
            "heads": query_heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "window_size": 0,
            "dtype": "bfloat16",
            "kv_dtype": "bfloat16",
        }
        yield row, run


def _prefills(timer: Bench) -> Iterator[Case]:
    from evaluator.calibration import bench

    large = timer.kind == "cuda"
    lengths = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192) if large else (8, 16, 32, 64, 128, 256, 512, 1024)
    most = (1 << 28) if large else (1 << 22)
    cases = _attention_cases(timer, lengths, (1, 2, 4, 8, 16) if large else (1, 2, 4), most)
    return _attention_rows(timer, cases, bench.prefill, "isl")


def _decodes(timer: Bench) -> Iterator[Case]:
    from evaluator.calibration import bench

    large = timer.kind == "cuda"
    lengths = (64, 256, 1024, 2048, 4096, 8192, 16384) if large else (16, 64, 128, 256, 512, 1024, 2048)
    batches = (1, 2, 4, 8, 16, 32, 64, 128, 256) if large else (1, 2, 4, 8, 16)
    cases = _attention_cases(timer, lengths, batches, (1 << 31) if large else (1 << 24))
    return _attention_rows(timer, cases, bench.decode, "kv_len")


def _moves(timer: Bench) -> Iterator[Case]:
    from evaluator.calibration import bench

    large = timer.kind == "cuda"
    rows = (1, 4, 16, 64, 256, 1024, 4096, 16384) if large else (1, 2, 4, 8, 16, 64, 256, 1024)
    widths = (1024, 4096, 16384) if large else (64, 256, 1024, 4096)
    operations = ("norm", "activation", "elementwise", "kv_write", "embedding", "rope")
    shapes = spread(list(itertools.product(range(len(operations)), rows, widths)))
    for index, height, width in shapes:

        def run(slice_s: float, shape: tuple[int, int, int] = (index, height, width)) -> float:
            return timer.seconds(bench.elementwise(timer, operations[shape[0]], shape[1], shape[2]), slice_s)

        yield {"operation": operations[index], "moved_bytes": _moved(operations[index], height, width)}, run


def _moved(operation: str, rows: int, width: int) -> int:
    """16-bit numbers; embedding and KV write also read 64-bit indices."""
    size = 2 * rows * width
    return {
        "norm": 2 * size + 2 * width,
        "activation": 2 * size,
        "kv_write": 2 * size + 8 * rows,
        "embedding": 2 * size + 8 * rows,
        "rope": 2 * size,
    }.get(operation, 3 * size)


def _collectives(devices: int, progress: Progress) -> KernelTable:
    from evaluator.calibration import bench

    rows: list[Row] = []
    groups = [group for group in (2, 4, 8) if group <= devices]
    operations = ("nccl_all_reduce", "nccl_all_gather", "nccl_reduce_scatter")
    for operation, group, power in itertools.product(operations, groups, range(10, 29, 2)):
        seconds = bench.wall_seconds(bench.collective(operation, group, 1 << power), group)
        rows.append({"op": operation, "ngpus": group, "message_bytes": 1 << power, "latency_us": seconds * 1e6})
        progress(1.0, operation)
    return _table("comm", rows)


def _table(kind: str, rows: list[Row]) -> KernelTable:
    numbers = {
        name: np.array([row[name] for row in rows], float)
        for name in _names(rows)
        if not isinstance(rows[0][name], str)
    }
    words = {
        name: np.array([str(row[name]) for row in rows]) for name in _names(rows) if isinstance(rows[0][name], str)
    }
    latency = numbers.pop("latency_us", np.zeros(0)) * 1e-6
    return KernelTable(kind=kind, numbers=numbers, words=words, latency_s=latency, source="measured")


def _names(rows: list[Row]) -> list[str]:
    return list(rows[0]) if rows else []


def _peak_products(tables: list[KernelTable]) -> tuple[tuple[str, float], ...]:
    peaks: dict[str, float] = {}
    for table in tables:
        if table.kind == "gemm":
            x = table.numbers
            rates = 2 * x["m"] * x["n"] * x["k"] / table.latency_s
            for dtype, name in (("bfloat16", "bf16"), ("fp8", "fp8")):
                chosen = rates[table.words["dtype"] == dtype]
                if chosen.size:
                    peaks[name] = float(chosen.max())
    return tuple(sorted(peaks.items()))


def _peak_bandwidth(tables: list[KernelTable]) -> float:
    """A cache's included: it only scales the efficiencies."""
    for table in tables:
        if table.kind == "elementwise":
            return float((table.numbers["moved_bytes"] / table.latency_s).max())
    raise InputError("no memory-bound kernel was timed", hint="give the measurement a larger budget")


def measured_profile(
    measured: MeasuredKernels, name: str, known: DeviceProfile | None = None
) -> tuple[DeviceProfile, Calibration]:
    """Figures are `known`'s data sheet, or the peaks seen."""
    base = known if known is not None else _bare_profile(measured, name)
    source = f"{measured.kind} kernels timed with torch on {measured.device_name}"
    # torch's kernels do nothing on the side: rotary embedding, KV write, quantisation and routing are priced apart.
    calibration = fit_device(measured.tables, base, source=source, includes=())
    return replace(
        base, name=name, family="calibrated", calibration=calibration_to_json(replace(calibration, device=name))
    ), calibration


def _bare_profile(measured: MeasuredKernels, name: str) -> DeviceProfile:
    return DeviceProfile(
        name=name,
        vendor=measured.device_name,
        family="calibrated",
        matrix_flops_per_s=measured.matrix_flops_per_s,
        vector_flops_per_s=measured.matrix_flops_per_s,
        memory_bytes=measured.memory_bytes,
        memory_bandwidth_bytes_per_s=measured.memory_bytes_per_s,
        grid=(measured.devices,),
        links=(Link(bandwidth_bytes_per_s=measured.memory_bytes_per_s / 10, latency_s=1e-5, efficiency=1.0),),
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        matrix_static_s=0.0,
        vector_static_s=0.0,
        communication_static_s=0.0,
        compute_units=measured.compute_units,
        source="largest rates measured",
    )
