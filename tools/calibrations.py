"""Fits the shipped calibrations.

    python -m tools.calibrations FOLDER

FOLDER has a folder of kernel tables a device (a100_sxm, h100_sxm, ...). Writes
evaluator/inputs/devices/calibration/<device>.json. The seed is fixed."""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path

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


def as_text(calibration: Calibration) -> str:
    """JSON, a line for each kernel: read in a thirtieth of YAML's time."""
    lines = []
    for name, value in sorted(calibration_to_mapping(calibration).items()):
        if isinstance(value, dict) and value:
            inner = ",\n".join(f"  {_json(each)}: {_json(entry)}" for each, entry in sorted(value.items()))
            lines.append(f" {_json(name)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {_json(name)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def main(folder: Path) -> None:
    target = Path(str(resources.files("evaluator").joinpath(CALIBRATIONS_FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for device in FITTED:
        if (folder / device).is_dir():
            calibration = fit_folder(folder / device, load_device(device, family="theoretical"))
            (target / f"{device}.json").write_text(as_text(calibration), encoding="utf-8")
            sys.stderr.write(f"{device}: {len(calibration.kernels)} kernels, hash {calibration.hash}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
