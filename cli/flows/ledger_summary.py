"""The summary of the ledger that ships with the program, and the one command that writes it.

`python -m cli.flows.ledger_summary FILE...` evaluates every usable measured point of these files as `sweepdb evaluate`
would, under each cost model family, convention and serving model there is, and writes the errors by region to
queries/ledger/*.csv; the measured values themselves stay where they are. An engine fitted to measured points is asked
as fitted without the point's (device, model) pair. Nothing is random.

Not here: regions (cli.flows.error_regions), and finding that of an answer (queries.expected_error)."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from cli.flows.error_regions import Field, PointError, regions_of, write_points
from evaluator.capture import CaptureRequest, capture
from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.identity import device_record
from evaluator.measured.deployments import Deployment, deployment_of
from evaluator.measured.models import Unmatched
from evaluator.measured.prediction import central_metrics
from evaluator.measured.scoring import usable
from evaluator.measurements import read_measurements
from evaluator.operators import OperatorSet
from evaluator.probe_block import ProbeBlock
from evaluator.profiles.load import Family, list_shipped, load_device
from evaluator.serving.engines import engine_profile
from evaluator.serving.phases import Convention, Phase, Scenario
from evaluator.workload import Workload
from queries.expected_error import ASKED, DEVICES, ENGINE, FOLDER, POINTS, SUMMARY, Region, ShippedDevice
from store.errors import SweepdbError
from store.records import MeasurementRecord

# A decode instance of a deployment whose sides are apart is one; what its prompts wait for is nobody's probe.
PHASES: Mapping[str, Phase] = {
    "prefill": "prefill", "decode": "decode", "aggregated": "aggregated", "disaggregated": "decode",
}  # fmt: skip
METRIC_NAMES = ("ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms", "output_tokens_per_s")
SHOWN_AS = {"prefill_latency_ms": "ttft_ms"}
MS = 1000.0
KEY_LENGTH = 12
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Variant:
    """What a probe can be evaluated under. The serving model is waves, or the engine that served the point."""

    family: Family
    convention: Convention
    serving_model: str


VARIANTS = (
    Variant("calibrated", "physical", "waves"),
    Variant("calibrated", "physical", ENGINE),
    Variant("calibrated", "upstream", "waves"),
    Variant("theoretical", "physical", "waves"),
    Variant("theoretical", "physical", ENGINE),
    Variant("theoretical", "upstream", "waves"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured point with what is evaluated for it."""

    record: MeasurementRecord
    deployment: Deployment

    @property
    def phase(self) -> Phase:
        """The phase whose probe stands beside it."""
        return PHASES[self.deployment.mode]

    @property
    def batch_size(self) -> int:
        """Of one replica and pipeline stage."""
        return -(-self.deployment.users_of_replica // self.deployment.plan.pp)

    @property
    def lengths(self) -> tuple[int, int]:
        """Mean prompt and output: clients that draw lengths from a range say the longest."""
        one = self.deployment
        mean = (1.0 + one.shortest) / 2
        return max(1, round(mean * one.input_length)), max(1, round(mean * one.output_length))


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One signed relative error and where it belongs."""

    variant: Variant
    point: Point
    metric: str
    error: float


def points_of(records: Iterable[MeasurementRecord]) -> list[Point]:
    """The records that count and that we have a model, device and plan for."""
    found = []
    for record in usable(records).records:
        with suppress(Unmatched):
            found.append(Point(record=record, deployment=deployment_of(record)))
    return found


def errors_of(points: Sequence[Point], variant: Variant) -> Iterator[Error]:
    """Errors of the probes that `variant` makes of points; those it does not cover are left out."""
    sizes: dict[Scenario, list[Point]] = defaultdict(list)
    for point in points:
        if (scenario := scenario_of(point, variant)) is not None:
            sizes[scenario].append(point)
    for scenario, sharing in sizes.items():
        batches = sorted({point.batch_size for point in sharing})
        block = _evaluated(scenario, batches)
        for point in sharing:
            values = probe_values(point, block, batches.index(point.batch_size))
            for metric, measured in measured_values(point, scenario).items():
                if metric in values:
                    error = values[metric] / measured - 1.0
                    yield Error(variant=variant, point=point, metric=SHOWN_AS.get(metric, metric), error=error)


def scenario_of(point: Point, variant: Variant) -> Scenario | None:
    """What `sweepdb evaluate` makes of a point's configuration; None where the variant does not cover it."""
    one = point.deployment
    engine = None
    if variant.serving_model == ENGINE:
        if one.engine is None:
            return None
        engine = engine_profile(one.engine, unseen=one.pair)
    with suppress(SweepdbError):
        device = load_device(one.device.name, family=variant.family)
        budget = one.token_budget or (engine.token_budget if engine is not None else None)
        prompt, output = point.lengths
        workload = Workload(input_length=prompt, output_length=output)
        scenario = Scenario(
            model=one.model,
            device=device,
            precision=one.precision,
            plan=one.plan,
            workload=workload if budget is None else replace(workload, max_batched_tokens=budget),
            phase=point.phase,
            convention=variant.convention,
            serving_model="waves" if engine is None else engine.name,
            engine=engine,
        )
        return scenario if unsupported(scenario) is None else None
    return None


def _evaluated(scenario: Scenario, batches: Sequence[int]) -> ProbeBlock:
    requests = capture_requests(scenario, compile_graphs=True)
    operators: dict[str, OperatorSet] = {trace: _captured(request) for trace, request in requests.items()}
    return evaluate_scenario(scenario, np.asarray(batches, dtype=np.int64), operators)


@lru_cache(maxsize=1024)
def _captured(request: CaptureRequest) -> OperatorSet:
    return capture(request)


def probe_values(point: Point, block: ProbeBlock, index: int) -> Values:
    """Values of one probe by the names of the summary, and until the last prompt of a batch has its first token."""
    users = point.deployment.users
    if point.phase == "prefill":
        return {"ttft_ms": float(block.ttft_ms[index]), "prefill_latency_ms": float(block.makespan_ms[index])}
    tpot = float(block.tpot_exclusive_ms[index])
    if point.phase == "decode":
        return {"tpot_exclusive_ms": tpot}
    output, whole = point.lengths[1], float(block.e2e_ms[index])
    return {
        "ttft_ms": float(block.ttft_ms[index]),
        "tpot_exclusive_ms": tpot,
        "tpot_inclusive_ms": whole / output,
        "output_tokens_per_s": MS * users * output / whole,
    }


def measured_values(point: Point, scenario: Scenario) -> Values:
    """What was measured, by the names of the summary: as stated, or from both latencies of a closed loop."""
    found = central_metrics(point.record.metrics)
    if point.phase == "prefill":
        alone = {} if point.deployment.transferred else {"ttft_ms": "ttft_ms"}  # no probe moves keys and values
        return _renamed(found, {**alone, "prefill_latency_ms": "prefill_latency_ms"})
    if point.phase == "decode":
        return _renamed(found, {"tpot_exclusive_ms": "tpot_exclusive_ms", "decode_step_ms": "tpot_exclusive_ms"})
    if point.deployment.batched and scenario.engine is not None:
        return {}  # all requests at once and none after: no closed loop
    return _closed_loop(found, point.lengths[1], point.deployment.users)


def _renamed(found: Mapping[str, float], names: Mapping[str, str]) -> Values:
    return {names[name]: value for name, value in found.items() if name in names}


def _closed_loop(found: Mapping[str, float], output: int, users: int) -> Values:
    values = {name: found[name] for name in METRIC_NAMES if name in found}
    whole = found.get("e2e_ms")
    if whole is None and {"ttft_ms", "tpot_exclusive_ms"} <= found.keys():
        whole = found["ttft_ms"] + (output - 1) * found["tpot_exclusive_ms"]
        values.setdefault("output_tokens_per_s", MS * users * output / whole)
    if whole is not None:
        values.setdefault("tpot_inclusive_ms", whole / output)
    return values


def shipped_devices() -> list[ShippedDevice]:
    """Each shipped device, whose kernels its calibration stands on, and which profiles the errors are of."""
    found = []
    for name in list_shipped():
        profiles = {family: load_device(name, family=family) for family in ("auto", "theoretical")}
        keys = {profile.family: device_record(profile).key[:KEY_LENGTH] for profile in profiles.values()}
        calibration = profiles["auto"].calibration
        found.append(
            ShippedDevice(
                device=name,
                calibrated_from=(json.loads(calibration).get("carried_from") if calibration else None) or name,
                calibrated_key=keys.get("calibrated", ""),
                theoretical_key=keys["theoretical"],
            )
        )
    return sorted(found, key=lambda one: one.device)


def told(one: Error) -> PointError:
    """An error by the field and pair that it counts in. Every point is evaluated as a question asks for it."""
    variant, deployment = one.variant, one.point.deployment
    return PointError(
        field=Field(
            family=variant.family,
            convention=variant.convention,
            serving_model=variant.serving_model,
            basis=ASKED,
            phase=one.point.phase,
            metric=one.metric,
        ),
        device=deployment.device.name,
        model=deployment.pair[1],
        kind="moe" if deployment.moe else "dense",
        engine=deployment.engine,
        error=one.error,
    )


def write_csv(path: Path, kind: type[Region | ShippedDevice], records: Iterable[Region | ShippedDevice]) -> None:
    """Records under a header of their fields, line breaks as everywhere."""
    names = [item.name for item in fields(kind)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(one, name) for name in names] for one in records)


def summarise(files: Sequence[Path], say: Callable[[str], object] = lambda _: None) -> list[PointError]:
    """The errors of every usable point of these files, under every variant."""
    points = points_of(record for path in files for record in read_measurements(path).records)
    say(f"{len(points)} usable points")
    errors: list[PointError] = []
    for variant in VARIANTS:
        found = [told(one) for one in errors_of(points, variant)]
        counts = sorted(Counter(one.field.metric for one in found).items())
        said = ", ".join(f"{metric} {rows}" for metric, rows in counts)
        say(f"{variant.family}, {variant.convention}, {variant.serving_model}: {said}")
        errors += found
    return errors


def main(files: Sequence[Path], folder: Path = FOLDER) -> None:
    """Write the summary, the points behind it and the table of devices."""
    write_ledger(folder, summarise(files, lambda text: sys.stderr.write(text + "\n")), shipped_devices())


def write_ledger(folder: Path, errors: Sequence[PointError], devices: Sequence[ShippedDevice]) -> None:
    """Everything that ships, from errors of points and devices."""
    donor_of = {one.device: one.calibrated_from for one in devices}
    write_csv(folder / SUMMARY.name, Region, regions_of(errors, donor_of))
    write_points(folder / POINTS.name, errors)
    write_csv(folder / DEVICES.name, ShippedDevice, devices)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
