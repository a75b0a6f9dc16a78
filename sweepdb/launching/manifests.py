"""Docker Compose, Kubernetes, Helm values of llm-d, KServe and NVIDIA Dynamo.

Sources: compose-spec.io; kubernetes.io/docs/reference (Deployment, Service); schemas of the llm-d-modelservice chart
0.4.12 and of KServe v1alpha2, which tests validate against; docs.nvidia.com/dynamo, Kubernetes API
(nvidia.com/v1beta1), multinode deployments, compatibility by version. Dynamo has a frontend and a component a role;
its operator adds what differs by host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

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


def short_name(command: server_command.ServerCommand, longest: int = 40) -> str:
    model = command.instance.model_name.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:longest].strip("-")


RELEASE = "1.5.1"
# Engines of the release: what its runtimes hold, and under which module they start.
BROUGHT: Mapping[server_command.Engine, str] = {"vllm": "0.28.0", "sglang": "0.5.18", "trtllm": "1.3.0rc25"}
_RUNTIMES: Mapping[server_command.Engine, str] = {"trtllm": "tensorrtllm"}  # where not called as the engine
_TYPES: Mapping[server_command.Role, str] = {"server": "worker", "prefill": "prefill", "decode": "decode"}
_SECRET = "hf-token-secret"  # noqa: S105  the name of a secret
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
    frontend = _component("Frontend", "frontend", 1, {"name": "main", "image": image, **_token()})
    graph: Manifest = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {
            "backendFramework": commands[0].engine,
            "components": [frontend, *(_worker(one, image, name) for one in commands)],
        },
    }
    settings = [_config_map(f"{name}-{one.role}", one) for one in commands if one.config is not None]
    return {"dynamo.yaml": dumped(*settings, graph)}


def _worker(command: server_command.ServerCommand, image: str, graph: str) -> Manifest:
    instance = command.instance
    container: dict[str, object] = {
        "name": "main",
        "image": image,
        **_token(),
        "command": ["python3", "-m", f"dynamo.{command.engine}"],
        "args": _args(command),
        "resources": {"limits": {"nvidia.com/gpu": str(instance.devices // instance.nodes)}},
    }
    volumes: list[object] = []
    if command.config is not None:
        container["volumeMounts"] = [{"name": "settings", "mountPath": IN_THE_IMAGE}]
        volumes = [{"name": "settings", "configMap": {"name": f"{graph}-{command.role}"}}]
    made = _component(command.role, _TYPES[command.role], command.instances, container, volumes)
    return {**made, "multinode": {"nodeCount": instance.nodes}} if instance.nodes > 1 else made


def _component(
    name: str, kind: str, replicas: int, container: Mapping[str, object], volumes: list[object] | None = None
) -> dict[str, object]:
    pod: dict[str, object] = {"containers": [container]}
    if volumes:
        pod["volumes"] = volumes
    return {"name": name, "type": kind, "replicas": replicas, "podTemplate": {"spec": pod}}


def _token() -> Manifest:
    return {"envFrom": [{"secretRef": {"name": _SECRET, "optional": True}}]}


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
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": command.config_files()}


_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Huawei": "huawei.com/Ascend910"}
_NIXL_PORT = 5600


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
            services[f"{one.role}-{number}"] = {
                "image": one.image,
                "entrypoint": _words(one),
                "ipc": "host",
                "ports": [f"{server_command.PORTS[one.role] + one.several + number}:{server_command.PORTS[one.role]}"],
                "environment": ["HF_TOKEN"],
                "volumes": ["${HF_HOME:-~/.cache/huggingface}:/root/.cache/huggingface", f".:{IN_THE_IMAGE}:ro"],
                "deploy": {
                    "resources": {
                        "reservations": {
                            "devices": [
                                {
                                    "driver": "nvidia",
                                    "device_ids": [str(index) for index in held],
                                    "capabilities": ["gpu"],
                                }
                            ]
                        }
                    }
                },
            }
    return {"compose.yaml": dumped({"services": services})}


def _kubernetes(commands: list[server_command.ServerCommand]) -> server_command.Files:
    _one_host(commands, "Kubernetes")
    return {"kubernetes.yaml": dumped(*(each for one in commands for each in _deployment_and_service(one)))}


def _deployment_and_service(one: server_command.ServerCommand) -> list[Manifest]:
    name = f"{short_name(one)}-{one.role}"
    labels = {"app.kubernetes.io/name": short_name(one), "app.kubernetes.io/component": one.role}
    container: dict[str, object] = {
        "name": one.role,
        "image": one.image,
        "command": _words(one),
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}}
        ],
        "ports": [{"containerPort": server_command.PORTS[one.role], "name": "http"}],
        "readinessProbe": {"httpGet": {"path": server_command.HEALTH, "port": "http"}, "periodSeconds": 10},
        "resources": {"limits": {_resource(one): str(one.instance.devices)}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108  shared memory of the container
    }
    volumes: list[object] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    documents: list[Manifest] = []
    if one.config is not None:
        documents.append(_config_map(name, one))
        volumes.append({"name": "settings", "configMap": {"name": name}})
        mounts = container["volumeMounts"]
        assert isinstance(mounts, list)
        mounts.append({"name": "settings", "mountPath": IN_THE_IMAGE})
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    documents += [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": one.instances, "selector": {"matchLabels": labels}, "template": pod},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": labels},
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        },
    ]
    return documents


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
    values: dict[str, object] = {
        "multinode": any(one.instance.nodes > 1 for one in commands),
        "modelArtifacts": {"name": model, "uri": f"hf://{model}", "authSecretName": "hf-token"},
        "routing": {"servicePort": server_command.PORTS["server"]},
        "decode": _of_llm_d(commands[-1]),
        "prefill": _of_llm_d(commands[0]) if len(commands) > 1 else {"create": False},
    }
    return {"values.yaml": dumped(values)}


def _of_llm_d(one: server_command.ServerCommand) -> Manifest:
    args = server_command.one_by_one((name, value) for name, value in one.settings.items() if name not in _BY_CHART)
    local = _local_replicas(one)
    devices = {_resource(one): str(one.instance.plan.replica_devices * local)}
    host = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return {
        "create": True,
        "replicas": one.instances,
        "parallelism": {"tensor": one.instance.plan.tp, "data": one.instance.plan.dp, "dataLocal": local},
        "containers": [
            {
                "name": "vllm",
                "image": one.image,
                "modelCommand": "vllmServe",
                "args": args,
                "env": [host, {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(_NIXL_PORT)}],
                "ports": [{"containerPort": _NIXL_PORT, "protocol": "TCP"}],
                "resources": {"limits": devices, "requests": devices},
                "mountModelVolume": True,
            }
        ],
    }


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
    document = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": short_name(commands[0])},
        "spec": spec,
    }
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
    template = {
        "containers": [
            {
                "name": "main",
                "image": one.image,
                "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": " ".join(words)}],
                "resources": {"limits": devices, "requests": devices},
            }
        ]
    }
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
