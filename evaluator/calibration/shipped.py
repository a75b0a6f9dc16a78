"""The calibrations that come with the program, and the command that makes them. Other people's calibrations live in
the store.

    python -m evaluator.calibration.shipped FOLDER

fits every device that has a sub-folder of kernel tables in FOLDER (a100_sxm, h100_sxm, ...) and writes its
coefficients to
evaluator/inputs/profiles/calibration/<device>.yaml. The same tables give the same files: the seed is fixed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from evaluator.calibration.device_fit import fit_device
from evaluator.calibration.record import Calibration, carried_to, from_mapping, to_mapping
from evaluator.calibration.tables import read_tables
from evaluator.inputs.device import DeviceProfile

FOLDER = "inputs/profiles/calibration"
FITTED = ("a100_sxm", "b200_sxm", "h100_sxm", "h200_sxm")
# Devices without measured kernels take the dimensionless parameters of the nearest generation of tensor cores.
CARRIED: Mapping[str, str] = {
    "a100_pcie": "a100_sxm",
    "a100_sxm_40gb": "a100_sxm",
    "a30": "a100_sxm",
    "b60": "a100_sxm",
    "ascend_910b": "a100_sxm",
    "ascend_910c": "a100_sxm",
    "h100_pcie": "h100_sxm",
    "h800": "h100_sxm",
    "l4": "h100_sxm",
    "l40s": "h100_sxm",
    "mi300x": "h100_sxm",
    "h20": "h200_sxm",
    "h20_3e": "h200_sxm",
    "b300_sxm": "b200_sxm",
    "gb200": "b200_sxm",
    "gb300": "b200_sxm",
    "rtx_pro_6000_server": "b200_sxm",
}


def shipped_calibration(device: str) -> Calibration | None:
    """The calibration that comes with the program, fitted or carried over; None where there is neither."""
    donor = device if device in FITTED else CARRIED.get(device)
    if donor is None:
        return None
    file = resources.files("evaluator").joinpath(f"{FOLDER}/{donor}.yaml")
    if not file.is_file():
        return None
    calibration = from_mapping(_parsed(file.read_text(encoding="utf-8")))
    return calibration if donor == device else carried_to(calibration, device)


def _parsed(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe
    return content


def fit_folder(folder: Path, profile: DeviceProfile) -> Calibration:
    """The calibration of one device from its folder of kernel tables, as it is shipped."""
    return fit_device(read_tables(folder), profile, source=f"kernel tables of {profile.name}")


def as_yaml(calibration: Calibration) -> str:
    """A calibration as the shipped files hold it."""
    head = "# Written by python -m evaluator.calibration.shipped; do not edit: the hash is checked.\n"
    return head + yaml.safe_dump(to_mapping(calibration), sort_keys=True, default_flow_style=None, width=150)


def main(folder: Path) -> None:
    """Fit and write every shipped device that `folder` holds tables of."""
    from evaluator.inputs.profiles.load import load_device

    target = Path(str(resources.files("evaluator").joinpath(FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for device in FITTED:
        if (folder / device).is_dir():
            calibration = fit_folder(folder / device, load_device(device, family="theoretical"))
            (target / f"{device}.yaml").write_text(as_yaml(calibration), encoding="utf-8")
            sys.stderr.write(f"{device}: {len(calibration.kernels)} kernels, hash {calibration.hash}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
