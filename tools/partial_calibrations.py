"""Fits devices whose kernels were measured in part.

    python -m tools.partial_calibrations FOLDER [DEVICE ...]

Reads FOLDER/<device>/<table>--<engine>--<version>.parquet, scales missing kernels from the nearest generation's
calibration, and writes evaluator/inputs/devices/calibration/<device>.json. The seed is fixed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from evaluator.calibration import INCLUDED_IN_SERVING_KERNELS, KernelTable, completed, fit_device
from evaluator.inputs import (
    CALIBRATIONS_FOLDER,
    PARTLY_MEASURED,
    Calibration,
    carried_to,
    load_device,
    shipped_calibration,
)
from tools.calibrations import as_text
from tools.engine_kernels import APART, INCLUDES
from tools.engine_tables import newest_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An engine, its library of collectives, and what is left out."""

    engine: str
    library: str
    version: str | None = None  # said where it is not the engine that other devices were measured under
    left_out: tuple[str, ...] = ()
    without: str | None = None  # the end of names of a donor's kernels that the device cannot run


SOURCES: Mapping[str, Source] = {
    "l40s": Source(engine="trtllm", library="nccl"),
    # Low-latency experts are compiled for B200's own instructions (SM100), which it has not (SM120).
    "rtx_pro_6000_server": Source(engine="trtllm", library="nccl", without=".low_latency"),
    # Its custom all-reduce was started from the host for each row: 36 us for one byte.
    "b60": Source(engine="vllm", library="oneccl", version="0.20.0", left_out=("custom_allreduce_perf",)),
}


def tables_of(folder: Path, device: str) -> tuple[KernelTable, ...]:
    source = SOURCES[device]
    return newest_tables(folder / device, (source.engine, source.library), source.left_out)


def fit_in_part(folder: Path, device: str) -> Calibration:
    source, profile = SOURCES[device], load_device(device, family="theoretical")
    tables = tables_of(folder, device)
    inside = INCLUDED_IN_SERVING_KERNELS if source.version is None else INCLUDES
    found = fit_device(tables, profile, source=f"kernel tables of {device}", includes=inside)
    found = completed(found, tables, profile, _donor(device))
    if source.version is None:
        return found
    return replace(found, apart=APART, engine=f"{source.engine} {source.version}", own=tuple(sorted(found.accuracy)))


def _donor(device: str) -> Calibration | None:
    name, without = PARTLY_MEASURED[device], SOURCES[device].without
    donor = None if name is None else shipped_calibration(name)
    if donor is None:
        return None
    lent = {
        kernel: values for kernel, values in donor.kernels.items() if without is None or not kernel.endswith(without)
    }
    return carried_to(replace(donor, kernels=lent), device)


def main(folder: Path, *devices: str) -> None:
    """All, or those named."""
    target = Path(str(resources.files("evaluator").joinpath(CALIBRATIONS_FOLDER)))
    for device in devices or SOURCES:
        calibration = fit_in_part(folder, device)
        (target / f"{device}.json").write_text(as_text(calibration), encoding="utf-8")
        sys.stderr.write(f"{device}: {len(calibration.accuracy)} kernels, {len(calibration.carried)} carried\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
