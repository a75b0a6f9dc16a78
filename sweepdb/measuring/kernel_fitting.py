"""Fits a device to measured kernels and keeps it; the fit is evaluator's."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from evaluator import inputs
from evaluator.calibration import KernelTable, completed, fit_device, read_tables, write_tables
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.reading import in_memory
from store.records import CalibrationRecord
from store.writing import put_calibration
from sweepdb.measuring.measurement_files import write_profile


@contextmanager
def torch_needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "torch":
            raise
        raise InputError(
            "kernels are timed with torch, which is not installed", hint="pip install 'sweepdb[measure]'"
        ) from None


KERNEL_COLUMNS = ("kernel", "fitted_rows", "held_out_rows", "median_ape_percent", "mean_ape_percent", "p90_ape_percent",
           "bias_percent", "converged")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """With its fit and measurements."""

    profile: inputs.DeviceProfile
    calibration: inputs.Calibration
    tables: tuple[KernelTable, ...]

    def rows(self) -> list[list[object]]:
        """Held-out errors by kernel, as KERNEL_COLUMNS."""
        return [
            [
                name,
                entry.fitted,
                entry.rows,
                entry.median_ape,
                entry.mean_ape,
                entry.p90_ape,
                entry.bias,
                "no" if name in self.calibration.unconverged else "yes",
            ]
            for name, entry in sorted(self.calibration.accuracy.items())
        ]


def from_kernels(device: str, kernels: Path, on_kernel: Callable[[str], None] | None = None) -> Calibrated:
    profile = inputs.load_device(device, family="theoretical")
    tables = read_tables(kernels)
    calibration = fit_device(tables, profile, source=f"kernel tables of {kernels.name}", progress=on_kernel)
    if not calibration.accuracy:
        raise InputError(f"{kernels}: too few rows of every kernel to fit any", hint="at least eight rows a kernel")
    calibration = completed(calibration, tables, profile, inputs.shipped_calibration(profile.name))
    fitted = replace(profile, family="calibrated", calibration=inputs.calibration_to_json(calibration))
    return Calibrated(profile=fitted, calibration=calibration, tables=tables)


def from_machine(
    kind: Literal["cpu", "cuda"], name: str, budget_s: float, on_progress: Callable[[float, str], None]
) -> Calibrated:
    with torch_needed():
        from evaluator.calibration import measure_kernels, measured_profile

        measured = measure_kernels(kind, budget_s, on_progress)
    profile, _ = measured_profile(measured, name)
    return Calibrated(
        profile=profile, calibration=inputs.calibration_from_json(profile.calibration or ""), tables=measured.tables
    )


def keep_calibration(calibrated: Calibrated, output: Path, store_url: str | None) -> int:
    write_profile(output, profile_yaml(calibrated.profile))
    create_if_missing(parse_url(store_url))
    spec = inputs.calibration_to_json(calibrated.calibration)
    errors = inputs.calibration_to_mapping(calibrated.calibration)["accuracy"]
    record = CalibrationRecord(
        key=hashlib.sha256(spec.encode()).hexdigest(),
        device_name=calibrated.profile.name,
        spec=spec,
        errors=json.dumps(errors, sort_keys=True),
        version=0,
        kernels=_as_parquet(calibrated.tables),
        source=calibrated.calibration.source,
    )
    with open_store(store_url) as store:
        return put_calibration(store, record)


def profile_yaml(profile: inputs.DeviceProfile) -> str:
    import yaml

    stated = {item.name: getattr(profile, item.name) for item in fields(profile)}
    left_out = {item.name for item in fields(profile) if stated[item.name] == item.default} | {"source", "calibration"}
    plain = {name: value for name, value in stated.items() if name not in left_out} | {
        "matrix_flops_per_s": dict(profile.matrix_flops_per_s),
        "vector_flops_per_s": dict(profile.vector_flops_per_s),
        "grid": list(profile.grid),
        "links": list(map(asdict, profile.links)),
        "source": profile.source,
    }
    if profile.calibration is not None:
        plain["calibration"] = inputs.calibration_to_mapping(inputs.calibration_from_json(profile.calibration))
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=150)


def _as_parquet(tables: Sequence[KernelTable]) -> bytes:
    """All kinds in one table with a column `kind`, NULL where a kind has no such column."""

    with tempfile.TemporaryDirectory() as folder, in_memory() as connection:
        files = [str(path) for path in write_tables(tables, Path(folder))]
        target = Path(folder) / "kernels.parquet"
        merged = connection.read_csv(files, union_by_name=True, filename=True)  # type: ignore[arg-type]
        merged.project("* EXCLUDE (filename), parse_filename(filename, true) AS kind").write_parquet(
            str(target), compression="zstd"
        )
        return target.read_bytes()
