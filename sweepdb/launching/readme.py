"""README.md of a launch folder: what runs where, starting, measuring, the row's flags."""

from __future__ import annotations

from collections.abc import Mapping

from store.texts import escaped
from sweepdb.launching.benchmark_script import BENCH, LADDER, filled_file
from sweepdb.launching.expectations import DEPLOYMENT, EXPECTED
from sweepdb.launching.manifests import graph_name
from sweepdb.launching.server_command import ENGINE_NAMES, PRODUCTION, ServerCommand
from sweepdb.launching.several_servers import START

_LADDER = f"""
   {LADDER} does so for each number of users that a decision wants."""
_TO_SERVE = """\
To serve with, start the scripts whose names begin with production- (or PRODUCTION=1 ./start.sh). They keep
plan, formats and token budget, and take the engine's own number of requests, its usual share of memory up to 0.9, the
longest request of the workload, and a prefix cache: a line each says what the row needs instead."""
_TO_SERVE_ELSEWHERE = """\
To serve, drop or raise these limits: `sweepdb launch` for the target shell writes scripts without them."""


def readme(commands: list[ServerCommand], target: str, files: Mapping[str, str]) -> str:
    first = commands[0]
    names = dict.fromkeys(one.instance.scenario.device.name for one in commands)
    rows = "\n".join(
        f"| {one.role} | {one.instances} | {one.instance.scenario.device.name} | {one.devices} | {one.instance.probe} |"
        for one in commands
    )
    title = (
        f"{escaped(first.instance.model_name)} on {' and '.join(names)}, {ENGINE_NAMES[first.engine]} {first.version}"
    )
    return filled_file(
        "readme.txt",
        title=title,
        rows=rows,
        started=_started(target, commands, files),
        bench=BENCH,
        ladder=_LADDER if LADDER in files else "",
        expected=EXPECTED,
        deployment=DEPLOYMENT,
        serve=_TO_SERVE if target == "shell" else _TO_SERVE_ELSEWHERE,
    )


def _started(target: str, commands: list[ServerCommand], files: Mapping[str, str]) -> str:
    if target == "shell" and START in files:
        elsewhere = ", which says how on several hosts" if commands[0].several else ""
        return f"./{START}{elsewhere}; clients ask port 8000 of host 0"
    if target == "shell":
        mine = (name for name in sorted(files) if name.endswith(".sh") and not name.startswith(PRODUCTION))
        return ", ".join(name for name in mine if name not in {BENCH, LADDER})
    forwarded = f"kubectl port-forward service/{graph_name(commands)}-frontend 8000:8000"
    how = {
        "compose": "docker compose up",
        "k8s": "kubectl apply -f kubernetes.yaml",
        "llm-d": "helm install NAME llm-d-modelservice/llm-d-modelservice -f values.yaml",
        "kserve": "kubectl apply -f llminferenceservice.yaml",
        "dynamo": f"kubectl apply -f dynamo.yaml, where the operator of Dynamo is; reach them by {forwarded}",
    }
    return how[target]
