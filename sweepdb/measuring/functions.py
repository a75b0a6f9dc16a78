"""Validating and calibrating as Python functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluator import serving
from evaluator.inputs import EngineProfile, engine_profile
from evaluator.ledger import Exclusion
from store.errors import InputError
from sweepdb.measuring.engine_fitting import KeptFit, fit_serving
from sweepdb.measuring.kernel_fitting import Calibrated, from_kernels, from_machine, keep_calibration
from sweepdb.measuring.measurement_files import ReadFiles, read_files, refuse_existing
from sweepdb.measuring.recording import Kept, compare_and_keep
from sweepdb.measuring.validating import Validation
from sweepdb.working import parse_workers

PathName = str | os.PathLike[str]
Progress = Callable[[int, int], None]  # (done, all)
BUDGET_S = 60.0
_LONGEST_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCalibration:
    """Written and stored."""

    fit: Calibrated
    output: Path
    version: int


def validate(
    measurements: PathName | Iterable[PathName] | None = None,
    *,
    engine: str | None = None,
    store: str | None = None,
    progress: Progress | None = None,
    workers: str | None = None,
) -> Validation:
    """Predict measured points and compare; by default every stored point, else those of files, which are stored too.

    `engine` (a name, a FILE.yaml or a label) predicts for every point, and then nothing is kept. `workers` (dask:4)
    evaluate; as shard:I/M, a share of the points is compared. Lines that could not be read are among `excluded`."""
    done, _ = validated(
        [] if measurements is None else _paths("measurements", measurements), engine, store, on_progress=progress,
        workers=None if workers is None else _text("workers", workers),
    )  # fmt: skip
    return done


def validated(
    paths: Sequence[Path],
    engine: str | None,
    store: str | None,
    *,
    workers: str | None = None,
    on_read: Callable[[ReadFiles], None] = lambda _: None,
    on_progress: Progress | None = None,
    on_kept: Progress | None = None,
) -> tuple[Validation, Kept]:
    """Of files, or all stored; with what was kept."""
    evaluating = None if workers is None else parse_workers(workers)
    chosen = None if engine is None else engine_named(engine, store)
    found = read_files(paths) if paths else None
    if found is not None:
        on_read(found)
    done, kept = compare_and_keep(
        None if found is None else found.records,
        store,
        files=() if found is None else found.whole,
        requests=None if found is None else found.requests,
        engine=chosen,
        on_progress=on_progress or _silent,
        on_kept=on_kept or _silent,
        workers=evaluating,
    )
    if found is not None and found.problems:
        left_out = Exclusion(rule="line could not be read", rows=len(found.problems))
        done = replace(done, excluded=(left_out, *done.excluded))
    return done, kept


def calibrate(
    device: str | None = None,
    kernels: PathName | None = None,
    *,
    measure: str | None = None,
    budget: float = BUDGET_S,
    profile: PathName | None = None,
    store: str | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> KeptCalibration:
    """Fit a known device to measured kernels, or time kernels on this machine; the profile becomes a new file.

    `kernels` are tables of them. `measure` is cpu or cuda, for `budget` seconds; `device` then names the profile.
    `profile` is the file, by default DEVICE-calibrated.yaml; `progress` is called with the share of the budget that is
    spent and what is timed."""
    if (kernels is None) == (measure is None):
        raise InputError(
            "calibrate needs `kernels=DIR_OR_FILE` or `measure=cpu|cuda`", hint="an engine: calibrate `serving`"
        )
    if kernels is not None:
        if device is None:
            raise InputError("`kernels` needs the device they were measured on", hint="sweepdb devices lists them")
        output = _new_profile(device, profile)
        done = from_kernels(device, _paths("kernels", kernels)[0])
    else:
        if measure not in {"cpu", "cuda"}:
            raise InputError(f"`measure` {measure} is not one of cpu, cuda")
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 1 <= budget <= _LONGEST_S:
            raise InputError(f"`budget` must lie between 1 and {_LONGEST_S} seconds, not {budget!r}")
        name = device or f"this-{measure}"
        output = _new_profile(name, profile)
        done = from_machine("cuda" if measure == "cuda" else "cpu", name, budget, progress or _silent)
    return KeptCalibration(fit=done, output=output, version=keep_calibration(done, output, store))


def calibrate_serving(
    engine: str | None = None,
    *,
    measurements: PathName | Iterable[PathName] = (),
    only: str | Iterable[str] = (),
    profile: PathName | None = None,
    store: str | None = None,
) -> KeptFit:
    """Fit an engine to measured serving points, of files or else of the store; its profile becomes a new file.

    `only` keeps points with this text in their device, model or engine version."""
    texts = [only] if isinstance(only, str) else list(only)
    output = None if profile is None else _paths("profile", profile)[0]
    return fit_serving(engine, _paths("measurements", measurements), output, store, only=texts)


def _new_profile(device: str, profile: PathName | None) -> Path:
    output = Path(f"{Path(_text('device', device)).stem}-calibrated.yaml" if profile is None else profile)
    refuse_existing(output)
    return output


def engine_named(name: str, store: str | None) -> EngineProfile:
    if "@" in _text("engine", name) and not Path(name).suffix:
        from store.opening import open_store

        with open_store(store, read_only=True) as opened:
            return serving.stored_engine(opened, name)
    return engine_profile(name)


def _paths(keyword: str, given: PathName | Iterable[PathName]) -> list[Path]:
    named = [given] if isinstance(given, str | os.PathLike) else given
    try:
        return [Path(one) for one in named]
    except TypeError:
        raise InputError(f"`{keyword}` must be a file or a list of files, not {given!r}") from None


def _text(keyword: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"`{keyword}` must be a text, not {value!r}")
    return value


def _silent(*_: object) -> None: ...
