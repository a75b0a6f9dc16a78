"""DynamoGraphDeployment as servers: components of nvidia.com/v1beta1, and services of v1alpha1 before it.

Source: docs.nvidia.com/dynamo, Kubernetes API. Not here: what an engine's flags mean (command_lines)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

import yaml

from store.errors import InputError
from sweepdb.launching.reading.command_lines import engine_of_words, read_settings, read_words
from sweepdb.launching.reading.found_server import FoundServer, mapping, number
from sweepdb.launching.server_command import Role

Document = Mapping[str, object]
_MODE = "--disaggregation-mode"
_OLD_ROLES: Mapping[str, Role] = {"--is-prefill-worker": "prefill", "--is-decode-worker": "decode"}
_MODELS = ("--model-path", "--model")
_SETTINGS = ("--extra-engine-args", "--config")
_OF_NO_TIME = ("--served-model-name", "--publish-events-and-metrics", "--free-gpu-memory-fraction")


def is_graph(document: Document) -> bool:
    """Whether a document is such a graph."""
    return document.get("kind") == "DynamoGraphDeployment"


def read_graph(document: Document, beside: Sequence[Document], where: str) -> Iterator[FoundServer]:
    """The servers of a graph; `beside` are the documents of its file, among them config maps of settings."""
    found = []
    for name, kind, component in _components(mapping(document.get("spec"))):
        words = _words(component)
        if (engine := engine_of_words(words)) is None:
            continue
        said, rest = _role_said(words[engine[1] :])
        place = f"{where} ({name})"
        server = _trtllm(rest, beside, place) if engine[0] == "trtllm" else read_words(rest, engine[0], place)
        server.instances = number(component.get("replicas"), 1)
        found.append((server, _role(kind) or said))
    apart = any(role == "prefill" for _, role in found)
    for server, role in found:
        server.role = "server" if role is None or not apart else role
        yield server


def _components(spec: Document) -> Iterator[tuple[str, str, Document]]:
    """Name, role by its type, and content of each component."""
    listed = spec.get("components")
    for one in listed if isinstance(listed, list) else []:
        component = mapping(one)
        yield str(component.get("name")), str(component.get("type")), component
    for name, one in mapping(spec.get("services")).items():
        component = mapping(one)
        yield name, str(component.get("subComponentType") or component.get("componentType")), component


def _words(component: Document) -> list[str]:
    """The command of the main container; a command inside a text for a shell is split."""
    pod = mapping(mapping(component.get("podTemplate")).get("spec"))
    listed = pod.get("containers")
    containers = [mapping(one) for one in listed] if isinstance(listed, list) else []
    main = next((one for one in containers if one.get("name") == "main"), None)
    if main is None:
        main = mapping(mapping(component.get("extraPodSpec")).get("mainContainer"))
    given = [part for key in ("command", "args") if isinstance(part := main.get(key), list)]
    words = [str(word) for part in given for word in part]
    return [one for word in words for one in (_split(word) if " dynamo." in word else [word])]


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:  # no words of a shell
        return []


def _role(kind: str) -> Role | None:
    return "prefill" if kind == "prefill" else "decode" if kind == "decode" else None


def _role_said(words: Sequence[str]) -> tuple[Role | None, list[str]]:
    """The role that flags of the component name, and the words without these flags."""
    rest, said, given = [], None, list(words)
    while given:
        word = given.pop(0)
        name, equals, value = word.partition("=")
        if name == _MODE:
            said = _role(value if equals else given.pop(0) if given else "") or said
        elif word in _OLD_ROLES:
            said = _OLD_ROLES[word]
        else:
            rest.append(word)
    return said, rest


def _trtllm(words: Sequence[str], beside: Sequence[Document], where: str) -> FoundServer:
    """A component of TensorRT-LLM: its settings are a file of a config map, its model a flag."""
    flags: dict[str, str] = {}
    given = list(words)
    while given:
        name, equals, value = given.pop(0).partition("=")
        if not equals and given and not given[0].startswith("--"):
            value = given.pop(0)
        flags[name] = value
    path = next((flags.pop(name) for name in _SETTINGS if name in flags), None)
    file = None if path is None else path.rpartition("/")[2]
    texts = [mapping(one.get("data")).get(file) for one in beside if one.get("kind") == "ConfigMap"] if file else []
    text = next((one for one in texts if isinstance(one, str)), None)
    try:
        settings = mapping(yaml.safe_load(text)) if text else {}
    except yaml.YAMLError as error:
        raise InputError(f"{where}: {file} is no YAML: {' '.join(str(error).split())}") from None
    server = read_settings(settings, where, "server")
    server.model = next((flags.pop(name) for name in _MODELS if name in flags), None)
    missing = [f"{path}, which is not in the file"] if path is not None and text is None else []
    server.not_mapped = [*missing, *server.not_mapped, *sorted(set(flags) - set(_OF_NO_TIME))]
    return server
