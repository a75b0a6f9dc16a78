"""Docker Compose, Kubernetes, Helm values of llm-d, KServe and NVIDIA Dynamo.

Sources: compose-spec.io; kubernetes.io/docs/reference (Deployment, Service); schemas of the llm-d-modelservice chart
0.4.12 and of KServe v1alpha2, which tests validate against; docs.nvidia.com/dynamo, Kubernetes API
(nvidia.com/v1beta1), multinode deployments, compatibility by version. Dynamo has a frontend and a component a role;
its operator adds what differs by host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from store.errors import InputError
from sweepdb.launching import server_command
from sweepdb.launching.shell_target import quoted

IN_THE_IMAGE = "/deployment"
Manifest = Mapping[str, object]


class _Plain(yaml.SafeDumper):
    """YAML without references."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  the interface of the dumper
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _text)


def dumped(*documents: Manifest) -> str:
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, default_flow_style=False, width=120)


@cache
def _shapes() -> Manifest:
    found: Manifest = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return found


def shaped(shape: str, /, **values: object) -> dict[str, object]:
    """A document of manifests.yaml, filled."""

    def filled(part: Any) -> Any:  # noqa: ANN401  whatever YAML holds
        if isinstance(part, str) and part[:1] + part[-1:] == "<>":
            return values.get(part[1:-1])
        if isinstance(part, dict):
            return {filled(key): value for key, said in part.items() if (value := filled(said)) is not None}
        return [one for one in map(filled, part) if one is not None] if isinstance(part, list) else part

    document: dict[str, object] = filled(_shapes()[shape])
    return document


def short_name(command: server_command.ServerCommand, longest: int = 40) -> str:
    model = command.instance.model_name.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:longest].strip("-")


RELEASE = "1.5.1"
# Engines of the release: what its runtimes hold, and under which module they start.
BROUGHT: Mapping[server_command.Engine, str] = {"vllm": "0.28.0", "sglang": "0.5.18", "trtllm": "1.3.0rc25"}
_RUNTIMES: Mapping[server_command.Engine, str] = {"trtllm": "tensorrtllm"}  # where not called as the engine
_TYPES: Mapping[server_command.Role, str] = {"server": "worker", "prefill": "prefill", "decode": "decode"}
_BOOTSTRAP_PORT = "30001"
_LONGEST_NAME = 24  # the operator joins names of graph, component and role into one of 45 at most


def dynamo_version(engine: server_command.Engine, version: str | None) -> str:
    if engine not in BROUGHT:
        raise InputError(
            f"Dynamo {RELEASE} does not bring {server_command.ENGINE_NAMES[engine]}", hint="`target=shell`"
        )
    if version not in {None, BROUGHT[engine]}:
        raise InputError(
            f"Dynamo {RELEASE} brings {server_command.ENGINE_NAMES[engine]} {BROUGHT[engine]}, not {version}",
            hint=f"`engine_version={BROUGHT[engine]}`, or `target=k8s`",
        )
    return BROUGHT[engine]


def graph_name(commands: list[server_command.ServerCommand]) -> str:
    return short_name(commands[0], _LONGEST_NAME)


def dynamo_files(commands: list[server_command.ServerCommand]) -> server_command.Files:
    for one in commands:
        if one.instance.scenario.device.vendor != "NVIDIA":
            raise InputError(
                f"Dynamo's runtimes are for devices of NVIDIA, not {one.instance.scenario.device.name}",
                hint="`target=shell`",
            )
    image = f"nvcr.io/nvidia/ai-dynamo/{_RUNTIMES.get(commands[0].engine, commands[0].engine)}-runtime:{RELEASE}"
    name = graph_name(commands)
    frontend = shaped("dynamo_component", name="Frontend", kind="frontend", replicas=1, image=image)
    components = [frontend, *(_worker(one, image, name) for one in commands)]
    graph = shaped("dynamo", name=name, engine=commands[0].engine, components=components)
    settings = [_config_map(f"{name}-{one.role}", one) for one in commands if one.config is not None]
    return {"dynamo.yaml": dumped(*settings, graph)}


def _worker(command: server_command.ServerCommand, image: str, graph: str) -> Manifest:
    instance, settings = command.instance, {"name": f"{graph}-{command.role}"}
    return shaped(
        "dynamo_component",
        name=command.role,
        kind=_TYPES[command.role],
        replicas=command.instances,
        image=image,
        command=["python3", "-m", f"dynamo.{command.engine}"],
        args=_args(command),
        resources={"limits": {"nvidia.com/gpu": str(instance.devices // instance.nodes)}},
        mounts=None if command.config is None else [{"name": "settings", "mountPath": IN_THE_IMAGE}],
        volumes=None if command.config is None else [{"name": "settings", "configMap": settings}],
        multinode={"nodeCount": instance.nodes} if instance.nodes > 1 else None,
    )


def _args(command: server_command.ServerCommand) -> list[str]:
    """No port of its own, and the role by name."""
    model = command.instance.model_name
    apart = ["--disaggregation-mode", command.role] if command.role != "server" else []
    if command.engine == "trtllm":
        settings = f"{IN_THE_IMAGE}/{command.role}-{server_command.CONFIG_FILE}"
        return ["--model-path", model, "--served-model-name", model, "--extra-engine-args", settings, *apart]
    own = {"--port", "--disaggregation-mode"}
    words = server_command.one_by_one((name, value) for name, value in command.settings.items() if name not in own)
    if command.engine == "vllm":
        return ["--model", model, *words, *apart]
    reached = ["--disaggregation-bootstrap-port", _BOOTSTRAP_PORT, "--host", "0.0.0.0"] if apart else []  # noqa: S104
    return [*words, *apart, *reached]


def _config_map(name: str, command: server_command.ServerCommand) -> Manifest:
    return shaped("settings", name=name, files=command.config_files())


_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Huawei": "huawei.com/Ascend910"}


def manifests(target: str, commands: list[server_command.ServerCommand]) -> server_command.Files:
    return _TARGETS[target](commands)


def _one_host(commands: list[server_command.ServerCommand], target: str) -> None:
    for one in commands:
        if one.instance.nodes > 1:
            raise InputError(
                f"{one.instance.probe} spans {one.instance.nodes} hosts, which {target} files here do not start",
                hint="`target=shell` writes scripts for hosts; dynamo, kserve and llm-d start replicas over them",
            )


def _only_vllm(commands: list[server_command.ServerCommand], target: str) -> None:
    if commands[0].engine != "vllm":
        raise InputError(f"{target} serves with vLLM", hint="`engine=vllm`, or `target=k8s`")


def _words(command: server_command.ServerCommand) -> list[str]:
    words = server_command.one_by_one(command.words())
    held = command.config_files()
    return [*command.program, *(f"{IN_THE_IMAGE}/{word}" if word in held else word for word in words)]


def _resource(command: server_command.ServerCommand) -> str:
    vendor = command.instance.scenario.device.vendor
    if vendor not in _RESOURCES:
        raise InputError(f"no name of {vendor} devices in Kubernetes is known", hint="`target=shell`")
    return _RESOURCES[vendor]


def _compose(commands: list[server_command.ServerCommand]) -> server_command.Files:
    _one_host(commands, "Compose")
    devices, most = sum(one.instances * one.instance.devices for one in commands), commands[0].instance.devices_a_node
    if devices > most:
        raise InputError(
            f"{devices} devices are more than the {most} of a host, and Compose starts one",
            hint="`target=shell` or k8s",
        )
    services: dict[str, object] = {}
    first = 0
    for one in commands:
        for number in range(one.instances):
            held = range(first, first + one.instance.devices)
            first = (first + one.instance.devices) % max(one.instance.devices_a_node, one.instance.devices)
            port = server_command.PORTS[one.role]
            services[f"{one.role}-{number}"] = shaped(
                "compose",
                image=one.image,
                words=_words(one),
                port=f"{port + one.several + number}:{port}",
                settings=f".:{IN_THE_IMAGE}:ro",
                devices=[str(index) for index in held],
            )
    return {"compose.yaml": dumped({"services": services})}


def _kubernetes(commands: list[server_command.ServerCommand]) -> server_command.Files:
    _one_host(commands, "Kubernetes")
    return {"kubernetes.yaml": dumped(*(each for one in commands for each in _deployment_and_service(one)))}


def _deployment_and_service(one: server_command.ServerCommand) -> list[Manifest]:
    name = f"{short_name(one)}-{one.role}"
    labels = {"app.kubernetes.io/name": short_name(one), "app.kubernetes.io/component": one.role}
    told = one.config is not None
    deployment = shaped(
        "deployment",
        name=name,
        labels=labels,
        replicas=one.instances,
        role=one.role,
        image=one.image,
        words=_words(one),
        port=server_command.PORTS[one.role],
        health=server_command.HEALTH,
        resource=_resource(one),
        devices=str(one.instance.devices),
        mount={"name": "settings", "mountPath": IN_THE_IMAGE} if told else None,
        volume={"name": "settings", "configMap": {"name": name}} if told else None,
    )
    return [*([_config_map(name, one)] if told else []), deployment, shaped("service", name=name, labels=labels)]


def _local_replicas(one: server_command.ServerCommand) -> int:
    plan, instance = one.instance.plan, one.instance
    return plan.dp if instance.nodes == 1 else instance.devices_a_node // plan.replica_devices


_BY_CHART = (
    "--port", "--tensor-parallel-size", "--data-parallel-size", "--data-parallel-size-local",
    "--data-parallel-start-rank", "--data-parallel-address", "--data-parallel-rpc-port", "--headless",
)  # fmt: skip


def _replicas_over_hosts(commands: list[server_command.ServerCommand], target: str) -> None:
    for one in commands:
        if one.instance.nodes > 1 and _local_replicas(one) < 1:
            raise InputError(
                f"{one.instance.probe} splits a replica over {one.instance.nodes} hosts, which {target} does not start",
                hint="`target=shell` writes a script for each host",
            )


def _llm_d(commands: list[server_command.ServerCommand]) -> server_command.Files:
    _only_vllm(commands, "llm-d")
    _replicas_over_hosts(commands, "llm-d")
    model = commands[0].instance.model_name
    values = shaped(
        "llm_d",
        multinode=any(one.instance.nodes > 1 for one in commands),
        model=model,
        uri=f"hf://{model}",
        port=server_command.PORTS["server"],
        decode=_of_llm_d(commands[-1]),
        prefill=_of_llm_d(commands[0]) if len(commands) > 1 else {"create": False},
    )
    return {"values.yaml": dumped(values)}


def _of_llm_d(one: server_command.ServerCommand) -> Manifest:
    args = server_command.one_by_one((name, value) for name, value in one.settings.items() if name not in _BY_CHART)
    plan, local = one.instance.plan, _local_replicas(one)
    devices = {_resource(one): str(plan.replica_devices * local)}
    return shaped(
        "llm_d_side",
        replicas=one.instances,
        tp=plan.tp,
        dp=plan.dp,
        local=local,
        image=one.image,
        args=args,
        devices=devices,
    )


def _kserve(commands: list[server_command.ServerCommand]) -> server_command.Files:
    _only_vllm(commands, "KServe")
    _replicas_over_hosts(commands, "KServe")
    model = commands[0].instance.model_name
    spec: dict[str, object] = {
        "model": {"uri": f"hf://{model}", "name": model},
        **_of_kserve(commands[-1]),
        "router": {"scheduler": {}, "route": {}, "gateway": {}},
    }
    if len(commands) > 1:
        spec["prefill"] = _of_kserve(commands[0])
    document = shaped("kserve", name=short_name(commands[0]), spec=spec)
    return {"llminferenceservice.yaml": dumped(document)}


_BY_KSERVE = (*_BY_CHART, "--pipeline-parallel-size", "--enable-expert-parallel")


def _of_kserve(one: server_command.ServerCommand) -> dict[str, object]:
    plan, local = one.instance.plan, _local_replicas(one)
    words = [
        name if value is None else f"{name} {quoted(value)}"
        for name, value in one.settings.items()
        if name not in _BY_KSERVE
    ]
    devices = {_resource(one): str(plan.replica_devices * local)}
    parallelism: dict[str, object] = {"tensor": plan.tp, "pipeline": plan.pp}
    if plan.dp > 1:
        parallelism |= {"data": plan.dp, "dataLocal": local}
    if "--enable-expert-parallel" in one.settings:
        parallelism["expert"] = True
    template = shaped("kserve_pod", image=one.image, words=" ".join(words), devices=devices)
    return {
        "replicas": one.instances,
        "parallelism": parallelism,
        "template": template,
        **({"worker": template} if one.instance.nodes > 1 else {}),
    }


_TARGETS: Mapping[str, Callable[[list[server_command.ServerCommand]], server_command.Files]] = {
    "shell": lambda _: {},
    "compose": _compose,
    "k8s": _kubernetes,
    "llm-d": _llm_d,
    "kserve": _kserve,
    "dynamo": dynamo_files,
}
