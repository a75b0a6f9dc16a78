"""The script that measures what a stored row predicts, and brings the result back into the store.

Not here: starting servers (shell_target)."""

from __future__ import annotations

import shlex

from sweepdb.launching.server_command import ENGINE_NAMES, ServerCommand

_PROMPTS_A_USER = 10  # as clients of the published points ask


def requests_in_flight(commands: list[ServerCommand]) -> int:
    """Users at once: of one row all its instances; of a pair what its decode rows hold."""
    last = commands[-1]
    return last.instance.concurrency * last.instances


def benchmark_script(commands: list[ServerCommand]) -> str:
    """bench.sh: the row's lengths and requests in flight against a running deployment."""
    instance = commands[-1].instance
    users = requests_in_flight(commands)
    workload, client = instance.workload, instance.values["shortest_length"]
    shortest = float(client) if isinstance(client, int | float) else 1.0
    mean = (1.0 + shortest) / 2.0  # of lengths between the shortest and the nominal
    prompt = mean * float(str(instance.values["input_length_mean"]))
    flags = {
        "--backend": "openai",
        "--model": instance.model_name,
        "--dataset-name": "random",
        "--random-input-len": f"{prompt:.0f}",
        "--random-output-len": f"{mean * workload.output_length:.0f}",
        "--random-range-ratio": f"{(1.0 - shortest) / (1.0 + shortest):.4g}",
        "--num-prompts": str(users * _PROMPTS_A_USER),
        "--max-concurrency": str(users),
        "--percentile-metrics": "ttft,tpot,itl,e2el",
        "--metric-percentiles": "50,90,99",
    }
    words = " \\\n  ".join(f"{name} {shlex.quote(value)}" for name, value in flags.items())
    bins = "# The row is of a length distribution: this asks its mean lengths alone.\n" if workload.bins else ""
    return f"""#!/usr/bin/env bash
# Measures {ENGINE_NAMES[commands[0].engine]} as {" and ".join(one.instance.probe for one in commands)} predicts it.
{bins}set -euo pipefail
BASE_URL="${{BASE_URL:-http://127.0.0.1:8000}}"
RESULTS="${{RESULTS:-$(dirname "$0")/results}}"
mkdir -p "$RESULTS"
vllm bench serve --base-url "$BASE_URL" \\
  {words} \\
  --ignore-eos --save-result --save-detailed --result-dir "$RESULTS" --result-filename measured.json
{_back(commands)}
"""


def _back(commands: list[ServerCommand]) -> str:
    """The commands that store the result and hold the prediction against it, with what the result does not say."""
    stated = {"device": commands[0].instance.scenario.device.name, "engine": commands[0].engine,
              "engine_version": commands[0].version, "model": commands[0].instance.model_name,
              "precision": commands[0].instance.precision.linear.lower()}  # fmt: skip
    if len(commands) == 1:
        plan = commands[0].instance.plan
        stated |= {"mode": "aggregated", "num_devices": str(commands[0].instance.devices * commands[0].instances)}
        sizes = {"tp": plan.tp, "pp": plan.pp, "dp": plan.dp, "ep": plan.ep, "moe_tp": plan.moe_tp}
        stated |= {name: str(size) for name, size in sizes.items()}
    else:
        stated["mode"] = "disaggregated"
        for one in commands:
            plan = one.instance.plan
            sides = {"instances": one.instances, "tp": plan.tp, "pp": plan.pp, "dp": plan.dp, "ep": plan.ep,
                     "moe_tp": plan.moe_tp}  # fmt: skip
            stated |= {f"{one.role}_{name}": str(size) for name, size in sides.items()}
    sets = " ".join(f"--set {shlex.quote(f'{name}={value}')}" for name, value in stated.items())
    return f"""echo "next: sweepdb measurements import $RESULTS/measured.json {sets}"
echo "      sweepdb validate"
"""
