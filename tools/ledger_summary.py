"""Writes the shipped errors of measured points.

`python -m tools.ledger_summary serving.csv published.csv --others closed.csv` evaluates every usable point as `sweepdb
evaluate` would, under each family, convention and serving model, and writes queries/ledger/*.csv without measured
values. Engines are fitted without the point's (device, model) pair. Nothing is random.

Regions: tools.error_regions; an answer's: queries.errors.expected."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path

from evaluator.identity import device_record, usual_device
from evaluator.inputs import WantedFamily, list_engines, list_shipped, load_device, with_any_kernels_of
from evaluator.ledger import (
    PHASES,
    Asked,
    Deployment,
    Knowledge,
    Probe,
    Unmatched,
    Values,
    asked_of,
    central_metrics,
    deployment_of,
    evaluated,
    mean_output_of,
    predicted,
    read_measurements,
    scenario_of,
    usable,
    values_of,
)
from queries.errors import (
    ASKED,
    CARRIED_STEPS,
    DEVICES,
    ENGINE,
    FOLDER,
    KNOWN,
    KNOWN_NAMES,
    OTHERS,
    PAIRED,
    POINTS,
    SEEN_PAIRS,
    SERVER_POINTS,
    SPREADS,
    SUMMARY,
    TUNED,
    UNKNOWN_STEPS,
    Region,
    ShippedDevice,
    Spread,
    family_of,
)
from store.errors import SweepdbError
from store.records import MeasurementRecord
from store.schema import Convention, Phase
from tools.error_regions import Field, PointError, regions_of, write_points
from tools.server_spreads import ServerError, read_server_errors, spreads_of, write_server_errors

UNNAMED = "vllm"  # serves who names no engine
METRIC_NAMES = ("ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms", "output_tokens_per_s")
SMALLEST = -0.999  # a prediction of nothing has no logarithm
SHOWN_AS = {"prefill_latency_ms": "ttft_ms"}
MS = 1000.0
KEY_LENGTH = 12
KNOWLEDGE: tuple[Knowledge, ...] = (ASKED, KNOWN)


@dataclass(frozen=True, slots=True)
class Variant:
    """Waves, or the engine behind the point.

    `unnamed`: points without an engine are served by the usual one."""

    family: WantedFamily
    convention: Convention
    serving_model: str
    unnamed: bool = False


VARIANTS = (
    Variant("calibrated", "physical", "waves"),
    Variant("calibrated", "physical", ENGINE),
    Variant("calibrated", "upstream", "waves"),
    Variant("theoretical", "physical", "waves"),
    Variant("theoretical", "physical", ENGINE),
    Variant("theoretical", "upstream", "waves"),
)

BY_OTHERS = (  # a device is as a user has it
    Variant("auto", "physical", "waves"),
    Variant("auto", "physical", ENGINE, unnamed=True),
    Variant("auto", "upstream", "waves"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    record: MeasurementRecord
    deployment: Deployment

    @property
    def phase(self) -> Phase:
        """Of the probe beside it."""
        return PHASES[self.deployment.mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One signed relative error."""

    variant: Variant
    knowledge: Knowledge
    point: Point
    metric: str
    error: float
    phase: str | None = None  # of both sides of a deployment together; else that of the point's probe


def points_of(records: Iterable[MeasurementRecord]) -> list[Point]:
    """Records that count, and whose model, device and plan we have."""
    found = []
    for record in usable(records).records:
        with suppress(Unmatched):
            found.append(Point(record=record, deployment=deployment_of(record)))
    return found


def errors_of(points: Sequence[Point], variant: Variant, knowledge: Knowledge = "asked") -> Iterator[Error]:
    """Only points that `variant` covers."""
    covered = {id(point): one for point in points if (one := asked_under(point, variant, knowledge)) is not None}
    probes = evaluated(covered.values())
    for point in points:
        asked = covered.get(id(point))
        if asked is None or (probe := probes.get(asked.scenario)) is None:
            continue
        values = shown_values(point, knowledge, probe, asked.batch_size)
        for metric, measured in measured_values(point, knowledge, engine=variant.serving_model == ENGINE).items():
            if metric in values:
                shown, error = SHOWN_AS.get(metric, metric), values[metric] / measured - 1.0
                yield Error(variant=variant, knowledge=knowledge, point=point, metric=shown, error=error)


def pair_errors_of(points: Sequence[Point], variant: Variant, knowledge: Knowledge = "asked") -> Iterator[Error]:
    """TTFT of disaggregated points.

    Predicted from pairs of rows, as answers do."""
    if variant.serving_model != ENGINE:
        return
    covered: list[tuple[Point, Deployment, Asked, float]] = []
    for point in points:
        one, measured = point.deployment, central_metrics(point.record.metrics).get("ttft_ms")
        if one.mode == PAIRED and one.engine is not None and one.prefill_plan is not None and measured:
            with suppress(SweepdbError):
                there = replace(one, device=load_device(one.device.name, family=variant.family))
                covered.append((point, there, asked_of(there, knowledge), measured))
    probes = evaluated(asked for _, _, asked, _ in covered)
    for point, there, asked, measured in covered:
        found = predicted(there, knowledge, asked, probes).get("ttft_ms")
        if found is not None:
            error = found / measured - 1.0
            yield Error(variant=variant, knowledge=knowledge, point=point, metric="ttft_ms", error=error, phase=PAIRED)


def asked_under(point: Point, variant: Variant, knowledge: Knowledge) -> Asked | None:
    """None where the variant does not cover it."""
    one = point.deployment
    if variant.serving_model == ENGINE and one.engine is None and not variant.unnamed:
        return None
    with suppress(SweepdbError):
        device = load_device(one.device.name, family=variant.family)
        model = None if variant.serving_model == ENGINE else variant.serving_model
        # A decode instance of a deployment whose sides are apart is one; what its prompts wait for is nobody's probe.
        scenario = scenario_of(replace(one, device=device), knowledge, serving_model=model)
        batch_size = -(-one.users_of_replica // one.plan.pp)
        return Asked(scenario=replace(scenario, convention=variant.convention), batch_size=batch_size)
    return None


def shown_values(point: Point, knowledge: Knowledge, probe: Probe, batch_size: int) -> Values:
    """By the summary's names."""
    mode = "decode" if point.deployment.mode == "disaggregated" else point.deployment.mode
    found = values_of(replace(point.deployment, mode=mode), knowledge, probe, batch_size)
    return {name: value for name, value in found.items() if name in {*METRIC_NAMES, *SHOWN_AS}}


def measured_values(point: Point, knowledge: Knowledge, *, engine: bool) -> Values:
    """As stated, or from both latencies of a closed loop."""
    found, one = central_metrics(point.record.metrics), point.deployment
    if point.phase == "prefill":
        return _renamed(found, {"ttft_ms": "ttft_ms", "prefill_latency_ms": "prefill_latency_ms"})
    if point.phase == "decode":
        return _renamed(found, {"tpot_exclusive_ms": "tpot_exclusive_ms", "decode_step_ms": "tpot_exclusive_ms"})
    if engine and one.batched and knowledge == "asked":
        return {}  # all requests at once and none after: nobody asks a closed loop for it
    return _closed_loop(found, mean_output_of(one, knowledge), one.users)


def _renamed(found: Mapping[str, float], names: Mapping[str, str]) -> Values:
    return {names[name]: value for name, value in found.items() if name in names}


def _closed_loop(found: Mapping[str, float], output: float, users: int) -> Values:
    values = {name: found[name] for name in METRIC_NAMES if name in found}
    whole = found.get("e2e_ms")
    if whole is None and {"ttft_ms", "tpot_exclusive_ms"} <= found.keys():
        whole = found["ttft_ms"] + (output - 1) * found["tpot_exclusive_ms"]
        values.setdefault("output_tokens_per_s", MS * users * output / whole)
    if whole is not None:
        values.setdefault("tpot_inclusive_ms", whole / output)
    return values


def shipped_devices() -> list[ShippedDevice]:
    """With the calibration each stands on, and the profiles the errors are of."""
    found = []
    for name in list_shipped():
        profiles = {family: load_device(name, family=family) for family in ("auto", "theoretical")}
        keys = {profile.family: device_record(usual_device(profile)).key[:KEY_LENGTH] for profile in profiles.values()}
        usual = usual_device(profiles["auto"])
        kernels = {found for one in list_engines() for found in with_any_kernels_of(usual, one)}
        by_engine = {device_record(profile).key[:KEY_LENGTH] for profile in kernels}
        calibration = profiles["auto"].calibration
        found.append(
            ShippedDevice(
                device=name,
                calibrated_from=(json.loads(calibration).get("carried_from") if calibration else None) or name,
                calibrated_key="+".join(sorted(by_engine)) if "calibrated" in keys else "",
                theoretical_key=keys["theoretical"],
                fitted_from=profiles["theoretical"].fitted_from,
            )
        )
    return sorted(found, key=lambda one: one.device)


def told(one: Error) -> PointError:
    """By its field and pair."""
    variant, deployment = one.variant, one.point.deployment
    return PointError(
        field=Field(
            family=variant.family,
            convention=variant.convention,
            serving_model=variant.serving_model,
            basis=one.knowledge,
            phase=one.phase or one.point.phase,
            metric=one.metric,
        ),
        device=deployment.device.name,
        model=deployment.pair[1],
        kind="moe" if deployment.moe else "dense",
        engine=deployment.engine,
        error=one.error,
    )


Known = Mapping[tuple[str, str], int]  # pairs that somebody measured, by `engine` or `family` and name


def known_names(errors: Iterable[PointError]) -> Known:
    """Measured pairs of device and model by engine, and by family."""
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for one in errors:
        pairs["family", family_of(one.model)].add((one.device, one.model))
        if one.engine is not None:
            pairs["engine", one.engine].add((one.device, one.model))
    return {name: len(found) for name, found in sorted(pairs.items())}


def steps_of(one: Deployment, family: str, shipped: Mapping[str, ShippedDevice], known: Known) -> int:
    """As queries.errors.expected counts unknowns."""
    found = shipped[one.device.name]
    if family == "theoretical" or not found.calibrated_key:
        of_device = CARRIED_STEPS if found.fitted_from == found.device else UNKNOWN_STEPS
    else:
        of_device = 0 if found.calibrated_from == found.device else CARRIED_STEPS
    return of_device + (UNKNOWN_STEPS if known.get(("engine", one.engine or UNNAMED), 0) < SEEN_PAIRS else 0)


def errors_of_others(
    points: Sequence[Point], shipped: Mapping[str, ShippedDevice], known: Known
) -> Iterator[ServerError]:
    """Nothing is known but what was asked, as in questions."""
    for variant in BY_OTHERS:
        for found in errors_of(points, variant):
            one = found.point.deployment
            yield server_error(told(found), source_of(found.point.record), steps_of(one, "auto", shipped, known))


def server_error(one: PointError, source: str, steps: int) -> ServerError:
    return ServerError(
        convention=one.field.convention,
        serving_model=one.field.serving_model,
        metric=one.field.metric,
        source=source,
        device=one.device,
        model=one.model,
        engine=one.engine or UNNAMED,
        steps=steps,
        ratio=-round(math.log1p(max(one.error, SMALLEST)), 3),
    )


def source_of(record: MeasurementRecord) -> str:
    """As its row says, else its file."""
    return str(json.loads(record.extra).get("source_name") or record.source.rsplit(":", 1)[0])


def tuned_errors(errors: Iterable[PointError], shipped: Mapping[str, ShippedDevice]) -> Iterator[ServerError]:
    """Of laboratories, on calibrated devices."""
    for one in errors:
        if one.field.family == "calibrated" and one.field.basis == ASKED and one.field.phase == "aggregated":
            carried = shipped[one.device].calibrated_from != one.device
            yield server_error(one, "laboratories", CARRIED_STEPS if carried else 0)


def write_csv(path: Path, kind: type[Region | ShippedDevice | Spread], records: Iterable[object]) -> None:
    """Line breaks as everywhere."""
    names = [item.name for item in fields(kind)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([getattr(one, name) for name in names] for one in records)


def summarise(files: Sequence[Path], say: Callable[[str], object] = lambda _: None) -> list[PointError]:
    """Under every variant.

    Formulas know no client, so nothing beyond what is asked."""
    points = points_of(record for path in files for record in read_measurements(path).records)
    say(f"{len(points)} usable points")
    errors: list[PointError] = []
    for variant in VARIANTS:
        for knowledge in KNOWLEDGE if variant.serving_model == ENGINE else KNOWLEDGE[:1]:
            of_pairs = pair_errors_of(points, variant, knowledge)
            found = [told(one) for one in (*errors_of(points, variant, knowledge), *of_pairs)]
            counts = sorted(Counter(one.field.metric for one in found).items())
            said = ", ".join(f"{metric} {rows}" for metric, rows in counts)
            say(f"{variant.family}, {variant.convention}, {variant.serving_model}, as {knowledge}: {said}")
            errors += found
    return errors


def main(files: Sequence[Path], others: Sequence[Path], folder: Path = FOLDER) -> None:
    """Regions, points and devices; then servers of others."""
    errors = summarise(files, lambda text: sys.stderr.write(text + "\n"))
    devices = shipped_devices()
    by_name, known = {one.device: one for one in devices}, known_names(errors)
    points = points_of(record for path in others for record in read_measurements(path).records)
    elsewhere = list(errors_of_others(points, by_name, known))
    sys.stderr.write(f"{len(points)} usable points of others' servers\n")
    write_ledger(folder, errors, devices)
    write_servers(folder, list(tuned_errors(errors, by_name)), elsewhere, known)


def write_servers(folder: Path, tuned: Sequence[ServerError], others: Sequence[ServerError], known: Known) -> None:
    """Statements on unmeasured servers, and their points."""
    families = frozenset(name for what, name in known if what == "family")
    write_server_errors(folder / SERVER_POINTS.name, others)
    shipped = read_server_errors(folder / SERVER_POINTS.name)  # rounded: what ships is what statements follow from
    rows = [
        *spreads_of(tuned, TUNED, families),
        *spreads_of(shipped, OTHERS, families | {family_of(one.model) for one in others}),
    ]
    write_csv(folder / SPREADS.name, Spread, rows)
    pairs = {**known, **{("family", family_of(one.model)): 1 for one in others if family_of(one.model) not in families}}
    with (folder / KNOWN_NAMES.name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("what", "name", "pairs"))
        writer.writerows((*name, count) for name, count in sorted(pairs.items()))


def write_ledger(folder: Path, errors: Sequence[PointError], devices: Sequence[ShippedDevice]) -> None:
    """Of the laboratories."""
    donor_of = {one.device: one.calibrated_from for one in devices}
    write_csv(folder / SUMMARY.name, Region, regions_of(errors, donor_of))
    write_points(folder / POINTS.name, errors)
    write_csv(folder / DEVICES.name, ShippedDevice, devices)


def files_of(arguments: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Others' follow `--others`."""
    place = arguments.index("--others") if "--others" in arguments else len(arguments)
    return [Path(one) for one in arguments[:place]], [Path(one) for one in arguments[place + 1 :]]


if __name__ == "__main__":
    main(*files_of(sys.argv[1:]))
