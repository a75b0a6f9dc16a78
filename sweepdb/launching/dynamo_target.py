"""A deployment as NVIDIA Dynamo's DynamoGraphDeployment: a frontend, and a component a role.

Sources: docs.nvidia.com/dynamo, Kubernetes API (nvidia.com/v1beta1), multinode deployments, compatibility by version.
Flags are those of the engine that a release brings; the operator adds what differs from host to host."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from store.errors import InputError
from sweepdb.launching.manifest_parts import IN_THE_IMAGE, Files, Manifest, dumped, short_name
from sweepdb.launching.server_command import ENGINE_NAMES, Engine, Role, ServerCommand
from sweepdb.launching.trtllm_config import CONFIG_FILE

RELEASE = "1.5.1"
# Engines of the release: what its runtimes hold, and under which module they start.
BROUGHT: Mapping[Engine, str] = {"vllm": "0.28.0", "sglang": "0.5.18", "trtllm": "1.3.0rc25"}
_RUNTIMES: Mapping[Engine, str] = {"trtllm": "tensorrtllm"}  # where not called as the engine
_TYPES: Mapping[Role, str] = {"server": "worker", "prefill": "prefill", "decode": "decode"}
_SECRET = "hf-token-secret"  # noqa: S105  the name of a secret
_BOOTSTRAP_PORT = "30001"
_LONGEST_NAME = 24  # the operator joins names of graph, component and role into one of 45 at most


def dynamo_version(engine: Engine, version: str | None) -> str:
    """The engine's version that the release brings; another one is refused."""
    if engine not in BROUGHT:
        raise InputError(f"Dynamo {RELEASE} does not bring {ENGINE_NAMES[engine]}", hint="`target=shell`")
    if version not in {None, BROUGHT[engine]}:
        raise InputError(
            f"Dynamo {RELEASE} brings {ENGINE_NAMES[engine]} {BROUGHT[engine]}, not {version}",
            hint=f"`engine_version={BROUGHT[engine]}`, or `target=k8s`",
        )
    return BROUGHT[engine]


def graph_name(commands: list[ServerCommand]) -> str:
    """The name of the graph; its service is NAME-frontend."""
    return short_name(commands[0], _LONGEST_NAME)


def dynamo_files(commands: list[ServerCommand]) -> Files:
    """The manifest, with settings of TensorRT-LLM as config maps before it."""
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
    return {"dynamo.yaml": dumped(*(_settings(one, name) for one in commands if one.config is not None), graph)}


def _worker(command: ServerCommand, image: str, graph: str) -> Manifest:
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


def _args(command: ServerCommand) -> list[str]:
    """The engine's flags as the component takes them: no port of its own, and the role by name."""
    model = command.instance.model_name
    apart = ["--disaggregation-mode", command.role] if command.role != "server" else []
    if command.engine == "trtllm":
        settings = f"{IN_THE_IMAGE}/{command.role}-{CONFIG_FILE}"
        return ["--model-path", model, "--served-model-name", model, "--extra-engine-args", settings, *apart]
    flags = {name: value for name, value in command.settings.items() if name not in {"--port", "--disaggregation-mode"}}
    words = [word for name, value in flags.items() for word in ([name] if value is None else [name, value])]
    if command.engine == "vllm":
        return ["--model", model, *words, *apart]
    reached = ["--disaggregation-bootstrap-port", _BOOTSTRAP_PORT, "--host", "0.0.0.0"] if apart else []  # noqa: S104
    return [*words, *apart, *reached]


def _settings(command: ServerCommand, graph: str) -> Manifest:
    config = dict(command.config or {})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{graph}-{command.role}"},
        "data": {f"{command.role}-{CONFIG_FILE}": yaml.safe_dump(config, sort_keys=False)},
    }
