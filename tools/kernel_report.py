"""Held-out figures of shipped calibrations, by group of kernels.

    python -m tools.kernel_report FOLDER [BY_ENGINE]

Every held-out row of FOLDER's tables counts. BY_ENGINE adds devices measured in part, beside the kernels they would
carry."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.calibration import (
    Array,
    KernelSet,
    KernelTable,
    accuracy_of,
    figures_of,
    form_of,
    kernel_sets,
    left_out,
    read_tables,
    training_half,
)
from evaluator.inputs import Accuracy, Calibration, DeviceProfile, calibration_from_json, carried_to

# Group -> kernels it pools. The first ones are what the product promises figures for; "whole domain" leaves nothing
# out.
GROUPS: dict[str, str] = {
    "GEMM bf16": r"gemm\.bf16",
    "GEMM fp8": r"gemm\.fp8",
    "GEMM fp8 block": r"gemm\.fp8_block",
    "GEMM other formats": r"gemm\.(nvfp4|int8|w8a16|w4a16)",
    "prefill attention, head size 128": r"prefill_attention\..*\.d128",
    "prefill attention, whole domain": r"prefill_attention\..*",
    "decode attention, head size 128, at most 16 query heads a KV head": r"decode_attention\.(mha|gqa)\..*\.d128",
    "decode attention, whole domain": r"decode_attention\..*",
    "MoE balanced": r"moe\..*\.balanced",
    "MoE, whole domain": r"moe\..*",
    "all-reduce": r"collective\.all_reduce.*",
    "collectives, whole domain": r"collective\..*",
    "MLA prefill": r"mla_prefill\..*",
    "MLA decode": r"mla_decode\..*",
    "MLA batched products": r"mla_bmm\..*",
    "expert exchange": r"expert_exchange\..*",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigure:
    """A group on a device, by the rows that its kernels were not fitted to."""

    device: str
    mode: str
    group: str
    accuracy: Accuracy


def figures(tables: Iterable[KernelTable], profile: DeviceProfile) -> Iterator[GroupFigure]:
    if profile.calibration is None:
        return
    calibration = calibration_from_json(profile.calibration)
    found = kernel_sets(tables, figures_of(profile), quantising="quantise" in calibration.includes)
    sets = [rows for rows in found if rows.name in calibration.accuracy]
    held = {rows.name: held_out(rows, calibration, profile) for rows in sets}
    for group, pattern in GROUPS.items():
        if (accuracy := _of_group(pattern, held)) is not None:
            yield GroupFigure(device=profile.name, mode="calibrated", group=group, accuracy=accuracy)


def carried_figures(tables: Iterable[KernelTable], profile: DeviceProfile, donor: Calibration) -> Iterator[GroupFigure]:
    """A device under another's dimensionless parameters: how far to trust that."""
    calibration = carried_to(donor, profile.name)
    sets = [rows for rows in kernel_sets(tables, figures_of(profile)) if rows.name in calibration.kernels]
    pairs = {rows.name: (_seconds(rows, calibration, profile), rows.latency_s) for rows in sets}
    for group, pattern in GROUPS.items():
        if (accuracy := _of_group(pattern, pairs)) is not None:
            mode = f"carried from {donor.device}"
            yield GroupFigure(device=profile.name, mode=mode, group=group, accuracy=accuracy)


def held_out(rows: KernelSet, calibration: Calibration, profile: DeviceProfile) -> tuple[Array, Array]:
    """Predicted and measured seconds."""
    held = ~training_half(rows.latency_s.size, calibration.seed)
    return _seconds(rows, calibration, profile)[held], rows.latency_s[held]


def _seconds(rows: KernelSet, calibration: Calibration, profile: DeviceProfile) -> Array:
    values = calibration.values(rows.name)
    return form_of(rows.name, values).seconds(values, rows.inputs, figures_of(profile))


def _of_group(pattern: str, pairs: Mapping[str, tuple[Array, Array]]) -> Accuracy | None:
    chosen = [pair for name, pair in pairs.items() if re.fullmatch(pattern, name)]
    return pooled(chosen) if chosen else None


def pooled(pairs: Sequence[tuple[Array, Array]]) -> Accuracy:
    """Over rows of several kernels."""
    return accuracy_of(np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs]))


def as_table(found: Iterable[GroupFigure]) -> str:
    lines = [
        "| device | mode | kernels | held-out rows | median APE % | mean | P90 | bias |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for figure in found:
        error = figure.accuracy
        lines.append(
            f"| {figure.device} | {figure.mode} | {figure.group} | {error.rows} | {error.median_ape:.1f} |"
            f" {error.mean_ape:.1f} | {error.p90_ape:.1f} | {error.bias:+.1f} |"
        )
    return "\n".join(lines) + "\n"


def main(folder: Path, by_engine: Path | None = None) -> None:
    """Of every device that has tables."""
    from evaluator.inputs import FITTED, PARTLY_MEASURED, load_device, shipped_calibration
    from tools.partial_calibrations import tables_of

    tables = {device: read_tables(folder / device) for device in FITTED if (folder / device).is_dir()}
    found = [figure for device, own in tables.items() for figure in figures(own, load_device(device))]
    donor = shipped_calibration("h100_sxm")
    for device, own in tables.items():
        if donor is not None and device != donor.device:
            found += carried_figures(own, load_device(device), donor)
    if by_engine is not None:
        for device, name in PARTLY_MEASURED.items():
            own = tables_of(by_engine, device)
            found += figures(own, load_device(device))
            lent = None if name is None else shipped_calibration(name)
            found += () if lent is None else carried_figures(own, load_device(device), lent)
    sys.stdout.write(as_table(found))
    for device, own in tables.items():
        rules = left_out(own, figures_of(load_device(device)))
        sys.stdout.write(
            f"{device}, rows left out: " + "; ".join(f"{rule}: {rows}" for rule, rows in rules.items()) + "\n"
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
