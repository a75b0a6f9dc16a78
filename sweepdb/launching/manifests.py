"""A deployment as manifests: Docker Compose, Kubernetes, Helm values of llm-d, KServe's LLMInferenceService.

Sources of the forms: compose-spec.io; kubernetes.io/docs/reference (Deployment, Service); the schemas of the
llm-d-modelservice chart 0.4.12 and of KServe v1alpha2, which tests validate against. Not here: Dynamo's
(dynamo_target)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import yaml

from store.errors import InputError
from sweepdb.launching.dynamo_target import dynamo_files
from sweepdb.launching.manifest_parts import IN_THE_IMAGE, Files, Manifest, dumped, short_name
from sweepdb.launching.server_command import PORTS, ServerCommand
from sweepdb.launching.shell_target import quoted
from sweepdb.launching.trtllm_config import CONFIG_FILE

_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Huawei": "huawei.com/Ascend910"}
_NIXL_PORT = 5600


def manifests(target: str, commands: list[ServerCommand]) -> Files:
    """The files of a target by name; none for plain scripts."""
    return _TARGETS[target](commands)


def _one_host(commands: list[ServerCommand], target: str) -> None:
    for one in commands:
        if one.instance.nodes > 1:
            raise InputError(
                f"{one.instance.probe} spans {one.instance.nodes} hosts, which {target} files here do not start",
                hint="`target=shell` writes scripts for hosts; dynamo, kserve and llm-d start replicas over them",
            )


def _only_vllm(commands: list[ServerCommand], target: str) -> None:
    if commands[0].engine != "vllm":
        raise InputError(f"{target} serves with vLLM", hint="`engine=vllm`, or `target=k8s`")


def _words(command: ServerCommand) -> list[str]:
    words = list(command.program)
    for name, value in command.words():
        if command.config is not None and value is not None and value.endswith(CONFIG_FILE):
            value = f"{IN_THE_IMAGE}/{value}"  # noqa: PLW2901  where the container has it
        words += [name] if value is None else [name, value]
    return words


def _resource(command: ServerCommand) -> str:
    vendor = command.instance.scenario.device.vendor
    if vendor not in _RESOURCES:
        raise InputError(f"no name of {vendor} devices in Kubernetes is known", hint="`target=shell`")
    return _RESOURCES[vendor]


def _compose(commands: list[ServerCommand]) -> Files:
    _one_host(commands, "Compose")
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
                "ports": [f"{PORTS[one.role] + number}:{PORTS[one.role]}"],
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


def _kubernetes(commands: list[ServerCommand]) -> Files:
    _one_host(commands, "Kubernetes")
    return {"kubernetes.yaml": dumped(*(each for one in commands for each in _deployment_and_service(one)))}


def _deployment_and_service(one: ServerCommand) -> list[Manifest]:
    name = f"{short_name(one)}-{one.role}"
    labels = {"app.kubernetes.io/name": short_name(one), "app.kubernetes.io/component": one.role}
    container: dict[str, object] = {
        "name": one.role,
        "image": one.image,
        "command": _words(one),
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}}}
        ],
        "ports": [{"containerPort": PORTS[one.role], "name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10},
        "resources": {"limits": {_resource(one): str(one.instance.devices)}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108  shared memory of the container
    }
    volumes: list[object] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    documents: list[Manifest] = []
    if one.config is not None:
        files = {f"{one.role}-{CONFIG_FILE}": yaml.safe_dump(dict(one.config), sort_keys=False)}
        documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files})
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


def _local_replicas(one: ServerCommand) -> int:
    plan, instance = one.instance.plan, one.instance
    return plan.dp if instance.nodes == 1 else instance.devices_a_node // plan.replica_devices


_BY_CHART = (
    "--port", "--tensor-parallel-size", "--data-parallel-size", "--data-parallel-size-local",
    "--data-parallel-start-rank", "--data-parallel-address", "--data-parallel-rpc-port", "--headless",
)  # fmt: skip


def _replicas_over_hosts(commands: list[ServerCommand], target: str) -> None:
    for one in commands:
        if one.instance.nodes > 1 and _local_replicas(one) < 1:
            raise InputError(
                f"{one.instance.probe} splits a replica over {one.instance.nodes} hosts, which {target} does not start",
                hint="`target=shell` writes a script for each host",
            )


def _llm_d(commands: list[ServerCommand]) -> Files:
    _only_vllm(commands, "llm-d")
    _replicas_over_hosts(commands, "llm-d")
    model = commands[0].instance.model_name
    values: dict[str, object] = {
        "multinode": any(one.instance.nodes > 1 for one in commands),
        "modelArtifacts": {"name": model, "uri": f"hf://{model}", "authSecretName": "hf-token"},
        "routing": {"servicePort": PORTS["server"]},
        "decode": _of_llm_d(commands[-1]),
        "prefill": _of_llm_d(commands[0]) if len(commands) > 1 else {"create": False},
    }
    return {"values.yaml": dumped(values)}


def _of_llm_d(one: ServerCommand) -> Manifest:
    args = [
        word
        for name, value in one.settings.items()
        if name not in _BY_CHART
        for word in ([name] if value is None else [name, value])
    ]
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


def _kserve(commands: list[ServerCommand]) -> Files:
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


def _of_kserve(one: ServerCommand) -> dict[str, object]:
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


_TARGETS: Mapping[str, Callable[[list[ServerCommand]], Files]] = {
    "shell": lambda _: {},
    "compose": _compose,
    "k8s": _kubernetes,
    "llm-d": _llm_d,
    "kserve": _kserve,
    "dynamo": dynamo_files,
}
