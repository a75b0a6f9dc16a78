"""Fits kernels that were measured inside an engine.

    python -m tools.engine_kernels FOLDER ENGINE [DEVICE ...]

Reads FOLDER/<device>/<table>--<engine>--<version>.parquet, writes
evaluator/inputs/devices/calibration/<engine>/<device>.json. The seed is fixed. ENGINE `sglang_triton` is of the kernels
that SGLang runs on B200 for some models in place of its others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from evaluator.calibration import IN_BLOCKS, SEED, KernelSet, figures_of, fit_sets, kernel_sets, still_moving
from evaluator.inputs import CALIBRATIONS_FOLDER, Calibration, load_device
from tools.calibrations import as_text
from tools.engine_tables import TRITONS, engine_tables

DEVICES = ("b200_sxm", "h100_sxm", "h200_sxm", "l40s", "rtx_pro_6000_server")
# Kernels that are fitted: those of the head sizes that most models have, and of the routing that scenarios have where
# nobody names one. Beyond 32 query heads a KV head the form of decodes takes no sharing of keys, which vLLM does.
FITTED_KERNELS = re.compile(
    r"gemm\..*|moe\..*\.gated\.power_law_1\.2(\.marlin)?|prefill_attention\..*\.d(64|128)(\.window)?"
    r"|decode_attention\.(mha|gqa|gqa32)\..*\.d(64|128)(\.window)?"
)
# Times the 16-bit kernel of the same shape, in the median: a kernel of narrower weights that waited for its launches.
HOST_BOUND = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """Work that the kernels do on the side, and kernels not taken."""

    includes: tuple[str, ...]
    apart: tuple[str, ...] = ()  # of that, what it launches for every kernel by itself
    left_out: re.Pattern[str] = re.compile("(?!)")


# vLLM neither rotates nor writes keys and values inside attention, and quantises activations for each product apart.
INCLUDES, APART = ("moe_routing", "quantise"), ("quantise",)
INSIDE: Mapping[str, Inside] = {
    "vllm": Inside(includes=INCLUDES, apart=APART),
    # SGLang's attention writes keys and values; quantisation is fused where it can be. With its block-scaled kernels
    # the points of its servers are further off (docs/reference/calibration.md).
    "sglang": Inside(includes=("kv_write", *INCLUDES), left_out=re.compile(r"(gemm|moe)\.fp8_block.*")),
}


TRITON = "sglang_triton"
TRITON_DEVICES = ("b200_sxm",)
TRITON_KERNELS = re.compile(r"moe\.bf16\.gated\.power_law_1\.2|(prefill|decode)_attention\..*\.d256")


def fitted_sets(sets: Iterable[KernelSet], engine: str = "vllm") -> Iterator[KernelSet]:
    """Without those that the host decided."""
    left_out = INSIDE[engine].left_out
    by_name = {rows.name: rows for rows in sets}
    for name, rows in by_name.items():
        kind, _, rest = name.partition(".")
        plain = by_name.get(".".join([kind, "bf16", *rest.split(".")[1:]]))
        if not FITTED_KERNELS.fullmatch(name) or left_out.fullmatch(name):
            continue
        if not (kind in {"gemm", "moe"} and plain and _host_bound(rows, plain)):
            yield rows


def _host_bound(narrow: KernelSet, plain: KernelSet) -> bool:
    shapes = sorted({"m", "n", "k", "tokens", "hidden", "inner", "local_experts", "expert_ranks"} & set(plain.inputs))
    seconds = dict(zip(zip(*(plain.inputs[one].tolist() for one in shapes), strict=True), plain.latency_s, strict=True))
    keys = zip(*(narrow.inputs[one].tolist() for one in shapes), strict=True)
    ratios = [own / seconds[key] for key, own in zip(keys, narrow.latency_s, strict=True) if key in seconds]
    return bool(ratios) and float(np.median(ratios)) > HOST_BOUND


def fit_engine_kernels(folder: Path, device: str, engine: str) -> Calibration:
    profile = load_device(device, family="theoretical")
    version, tables = engine_tables(folder / device, engine)
    figures = figures_of(profile)
    fits = fit_sets(fitted_sets(kernel_sets(tables, figures), engine), figures)
    return Calibration(
        device=device,
        kernels={name: fit.values for name, fit in fits.items()},
        accuracy={name: fit.accuracy for name, fit in fits.items()},
        unconverged=still_moving(fits),
        seed=SEED,
        includes=INSIDE[engine].includes,
        apart=INSIDE[engine].apart,
        engine=f"{engine} {version}",
        own=tuple(sorted(fits)),
        source=f"kernel tables of {device} under {engine} {version}",
    )


def fit_triton_kernels(folder: Path, device: str) -> Calibration:
    """Latent attention has no table of its own: its decode is that of 256 numbers, in blocks of 16 heads, and its
    prompts are attended as any (`handle_attention_triton` of SGLang)."""
    version, tables = engine_tables(folder / device, "sglang", TRITONS)
    figures = figures_of(load_device(device, family="theoretical"))
    fits = fit_sets((rows for rows in kernel_sets(tables, figures) if TRITON_KERNELS.fullmatch(rows.name)), figures)
    kernels = {name: fit.values for name, fit in fits.items()}
    kernels[f"mla_decode.kv_bf16{IN_BLOCKS}"] = kernels["decode_attention.gqa.kv_bf16.d256"]
    kernels["mla_prefill.kv_bf16"] = kernels["prefill_attention.bf16.kv_bf16.d256"]
    return Calibration(
        device=device,
        kernels=kernels,
        accuracy={name: fit.accuracy for name, fit in fits.items()},
        unconverged=still_moving(fits),
        seed=SEED,
        engine=f"sglang {version}",
        own=tuple(sorted(kernels)),
        source=f"Triton's kernels of {device} under SGLang {version}",
    )


def main(folder: Path, engine: str, *devices: str) -> None:
    target = Path(str(resources.files("evaluator").joinpath(CALIBRATIONS_FOLDER))) / engine
    target.mkdir(parents=True, exist_ok=True)
    triton = engine == TRITON
    for device in devices or (TRITON_DEVICES if triton else DEVICES):
        calibration = fit_triton_kernels(folder, device) if triton else fit_engine_kernels(folder, device, engine)
        (target / f"{device}.json").write_text(as_text(calibration), encoding="utf-8")
        sys.stderr.write(f"{device}: {len(calibration.kernels)} kernels of {calibration.engine}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
