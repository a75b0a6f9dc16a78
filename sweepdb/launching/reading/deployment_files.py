"""Files of deployments by their form: scripts, settings of TensorRT-LLM, manifests, folders of `launch`, InferenceX.

Not here: what flags mean (command_lines), and what keys of InferenceX and Dynamo mean (inferencex, dynamo)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from evaluator.inputs import shortened
from store.errors import InputError
from sweepdb.launching.expecting.expected_file import launched_roles
from sweepdb.launching.reading.command_lines import engine_of_words, read_settings, read_words
from sweepdb.launching.reading.dynamo import is_graph, read_graph
from sweepdb.launching.reading.found_server import FoundServer, ReadDeployment, mapping, number, role_of
from sweepdb.launching.reading.inferencex import is_inferencex, read_inferencex
from sweepdb.launching.server_command import Role

_LONGEST = 20_000_000  # bytes of a file that is read
_CONFIG = re.compile(r"(server|prefill|decode)-engine\.yaml")


def read_deployment(path: Path, *, only: str | None = None) -> ReadDeployment:
    """The servers of a file, or of a folder that `launch` has written. `only` picks one of several configurations."""
    if path.is_dir():
        return _of_folder(path)
    text = _text(path)
    if path.suffix in {".yaml", ".yml"}:
        return _of_yaml(path, text, only)
    servers = list(_of_script(text, str(path)))
    if not servers:
        raise InputError(
            f"{path} starts no engine that is known",
            hint="a script with `vllm serve` or sglang.launch_server, or YAML of TensorRT-LLM, KServe, llm-d, Dynamo",
        )
    return ReadDeployment(servers=tuple(servers))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LONGEST:
            raise InputError(f"{path} is no deployment file: {path.stat().st_size:,} bytes")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _of_script(text: str, where: str) -> Iterator[FoundServer]:
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a line of a language that is no shell's
            continue
        if (found := engine_of_words(words)) is not None:
            engine, start = found
            yield read_words(words[start:], engine, where)


def _of_folder(path: Path) -> ReadDeployment:
    """A folder of `launch`: scripts or settings of each role, with device and lengths of what was expected."""
    servers = []
    for said in launched_roles(path):
        role = said.role
        config, scripts = path / f"{role}-engine.yaml", sorted(path.glob(f"{role}*.sh"))
        if config.exists():
            server = read_settings(yaml.safe_load(_text(config)), str(config), role)
            server.model = said.model
        elif scripts:
            server = next(_of_script(_text(scripts[0]), str(scripts[0])))
        else:
            raise InputError(f"{path} holds no script of its {role}")
        server.role, server.instances, server.device = role, said.instances, said.device
        server.input_length, server.output_length = said.input_length, said.output_length
        server.prefix_cache_hit_rate, server.hit_rates = said.prefix_cache_hit_rate, dict(said.hit_rates)
        servers.append(server)
    return ReadDeployment(servers=tuple(servers))


def _of_yaml(path: Path, text: str, only: str | None) -> ReadDeployment:
    try:
        documents = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {shortened(' '.join(str(error).split()))}") from None
    if documents and is_inferencex(documents[0]):
        return read_inferencex(documents[0], str(path), only)
    graphs = [server for one in documents if is_graph(one) for server in read_graph(one, documents, str(path))]
    others = [server for one in documents if not is_graph(one) for server in _of_document(one, path)]
    servers = [*graphs, *others]
    if not servers:
        raise InputError(f"{path} describes no server that is known")
    return ReadDeployment(servers=tuple(servers))


def _of_document(document: Mapping[str, object], path: Path) -> Iterator[FoundServer]:
    if "tensor_parallel_size" in document:
        match = _CONFIG.search(path.name)
        yield read_settings(document, str(path), role_of(match[1] if match else "server"))
    elif document.get("kind") == "LLMInferenceService":
        yield from _of_kserve(document, str(path))
    elif "modelArtifacts" in document:
        yield from _of_llm_d(document, str(path))
    else:  # Compose and Kubernetes keep whole command lines
        for words in _lists_of_words(document):
            if (found := engine_of_words(words)) is not None:
                yield read_words(words[found[1] :], found[0], str(path))


def _lists_of_words(value: object) -> Iterator[list[str]]:
    """Lists of text anywhere in a document; a text of a whole command is split."""
    if isinstance(value, dict):
        command, args = value.get("command"), value.get("args")
        if isinstance(command, list) and isinstance(args, list):
            yield [str(word) for word in (*command, *args)]
            return
        for each in value.values():
            yield from _lists_of_words(each)
    elif isinstance(value, list):
        if value and all(isinstance(word, str) for word in value):
            yield [str(word) for word in value]
            for word in value:
                if " --" in word:
                    yield shlex.split(word.replace("\\\n", " "), comments=True)
        else:
            for each in value:
                yield from _lists_of_words(each)


def _of_kserve(document: Mapping[str, object], where: str) -> Iterator[FoundServer]:
    spec = mapping(document.get("spec"))
    model = mapping(spec.get("model")).get("name")
    sides: list[tuple[Role, dict[str, object]]] = [("server", spec)]
    if "prefill" in spec:
        sides = [("prefill", mapping(spec["prefill"])), ("decode", spec)]
    for role, side in sides:
        parallelism, words = mapping(side.get("parallelism")), _words_of_env(side.get("template"))
        sizes = [("tensor", "--tensor-parallel-size"), ("pipeline", "--pipeline-parallel-size"),
                 ("data", "--data-parallel-size")]  # fmt: skip
        words += [word for name, flag in sizes if name in parallelism for word in (flag, str(parallelism[name]))]
        words += ["--enable-expert-parallel"] if parallelism.get("expert") is True else []
        server = read_words(words, "vllm", f"{where} ({role})")
        server.role, server.instances = role, number(side.get("replicas"), 1)
        server.model = None if model is None else str(model)
        yield server


def _words_of_env(template: object) -> list[str]:
    words: list[str] = []
    containers = mapping(template).get("containers")
    for container in containers if isinstance(containers, list) else []:
        for one in mapping(container).get("env") or []:  # type: ignore[attr-defined]
            if mapping(one).get("name") == "VLLM_ADDITIONAL_ARGS":
                words += shlex.split(str(mapping(one).get("value")))
        args = mapping(container).get("args")
        words += [str(word) for word in args] if isinstance(args, list) else []
    return words


def _of_llm_d(document: Mapping[str, object], where: str) -> Iterator[FoundServer]:
    model = mapping(document.get("modelArtifacts")).get("name")
    found = {role: mapping(document.get(role)) for role in ("prefill", "decode")}
    apart = found["prefill"].get("create", bool(found["prefill"])) is not False
    for role, side in found.items():
        if not side or side.get("create") is False:
            continue
        parallelism, words = mapping(side.get("parallelism")), _words_of_env({"containers": side.get("containers")})
        for name, flag in (("tensor", "--tensor-parallel-size"), ("data", "--data-parallel-size")):
            if name in parallelism:
                words += [flag, str(parallelism[name])]
        server = read_words(words, "vllm", f"{where} ({role})")
        server.role = role_of(role) if apart else "server"
        server.instances = number(side.get("replicas"), 1)
        server.model = None if model is None else str(model)
        yield server
