"""Fits devices without published kernels to serving points.

    python -m tools.serving_devices FOLDER [--check]

FOLDER holds points.csv and closed.csv. Four numbers are fitted: shares of peak rates and bandwidth reached, and fixed
times of an operator and a message. Writes evaluator/inputs/devices/<device>.yaml, also for the maker's unmeasured
devices. --check prints each source's errors by a fit without it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray, exp, log
from evaluator.calibration.least_squares import Box, Effort, fit_log
from evaluator.inputs import load_device
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.ledger import (
    Deployment,
    Figures,
    Unmatched,
    asked_of,
    central_metrics,
    deployment_of,
    evaluated,
    figures,
    predicted,
    read_measurements,
)
from evaluator.ledger.scenarios import UNSTATED
from store.records import MeasurementRecord
from tools.mlperf_report import System, played_offline, systems

MADE_LIKE: Mapping[str, tuple[str, ...]] = {"mi300x": ("mi325x", "mi355x"), "ascend_910b": ()}
LOW, HIGH = (0.10, 0.20, 1e-6, 1e-6), (0.90, 0.95, 2e-4, 5e-4)
# Where few points say little, numbers stay near these: shares that measured devices reach, launches of a replayed graph
# or, of Ascend's engines of 2025, by the host; and how far from them a number may be, by a factor of e^SPREAD.
STANDARD: Mapping[str, tuple[float, ...]] = {
    "mi300x": (0.5, 0.7, 4e-6, 5e-5),
    "ascend_910b": (0.4, 0.6, 8e-5, 5e-5),
}
SPREAD = (0.3, 0.2, 0.7, 0.7)
PRIOR = 0.5  # log error that a number one spread away counts as
EFFORT = Effort(tolerance=1e-4, iterations=12)
METRICS = ("output_tokens_per_s", "tpot_exclusive_ms")  # the first that a point has: all of a request's time
DATA_SHEET = (0.7, 0.8, 3e-6, 3e-6)  # what profiles assume that nothing is fitted to
ASSUMED = re.compile(r"efficiencies, static costs and link latencies are assumed until calibrated")
GROWTH = 1.05  # of tokens/s from one number of users to the next: below, a limit decides that no step is priced by
LEAST_TOKENS = 50.0  # of an answer: of four tokens, waiting is the whole time
MOST_USERS = 512.0  # beyond, seats that no source states decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value from one source."""

    source: str
    model: str
    metric: str
    measured: float
    deployment: Deployment
    system: System | None = None


def points_of(device: str, folder: Path) -> list[Point]:
    """By rules that see no prediction."""
    records = [one for one in read_measurements(folder / "closed.csv").records if one.device == device]
    closed = [point for record in _growing(_once(records)) for point in _of_record(record)]
    return [*closed, *_offline(device, folder)]


def _once(records: Iterable[MeasurementRecord]) -> list[MeasurementRecord]:
    """Records with the same values are one measurement: the first, by key, counts."""
    seen: dict[tuple[float, ...], MeasurementRecord] = {}
    for record in records:
        seen.setdefault(tuple(record.metrics.values()), record)
    return list(seen.values())


def _growing(records: Sequence[MeasurementRecord]) -> Iterator[MeasurementRecord]:
    """Each ladder of concurrency while tokens/s grow."""
    ladders: dict[object, list[MeasurementRecord]] = defaultdict(list)
    for one in records:
        side = one.decode
        ladders[one.model, one.engine, one.precision, side.tp, side.dp, one.input_length, one.output_length].append(one)
    for ladder in ladders.values():
        best = 0.0
        for one in sorted(ladder, key=lambda one: one.concurrency or 0.0):
            tokens = one.metrics.get("output_tokens_per_s", np.inf)
            if tokens < GROWTH * best:
                break
            best = tokens if np.isfinite(tokens) else best
            yield one


def _of_record(record: MeasurementRecord) -> Iterator[Point]:
    if (record.output_length or 0.0) < LEAST_TOKENS or (record.concurrency or 0.0) > MOST_USERS:
        return
    try:
        deployment = deployment_of(record)
    except Unmatched:
        return
    metrics = central_metrics(record.metrics)
    found = next((metric for metric in METRICS if metric in metrics), None)
    if found is not None:
        yield Point(source=_source(record), model=deployment.pair[1], metric=found, measured=metrics[found],
                    deployment=deployment)  # fmt: skip


def _source(record: MeasurementRecord) -> str:
    """The first words of its column."""
    return str(json.loads(record.extra).get("source_name", "")).partition(" (")[0]


def _offline(device: str, folder: Path) -> Iterator[Point]:
    for system in systems(folder / "points.csv"):
        if system.deployment.device.name == device and system.division == "Offline":
            yield Point(source="mlperf", model=system.deployment.pair[1], metric="output_tokens_per_s",
                        measured=system.measured, deployment=system.deployment, system=system)  # fmt: skip


def with_fitted(profile: DeviceProfile, values: Sequence[float], origin: str) -> DeviceProfile:
    """Names the points' source."""
    compute, memory, static, message = values
    return replace(profile, compute_efficiency=compute, memory_efficiency=memory, matrix_static_s=static,
                   vector_static_s=static, communication_static_s=message, fitted_from=origin)  # fmt: skip


def log_errors(points: Sequence[Point], profile: DeviceProfile, folder: Path) -> FloatArray:
    """log(predicted / measured) of times; tokens/s are inverted."""
    deployments = [replace(point.deployment, device=profile) for point in points]
    # As fits of engines do: an estimate of the memory says nothing of a device's speed.
    engines = [engine_profile(one.engine or UNSTATED, unseen=one.pair) for one in deployments]
    asked = [asked_of(one, "asked", engine=engine) for one, engine in zip(deployments, engines, strict=True)]
    probes = evaluated(one for one, point in zip(asked, points, strict=True) if point.system is None)
    found = []
    for point, deployment, one in zip(points, deployments, asked, strict=True):
        if point.system is not None:
            value = played_offline(replace(point.system, deployment=deployment), folder)
        else:
            value = predicted(deployment, "asked", one, probes)[point.metric]
        found.append(log(np.asarray([value / point.measured]))[0])
    sign = np.asarray([1.0 if point.metric.endswith("_ms") else -1.0 for point in points])
    return np.asarray(sign * np.asarray(found))


def fitted(points: Sequence[Point], device: str, folder: Path) -> tuple[float, ...]:
    """Least soft-L1 cost, sources weighing alike."""
    profile = load_device(device, family="theoretical")
    counts = {source: sum(one.source == source for one in points) for source in {one.source for one in points}}
    weights = np.sqrt([len(points) / len(counts) / counts[point.source] for point in points])

    standard = log(np.asarray(STANDARD[device]))

    def residuals(logs: FloatArray) -> FloatArray:
        errors = log_errors(points, with_fitted(profile, exp(logs).tolist(), device), folder)
        return np.concatenate((weights * errors, PRIOR * (logs - standard) / SPREAD))

    box = Box(low=log(np.asarray(LOW)), high=log(np.asarray(HIGH)), standard=standard)
    solution = fit_log(residuals, standard, box, EFFORT)
    return tuple(float(f"{value:.3g}") for value in exp(solution.point))


def _judged(points: Sequence[Point], device: str, folder: Path, values: Sequence[float]) -> Figures | None:
    profile = with_fitted(load_device(device, family="theoretical"), values, device)
    return figures((exp(log_errors(points, profile, folder)) - 1.0).tolist())


def check(device: str, folder: Path) -> Iterator[str]:
    """By source and by model left out, beside the data sheet's usual shares."""
    points = points_of(device, folder)
    yield f"| {device}: left out | points | data sheet | fitted without | numbers |"
    yield "|---|---|---|---|---|"
    named = {"source": [one.source for one in points], "model": [one.model for one in points]}
    parts = [(f"{kind} {name}", [one == name for one in of]) for kind, of in named.items() for name in sorted(set(of))]
    for name, chosen in parts:
        out = [point for point, is_out in zip(points, chosen, strict=True) if is_out]
        rest = [point for point, is_out in zip(points, chosen, strict=True) if not is_out]
        if not rest:
            continue
        values = fitted(rest, device, folder)
        before, after = (_judged(out, device, folder, some) for some in (DATA_SHEET, values))
        yield _row(name, len(out), before, after, values)
    values = fitted(points, device, folder)
    every = _judged(points, device, folder, DATA_SHEET), _judged(points, device, folder, values)
    yield _row("nothing", len(points), *every, values)


def _row(name: str, count: int, before: Figures | None, after: Figures | None, values: Sequence[float]) -> str:
    said = [f"{one.median_ape:.1f}/{one.mean_ape:.1f}, {one.bias:+.1f}" if one else "" for one in (before, after)]
    return f"| {name} | {count} | {said[0]} | {said[1]} | {' '.join(f'{value:.3g}' for value in values)} |"


def written(text: str, values: Sequence[float], origin: str) -> str:
    compute, memory, static, message = values
    for key, value in (("compute_efficiency", f"{compute:.3g}"), ("memory_efficiency", f"{memory:.3g}"),
                       ("matrix_static_s", f"{static:.2e}"), ("vector_static_s", f"{static:.2e}"),
                       ("communication_static_s", f"{message:.2e}")):  # fmt: skip
        text = re.sub(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
    text = re.sub(r"(?m)^fitted_from: .*\n", "", text)
    text = ASSUMED.sub("link latencies are assumed", text)
    return text.replace("compute_efficiency:", f"fitted_from: {origin}\ncompute_efficiency:", 1)


def main(folder: Path, devices: Sequence[str], *, checked: bool) -> None:
    """Or print left-out errors."""
    target = resources.files("evaluator").joinpath("inputs/devices")
    for device in devices or MADE_LIKE:
        if checked:
            for line in check(device, folder):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            continue
        values = fitted(points_of(device, folder), device, folder)
        for name in (device, *MADE_LIKE[device]):
            path = Path(str(target.joinpath(f"{name}.yaml")))
            path.write_text(written(path.read_text(encoding="utf-8"), values, device), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices", nargs="*")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.devices, checked=arguments.check)
