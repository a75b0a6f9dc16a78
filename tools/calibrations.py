"""The command that writes the calibrations that come with the program.

    python -m tools.calibrations FOLDER

fits every device that has a sub-folder of kernel tables in FOLDER (a100_sxm, h100_sxm, ...) and writes its
coefficients to evaluator/inputs/devices/calibration/<device>.yaml. The same tables give the same files: the seed is
fixed."""

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
    """The calibration of one device from its folder of kernel tables, as it is shipped."""
    return fit_device(read_tables(folder), profile, source=f"kernel tables of {profile.name}")


def as_yaml(calibration: Calibration) -> str:
    """A calibration as the shipped files hold it."""
    head = "# Written by python -m tools.calibrations; do not edit: the hash is checked.\n"
    return head + yaml.safe_dump(
        calibration_to_mapping(calibration), sort_keys=True, default_flow_style=None, width=150
    )


def main(folder: Path) -> None:
    """Fit and write every shipped device that `folder` holds tables of."""
    target = Path(str(resources.files("evaluator").joinpath(CALIBRATIONS_FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for device in FITTED:
        if (folder / device).is_dir():
            calibration = fit_folder(folder / device, load_device(device, family="theoretical"))
            (target / f"{device}.yaml").write_text(as_yaml(calibration), encoding="utf-8")
            sys.stderr.write(f"{device}: {len(calibration.kernels)} kernels, hash {calibration.hash}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
