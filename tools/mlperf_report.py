"""Official MLPerf runs beside predictions: offline tokens/s, and the Poisson rate within both limits.

`python -m tools.mlperf_report FOLDER [--lines FILE]` reads FOLDER/points.csv and FOLDER/dist_*.csv, simulates systems
as submitted, and prints measured, predicted and ratio; --lines writes JSON lines. Engines are fitted without the
point's pair. Nothing is random."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from evaluator.arithmetic import Integers, log
from evaluator.arrivals.loads import Load, LoadPlayer, PlaySettings
from evaluator.arrivals.streams import ArrivalProcess, uniform, unit_times
from evaluator.evaluate import cost_of
from evaluator.inputs.launch import Launch
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.ledger.deployments import Deployment, deployment_of
from evaluator.ledger.predicting import operators_of
from evaluator.ledger.scenarios import scenario_of
from evaluator.ledger.scoring import figures
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.records import MeasurementRecord, SideRecord

SOURCE = "MLPerf Inference v5.1"
# A run has at least its whole data set and ten minutes of requests, by MLPerf's rules; an instance gets its share.
SAMPLES: Mapping[str, int] = {
    "llama2-70b": 24576, "llama3.1-8b": 13368, "llama3.1-405b": 8313, "mixtral-8x7b": 15000, "deepseek-r1": 4388,
}  # fmt: skip
LEAST_S = 600.0
LONGEST_ANSWER = 20_000  # of DeepSeek-R1, by MLPerf's rules
MOST_REQUESTS = 20_000  # of an instance, that are played
WITHIN = 0.99  # of requests, by MLPerf's rules
CLOSE = 1.005  # bounds of the searched rate over each other, at its end
# Milliseconds of TTFT and TPOT at the 99th percentile, by data set: server, interactive.
LIMITS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "llama2-70b": {"Server": (2000.0, 200.0), "Interactive": (450.0, 40.0)},
    "llama3.1-8b": {"Server": (2000.0, 100.0), "Interactive": (500.0, 30.0)},
    "llama3.1-405b": {"Server": (6000.0, 175.0), "Interactive": (4500.0, 80.0)},
    "mixtral-8x7b": {"Server": (2000.0, 200.0)},
    "deepseek-r1": {"Server": (2000.0, 80.0)},
}
# Checkpoints of both vendors keep keys and values in eight bits, whether or not a submission repeats it.
KEYS = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """An instance, how many, its launch, and measurements."""

    name: str
    data: str
    division: str  # Offline, Server, Interactive
    deployment: Deployment
    instances: int
    seats: int | None
    measured: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Offline tokens/s, else requests/s within both limits."""

    system: str
    device: str
    model: str
    engine: str
    run: str
    unit: str
    measured: float
    predicted: float
    ratio: float


def main(folder: Path, lines: Path | None) -> None:
    found = [_line(system, folder) for system in systems(folder / "points.csv")]
    if lines is not None:
        lines.write_text("".join(json.dumps(asdict(one)) + "\n" for one in found), encoding="utf-8")
    sys.stdout.writelines(f"{text}\n" for text in (*_table(found), "", *_summary(found)))


def systems(path: Path) -> Iterator[System]:
    runs: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["source"] == SOURCE:
                runs[row["config"]][row["metric"]] = row
    for config, metrics in runs.items():
        division = config.rsplit("-", 1)[1]
        row = metrics["output_tokens_per_s" if division == "Offline" else "requests_per_s"]
        deployment = replace(deployment_of(_record(row)), token_budget=_last("max_num_tokens", row["plan_note"]))
        yield System(
            name=config.removeprefix("mlperf51-").removesuffix(f"-{row['model']}-{division}"),
            data=row["model"].removesuffix("-99.9"),
            division=division,
            deployment=deployment,
            instances=int(row["num_devices"]) // deployment.num_devices,
            seats=_last("seats", row["plan_note"]),
            measured=float(row["value"]),
        )


def _record(row: Mapping[str, str]) -> MeasurementRecord:
    """An instance as a point of one request; what is not stated is one device."""
    tp, pp, dp = (int(row[name] or 1) for name in ("tp", "pp", "dp"))
    tp = max(1, tp // dp) if "attention dp True" in row["plan_note"] else tp
    size = {name: int(row[name]) if row[name] else None for name in ("ep",)}
    return MeasurementRecord(
        key=row["id"],
        source=row["source"],
        source_format="sweepdb_csv",
        model=row["tool_model"],
        device=row["device"],
        engine=row["engine"],
        engine_version=row["engine_version"],
        mode="aggregated",
        precision=row["weights"],
        kv_precision=row["kv"] or KEYS,
        num_devices=tp * pp * dp,
        input_length=float(row["isl"]),
        output_length=float(row["osl"] or ANSWERS[row["model"].removesuffix("-99.9")]),
        concurrency=1.0,
        request_rate=None,
        decode=SideRecord(tp=tp, pp=pp, dp=dp, **size),
    )


ANSWERS: Mapping[str, float] = {"llama3.1-8b": 129.0, "mixtral-8x7b": 145.0}  # tokens, where a run does not say


def _last(name: str, note: str) -> int | None:
    """Configurations first say what an engine is built for, then how it is started."""
    found = re.search(rf"{name} \[([^\]]*)\]", note)
    values = re.findall(r"\d+", found[1]) if found else []
    return int(values[-1]) if values else None


def _line(system: System, folder: Path) -> Line:
    deployment = system.deployment
    if system.division == "Offline":
        predicted = played_offline(system, folder)
    else:
        limits = LIMITS[system.data][system.division]
        predicted = system.instances * rate_within(_player(system, folder), limits)
    return Line(
        system=system.name,
        device=deployment.device.name,
        model=system.data,
        engine=deployment.engine or "",
        run=system.division.lower(),
        unit="tokens/s" if system.division == "Offline" else "requests/s",
        measured=system.measured,
        predicted=predicted,
        ratio=predicted / system.measured,
    )


def played_offline(system: System, folder: Path) -> float:
    """All requests are there at the start."""
    answers = _requests(system, folder).output_lengths
    return system.instances * _player(system, folder).saturation_per_s * float(answers.mean())


def _player(system: System, folder: Path) -> LoadPlayer:
    deployment = system.deployment
    scenario = _launched(scenario_of(deployment, "asked"), system)
    model = serving_model_of(scenario)
    engine = serving_engine(scenario)
    if engine is None:
        raise TypeError(f"{system.name} is served by no engine")
    run = Run(
        scenario=scenario,
        operators=operators_of(scenario),
        source=model.source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([1], dtype=np.int64),
    )
    trace = _requests(system, folder)
    process = ArrivalProcess(kind="trace", requests=trace.times.size, trace_sha256=trace.sha256)
    return LoadPlayer(run, engine, PlaySettings(process=process), trace)


def _launched(scenario: Scenario, system: System) -> Scenario:
    """As submitted."""
    return scenario if system.seats is None else replace(scenario, launch=Launch(seats=system.seats))


def _requests(system: System, folder: Path) -> TracedArrivals:
    """Drawn from the data set by a fixed seed, at Poisson times.

    Without a file prompts have their mean and answers are exponential, up to the longest. Answers are stretched to the
    run's mean: low-bit checkpoints stop elsewhere."""
    deployment = system.deployment
    prompts, answers = _lengths(folder / f"dist_{system.data}.csv")
    if not prompts.size:
        prompts = np.full(SAMPLES[system.data], deployment.input_length)
        drawn = np.ceil(-deployment.output_length * log(uniform(1, 5, prompts.size)))
        answers = np.minimum(drawn, LONGEST_ANSWER).astype(np.int64)
    count = requests_of(system)
    chosen = np.minimum((uniform(1, 4, count) * prompts.size).astype(np.int64), prompts.size - 1)
    stretched = np.rint(answers * (deployment.output_length / answers.mean())).astype(np.int64)
    return TracedArrivals(
        times=unit_times(ArrivalProcess(kind="poisson", requests=count)),
        input_lengths=prompts[chosen],
        output_lengths=np.maximum(1, stretched)[chosen],
        sha256="0" * 64,
    )


def requests_of(system: System) -> int:
    """Of one instance."""
    rate = system.measured / (system.deployment.output_length if system.division == "Offline" else 1.0)
    return min(MOST_REQUESTS, -(-max(SAMPLES[system.data], int(LEAST_S * rate)) // system.instances))


@lru_cache(maxsize=8)
def _lengths(path: Path) -> tuple[Integers, Integers]:
    if not path.is_file():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(int(row["input_length"]), int(row["output_length"])) for row in csv.DictReader(file)]
    prompts, answers = np.asarray(rows, dtype=np.int64).T
    return prompts, answers


def rate_within(player: LoadPlayer, limits: tuple[float, float]) -> float:
    """99 % within both limits; 0: none."""
    return bisected(
        lambda rate: share_within(player.load(rate, keep_requests=True), limits) >= WITHIN, player.saturation_per_s
    )


def share_within(load: Load, limits: tuple[float, float]) -> float:
    """By TTFT and mean TPOT, of all requests."""
    times = load.request_times
    if times is None:
        raise TypeError("a load without its requests")
    return float(np.mean((times.ttft + load.outside_ms <= limits[0]) & (times.tpot <= limits[1])))


def bisected(keeps: Callable[[float], bool], largest: float) -> float:
    """To half a percent; 0 where a hundredth of the largest fails."""
    low, high = 0.01 * largest, largest
    if not keeps(low):
        return 0.0
    if keeps(high):
        return high
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def _table(lines: Sequence[Line]) -> Iterator[str]:
    yield "| system | device | model | engine | run | measured | predicted | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in lines:
        yield (
            f"| {one.system} | {one.device} | {one.model} | {one.engine} | {one.run} "
            f"| {one.measured:,.1f} | {one.predicted:,.1f} | {one.ratio:.2f} |"
        )


def _summary(lines: Sequence[Line]) -> Iterator[str]:
    yield "| runs | number | median/mean error % | bias % | within 15 % | within 30 % |"
    yield "|---|---|---|---|---|---|"
    kinds = {"offline, tokens/s": [one for one in lines if one.run == "offline"],
             "rate within limits": [one for one in lines if one.run != "offline"]}  # fmt: skip
    for name, some in kinds.items():
        yield _summed(name, some)
    for device in sorted({one.device for one in lines}):
        yield _summed(device, [one for one in lines if one.device == device])


def _summed(name: str, lines: Iterable[Line]) -> str:
    errors = [one.ratio - 1.0 for one in lines]
    found = figures(errors)
    if found is None:
        return f"| {name} | 0 | | | | |"
    near = [sum(abs(error) <= within for error in errors) for within in (0.15, 0.30)]
    return (
        f"| {name} | {found.rows} | {found.median_ape:.1f}/{found.mean_ape:.1f} | {found.bias:+.1f} "
        f"| {near[0]} of {found.rows} | {near[1]} of {found.rows} |"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=Path)
    arguments = parser.parse_args()
    main(arguments.folder, arguments.lines)
