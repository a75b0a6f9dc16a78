"""Fits the shipped calibrations.

    python -m tools.calibrations FOLDER

FOLDER has a folder of kernel tables a device (a100_sxm, h100_sxm, ...). Writes
evaluator/inputs/devices/calibration/<device>.yaml. The seed is fixed."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import yaml

from evaluator.calibration import fit_device, read_tables
from evaluator.inputs import (
    CALIBRATIONS_FOLDER,
    FITTED,
    Calibration,
    DeviceProfile,
    calibration_to_mapping,
    load_device,
)


def fit_folder(folder: Path, profile: DeviceProfile) -> Calibration:
    return fit_device(read_tables(folder), profile, source=f"kernel tables of {profile.name}")


def as_yaml(calibration: Calibration) -> str:
    head = "# Written by python -m tools.calibrations; do not edit: the hash is checked.\n"
    return head + yaml.safe_dump(
        calibration_to_mapping(calibration), sort_keys=True, default_flow_style=None, width=150
    )


def main(folder: Path) -> None:
    target = Path(str(resources.files("evaluator").joinpath(CALIBRATIONS_FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for device in FITTED:
        if (folder / device).is_dir():
            calibration = fit_folder(folder / device, load_device(device, family="theoretical"))
            (target / f"{device}.yaml").write_text(as_yaml(calibration), encoding="utf-8")
            sys.stderr.write(f"{device}: {len(calibration.kernels)} kernels, hash {calibration.hash}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
