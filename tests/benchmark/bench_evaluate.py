"""How long evaluating takes as a user meets it: whole commands in new processes, and a sweep that stores nothing.

Run: python tests/benchmark/bench_evaluate.py. Prints one JSON line a figure. Seconds are processor time of all
threads: on a busy machine the wall clock, which stands beside, says more about the others. Two of the commands part by part: bench_raw.py."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import yaml
from evaluated_blocks import evaluate_all
from figures import say

from evaluator.graph.operators import OperatorSet
from evaluator.inputs.devices.device_profiles import WantedFamily, load_device
from evaluator.inputs.formats import Precision, check_precision
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.lengths import load_distribution, mean_input_length
from evaluator.inputs.workloads.workload import Workload
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.request import NamedModel, SweepRequest
from evaluator.serving.sources import mixed_lengths
from store.schema import PHASES

ROOT = Path(__file__).parents[2]
MIB_OF_KIB = 1024
QWEN = "Qwen/Qwen3-32B --num-devices 8 --input-length 3500 --output-length 1500 --compile"
DEEPSEEK = (
    "deepseek-ai/DeepSeek-V3.1 --device h200_sxm --prefill-devices-per-instance 16 --decode-devices-per-instance 16"
    " --input-length 3500 --output-length 1500 --compile"
)
MILLION = """
models: [Qwen/Qwen3-32B, Qwen/Qwen3-8B, meta-llama/Llama-3.1-8B]
devices: [TEST_DEVICE, h100_sxm, h200_sxm]
family: theoretical
num_devices: 8
workloads:
  - {input_length: 256, output_length: 128}
  - {input_length: 512, output_length: 128}
  - {input_length: 512, output_length: 256}
"""

# 35 bins of 500 tokens, the shorter the likelier: three chunks of the default budget at most.
BINS = [{"min_tokens": 500 * i, "max_tokens": 500 * (i + 1), "weight": 1 / (i + 1)} for i in range(35)]
OUTPUT_LENGTH = 1500
COSTS_AT_MOST = 3.0  # times a fixed length's, per probe


def command(name: str, arguments: str, store: Path, **aim: str) -> float:
    """Time one evaluate command in a new process; returns processor seconds a probe."""
    line = [sys.executable, "-m", "cli.main", "evaluate", *arguments.split(), "--store", f"sqlite:///{store}"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = subprocess.run([*line, "--format", "json"], cwd=ROOT, check=True, capture_output=True).stdout
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stored = sum(sweep["probes_stored"] for sweep in json.loads(printed))
    largest = after.ru_maxrss // MIB_OF_KIB  # of all processes so far
    say(name, cpu, "s CPU", **aim, wall_s=round(seconds, 2), probes=stored, largest_process_mib=largest)
    return cpu / max(stored, 1)


def commands() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        qwen, million = folder / "qwen.sqlite", folder / "million.yaml"
        command("evaluate Qwen3-32B, empty store", f"{QWEN} --device TEST_DEVICE", qwen, aim="<= 4")
        command("evaluate Qwen3-32B, known operators", f"{QWEN} --device ATLAS_800_A2_376T_64G", qwen, aim="<= 1.2")
        command("evaluate Qwen3-32B again", f"{QWEN} --device TEST_DEVICE", qwen, aim="<= 1.2")
        command("evaluate DeepSeek-V3.1, 16 + 16 devices", DEEPSEEK, folder / "deepseek.sqlite", aim="<= 15")
        million.write_text(MILLION)
        command("sweep file of a million probes, stored", f"--sweep {million}", folder / "million.sqlite", aim="<= 10")


def unstored(family: WantedFamily, device: str) -> None:
    """Probes a second of some two hundred scenarios, operators unknown at first, nothing stored."""
    request = SweepRequest(
        models=tuple(
            NamedModel(name=name, spec=load_model(name)[1]) for name in ("Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B")
        ),
        devices=(load_device(device, family=family),),
        workloads=tuple(workload_of(input_length=size, output_length=200) for size in (500, 1000)),
        precisions=(check_precision(Precision(linear="W8A8_DYNAMIC" if family == "theoretical" else "FP8")),),
        num_devices=8,
    )
    operators = {}
    for known in ("unknown", "known"):
        started, cpu = time.perf_counter(), time.process_time()
        sizes = [block.batch_size.size for block in evaluate_all(request, operators)]
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        name = f"sweep not stored, {family} device, operators {known}"
        say(
            name,
            sum(sizes) / cpu,
            "probes/CPU-s",
            aim=">= 500000",
            wall_s=round(seconds, 2),
            scenarios=len(sizes),
            probes=sum(sizes),
        )


def distributions() -> None:
    """A length distribution of 35 bins against its mean length, in one run: all plans of 16 devices, batches to 512."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        file = folder / "35-bins.yaml"
        file.write_text(yaml.safe_dump({"bins": BINS}))
        bins = load_distribution(file, output_length=OUTPUT_LENGTH)
        mean = round(mean_input_length(bins))
        pure(
            workload_of(input_length=mean, output_length=OUTPUT_LENGTH),
            workload_of(input_length=None, output_length=OUTPUT_LENGTH, bins=bins),
        )
        spent: dict[str, list[float]] = {}
        lengths = {"fixed length": str(mean), "35 length bins": str(file)}
        for run, (name, length) in enumerate([*lengths.items()] * 2):  # the first finds files not in memory yet
            arguments = (
                f"Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 16 --batch-range 512 --compile"
                f" --input-length {length} --output-length {OUTPUT_LENGTH}"
            )
            cost = command(f"evaluate command, {name}", arguments, folder / f"{run}.sqlite")
            spent.setdefault(name, []).append(cost)
        say(
            "35 length bins against a fixed length, whole command",
            min(spent["35 length bins"]) / min(spent["fixed length"]),
            "x a probe",
            aim=f"<= {COSTS_AT_MOST}",
        )


def pure(fixed: Workload, mixed: Workload) -> None:
    """Processor time a probe of both workloads by phase, nothing stored and operators known; the best of five."""
    operators: dict[str, OperatorSet] = {}
    best: dict[tuple[str, str], float] = {}
    probes: dict[tuple[str, str], int] = {}
    for _ in range(6):  # the first captures the operators
        mixed_lengths.cache_clear()  # as in a new process: nothing is composed yet
        for phase in PHASES:
            for name, workload in (("fixed", fixed), ("mixed", mixed)):
                request = SweepRequest(
                    models=(NamedModel(name="Qwen/Qwen3-32B", spec=load_model("Qwen/Qwen3-32B")[1]),),
                    devices=(load_device("TEST_DEVICE", family="theoretical"),),
                    workloads=(workload,),
                    precisions=(check_precision(Precision(linear="W8A8_DYNAMIC")),),
                    num_devices=16,
                    phases=(phase,),
                    batch_range=(1, 512),
                )
                started = time.process_time()
                probes[phase, name] = sum(block.batch_size.size for block in evaluate_all(request, operators))
                spent = 1e6 * (time.process_time() - started)
                best[phase, name] = min(best.get((phase, name), spent), spent)
    cost = {key: microseconds / probes[key] for key, microseconds in best.items()}
    for name in ("fixed", "mixed"):
        cost["all phases", name] = sum(best[phase, name] for phase in PHASES) / sum(
            probes[phase, name] for phase in PHASES
        )
    for phase in (*PHASES, "all phases"):
        say(
            f"35 length bins against a fixed length, pure call, {phase}",
            cost[phase, "mixed"] / cost[phase, "fixed"],
            "x a probe",
            aim=f"<= {COSTS_AT_MOST}",
            fixed_us=round(cost[phase, "fixed"], 2),
            mixed_us=round(cost[phase, "mixed"], 2),
        )


if __name__ == "__main__":
    commands()
    unstored("theoretical", "TEST_DEVICE")
    unstored("calibrated", "h200_sxm")
    distributions()
