"""Files that start a stored row, measure it, and say what was predicted.

The same row and versions give the same bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from queries.asking import Answer, question_of
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.texts import escaped
from store.whole_files import write_folder
from sweepdb.launching import shell_target
from sweepdb.launching.benchmark_script import (
    BENCH,
    LADDER,
    benchmark_script,
    filled_file,
    ladder_script,
    seats_taken,
    stated_circumstances,
)
from sweepdb.launching.expectations import DEPLOYMENT, EXPECTED, MEASURED_AS, WholeDeployment, whole_deployment
from sweepdb.launching.flags_of_rows import command_of, production
from sweepdb.launching.manifests import dynamo_version, graph_name, manifests
from sweepdb.launching.server_command import ENGINE_NAMES, ENGINES, PRODUCTION, TARGETS, Files, Role, ServerCommand
from sweepdb.launching.stored_instance import StoredInstance, read_instance
from sweepdb.sessions import open_session

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
    if target == "shell" and shell_target.START in files:
        elsewhere = ", which says how on several hosts" if commands[0].several else ""
        return f"./{shell_target.START}{elsewhere}; clients ask port 8000 of host 0"
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


_COUNTS = re.compile(r"(\d+)p(\d+)d", re.IGNORECASE)
_SEVERAL = re.compile(r"(\d+)x", re.IGNORECASE)
_ROUTED = ("llm-d", "kserve", "dynamo")  # targets that bring a router of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files, and what to know before starting."""

    folder: Path
    files: tuple[str, ...]
    not_set: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRows:
    """One row, or a prefill and a decode row with instances."""

    probes: tuple[str, ...]
    counts: tuple[int, ...]


def write_launch(
    rows: str | Sequence[str],
    output: Path,
    *,
    engine: str | None = None,
    engine_version: str | None = None,
    target: str = "shell",
    force: bool = False,
    store: str | None = None,
    draft_model: str | None = None,
    ladder: Sequence[int] = (),
) -> Written:
    """A row, or a prefill and a decode row with instances (4P1D). Stores nothing.

    A `ladder` gets a script of its own."""
    files, not_set = launch_files(
        rows, engine=engine, engine_version=engine_version, target=target, store=store, draft_model=draft_model,
        ladder=ladder,
    )  # fmt: skip
    write_folder(output, {name: text.encode() for name, text in files.items()}, force=force)
    return Written(folder=output, files=tuple(sorted(files)), not_set=not_set)


def launch_files(
    rows: str | Sequence[str],
    *,
    engine: str | None = None,
    engine_version: str | None = None,
    target: str = "shell",
    store: str | None = None,
    draft_model: str | None = None,
    ladder: Sequence[int] = (),
) -> tuple[Files, tuple[str, ...]]:
    """By name, with what no flag says."""
    asked = read_rows(rows)
    if target not in TARGETS:
        raise InputError(f"`target={target}` is not one of {', '.join(TARGETS)}")
    location = parse_url(store)
    instances = [read_instance(location, probe, draft_model) for probe in asked.probes]
    commands = _commands(asked, instances, engine, engine_version, target)
    if target != "shell" and any(one.instance.plan.encoder_devices for one in commands):
        raise InputError("encoders on devices of their own are written as shell scripts", hint="`target=shell`")
    whole = whole_deployment(commands, location)
    files = _started_files(commands, target)
    not_set = _not_set(commands, routed=shell_target.SCRIPT in files or target in _ROUTED)
    files[BENCH] = benchmark_script(commands, seats_taken(commands) if whole is None else whole.users)
    if ladder:
        files[LADDER] = ladder_script(ladder)
    files["not_set.txt"] = "".join(f"{line}\n" for line in not_set)
    files["README.md"] = readme(commands, target, files)
    files[EXPECTED] = _expected(commands, whole, location, files)
    return files, not_set


def _started_files(commands: list[ServerCommand], target: str) -> Files:
    files = {**shell_target.scripts(commands), **shell_target.encoder_scripts(commands)}
    served = [production(one) for one in commands] if target == "shell" else []
    files |= shell_target.scripts(served)
    for one in (*commands, *served):
        files |= one.config_files()
    files |= manifests(target, commands)
    first = commands[0]
    if target not in _ROUTED and not (target == "k8s" and first.several):  # its Service stands before the servers
        files |= shell_target.router_files(commands)
    if target == "shell" and first.several and shell_target.scripts_of(first) == first.instance.nodes:
        files |= shell_target.start_files(first, tuple(shell_target.scripts([first])))
    if target == "shell" and shell_target.on_a_host(commands) and shell_target.SCRIPT in files:
        files |= shell_target.pair_start(commands)
    return files


def read_rows(rows: str | Sequence[str]) -> AskedRows:
    """PROBE, `2x PROBE`, `PROBE 2`, or PREFILL DECODE with instances.

    Colons join them, too."""
    words = [rows] if isinstance(rows, str) else list(rows)
    typed = " ".join(words).split()
    if typed and (several := _SEVERAL.match(typed[0])) is not None:  # 2x PROBE, or 2xPROBE
        typed = [*filter(None, [typed[0][several.end() :]]), *typed[1:], several[1]]
    parts = [part for word in typed for part in word.split(":")]
    sides = _COUNTS.fullmatch(parts[-1]) if len(parts) in {3, 5} else None
    times = [parts[-1]] if len(parts) == 3 and parts[-1].isdecimal() else []
    counts = [sides[1], sides[2]] if sides is not None else times
    parts = parts[:-1] if counts else parts
    probes = tuple(f"{key}:{batch}" for key, batch in zip(parts[::2], parts[1::2], strict=False))
    if len(parts) not in {2, 4} or (counts and len(probes) != len(counts)):
        raise InputError(
            f"{' '.join(words)!r} is no row and no pair of rows",
            hint="launch a1b2c3d4:19, two servers of it (2x a1b2c3d4:19), or a prefill and a decode row with their"
            " instances: a1b2c3d4:1 e5f6a7b8:18 4P1D",
        )
    numbers = tuple(map(int, counts)) or (1,) * len(probes)
    if 0 in numbers:
        raise InputError("a side needs an instance at least")
    return AskedRows(probes=probes, counts=numbers)


def _commands(
    asked: AskedRows,
    instances: Sequence[StoredInstance],
    engine: str | None,
    engine_version: str | None,
    target: str,
) -> list[ServerCommand]:
    roles = _roles(instances)
    chosen = engine or next((one.engine for one in instances if one.engine is not None), None)
    if chosen is None:
        raise InputError(
            f"{asked.probes[0]} was evaluated with formulas, not as an engine serves",
            hint=f"`engine={' or '.join(ENGINES)}` names one",
        )
    if chosen not in ENGINES:
        raise InputError(f"`engine={chosen}` is not one of {', '.join(ENGINES)}")
    version = dynamo_version(chosen, engine_version) if target == "dynamo" else engine_version
    sides = zip(instances, roles, asked.counts, strict=True)
    return [command_of(chosen, one, role, count, version) for one, role, count in sides]


def _roles(instances: Sequence[StoredInstance]) -> tuple[Role, ...]:
    phases = tuple(one.scenario.phase for one in instances)
    if phases == ("aggregated",):
        return ("server",)
    if phases != ("prefill", "decode"):
        said = " and ".join(f"{one.probe} is a {one.scenario.phase} row" for one in instances)
        raise InputError(
            f"{said}", hint="launch takes an aggregated row, or a prefill row and a decode row in this order"
        )
    models = {one.model_name for one in instances}
    if len(models) > 1:
        raise InputError(f"the two rows are of different models: {' and '.join(sorted(models))}")
    return "prefill", "decode"


def _not_set(commands: list[ServerCommand], *, routed: bool) -> tuple[str, ...]:
    said = [line for one in commands for line in one.not_set]
    if not routed and sum(one.instances for one in commands) > 1:
        said.append("a router in front of the instances: bring your own, no file of it is written")
    for one in commands:
        if one.engine != one.instance.engine:
            evaluated = one.instance.scenario.serving_model
            said.append(f"{one.instance.probe} was evaluated under {evaluated}, not {ENGINE_NAMES[one.engine]}")
    return tuple(dict.fromkeys(said))


def _expected(
    commands: list[ServerCommand], whole: WholeDeployment | None, location: StoreLocation, files: Mapping[str, str]
) -> str:
    roles = {}
    for one in commands:
        instance = one.instance
        roles[one.role] = {
            "probe": instance.probe,
            "scenario": instance.values["scenario"],
            "instances": one.instances,
            "model": instance.model_name,
            "device": instance.scenario.device.name,
            "plan": instance.values["plan"],
            "batch_size": instance.batch_size,
            "workload": instance.values["workload"],
            "input_length": instance.workload.input_length,
            "output_length": instance.workload.output_length,
            "prefix_cache_hit_rate": instance.workload.prefix_cache_hit_rate,
            **_outside(instance),
            "formula_version": instance.formula_version,
            "predicted": instance.predicted,
        }
    document = {
        "engine": commands[0].engine,
        "engine_version": commands[0].version,
        DEPLOYMENT: None if whole is None else asdict(whole),
        MEASURED_AS: stated_circumstances(commands),
        "roles": roles,
        "expected_error": _expected_error(commands, location),
        "sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _outside(instance: StoredInstance) -> dict[str, dict[str, float]]:
    """As keywords of `evaluate`."""
    found: dict[str, float] = {}
    for tier in instance.workload.tiers:
        found[f"{tier.name}_hit_rate"] = tier.hit_rate
        if tier.bytes_per_s:
            found[f"{tier.name}_gb_per_s"] = 1e-9 * tier.bytes_per_s
    return {"hit_rates": found} if found else {}


def _expected_error(commands: list[ServerCommand], location: StoreLocation) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    with open_session(location.url) as session:
        for one in commands:
            phase = one.instance.scenario.phase
            scope = {
                "instance_devices": one.instance.devices,
                "model": one.instance.values["model"],
                "device": one.instance.scenario.device.name,
                "workload": one.instance.values["workload"],
            }
            answer: Answer = session.ask(question_of("curve", {**scope, "mode": phase, "all": True}))
            found += [
                {
                    "metric": error.metric,
                    "median_percent": error.median_ape_percent,
                    "subject": error.subject,
                    "servers": error.servers,
                }
                for error in answer.expected_error
            ]
    return [dict(items) for items in dict.fromkeys(tuple(sorted(one.items(), key=str)) for one in found)]
