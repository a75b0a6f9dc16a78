"""Deployment files by form: scripts, settings, manifests, folders of `launch`, InferenceX.

DynamoGraphDeployment in both forms: nvidia.com/v1beta1 components, v1alpha1 services (docs.nvidia.com/dynamo,
Kubernetes API)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from evaluator.inputs import shortened
from store.errors import InputError
from sweepdb.launching.expectations import launched_roles
from sweepdb.launching.reading.command_lines import engine_of_words, read_words
from sweepdb.launching.reading.found_server import FoundServer, ReadDeployment, mapping, number, role_of
from sweepdb.launching.reading.inferencex import is_inferencex, read_inferencex
from sweepdb.launching.reading.settings_files import Files, read_named, read_settings
from sweepdb.launching.server_command import Role

Document = Mapping[str, object]
_MODE = "--disaggregation-mode"
_OLD_ROLES: Mapping[str, Role] = {"--is-prefill-worker": "prefill", "--is-decode-worker": "decode"}
_MODELS = ("--model-path", "--model")
_SETTINGS = ("--extra-engine-args", "--config")
_OF_NO_TIME = ("--served-model-name", "--publish-events-and-metrics", "--free-gpu-memory-fraction")


def is_graph(document: Document) -> bool:
    return document.get("kind") == "DynamoGraphDeployment"


def read_graph(document: Document, beside: Sequence[Document], where: str) -> Iterator[FoundServer]:
    """`beside` are its file's documents, config maps among them."""
    found, files = [], _files_of(Path(where).parent, beside)
    for name, kind, component in _components(mapping(document.get("spec"))):
        words = _words(component)
        if (engine := engine_of_words(words)) is None:
            continue
        said, rest = _role_said(words[engine[1] :])
        place = f"{where} ({name})"
        trtllm = engine[0] == "trtllm"
        server = _trtllm(rest, place, files) if trtllm else read_words(rest, engine[0], place, files)
        server.instances = number(component.get("replicas"), 1)
        found.append((server, _role(kind) or said))
    apart = any(role == "prefill" for _, role in found)
    for server, role in found:
        server.role = "server" if role is None or not apart else role
        yield server


def _components(spec: Document) -> Iterator[tuple[str, str, Document]]:
    listed = spec.get("components")
    for one in listed if isinstance(listed, list) else []:
        component = mapping(one)
        yield str(component.get("name")), str(component.get("type")), component
    for name, one in mapping(spec.get("services")).items():
        component = mapping(one)
        yield name, str(component.get("subComponentType") or component.get("componentType")), component


def _words(component: Document) -> list[str]:
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


def _trtllm(words: Sequence[str], where: str, files: Files) -> FoundServer:
    flags: dict[str, str] = {}
    given = list(words)
    while given:
        name, equals, value = given.pop(0).partition("=")
        if not equals and given and not given[0].startswith("--"):
            value = given.pop(0)
        flags[name] = value
    settings, missing = read_named(next((flags.pop(name) for name in _SETTINGS if name in flags), None), files, where)
    server = read_settings(settings, where)
    server.model = next((flags.pop(name) for name in _MODELS if name in flags), None)
    server.not_mapped = [*missing, *server.not_mapped, *sorted(set(flags) - set(_OF_NO_TIME))]
    return server


def _files_of(folder: Path, documents: Sequence[Document] = ()) -> Files:
    """Files that commands name: in a ConfigMap among the documents, else where they say, else in the folder."""

    def text(named: str) -> str | None:
        name = named.rpartition("/")[2]
        maps = (mapping(one.get("data")).get(name) for one in documents if one.get("kind") == "ConfigMap")
        if (held := next((one for one in maps if isinstance(one, str)), None)) is not None:
            return held
        for path in (folder / named, folder / name):
            try:
                return _text(path)
            except InputError:
                continue
        return None

    return text


_LONGEST = 20_000_000  # bytes of a file that is read


def read_deployment(named: str | Path, *, only: str | None = None) -> ReadDeployment:
    """A file, folder, command line, or standard input (-).

    `only` picks one of several configurations."""
    path = Path(named)
    if str(named) == "-":
        return _of_text(_standard_input(), "standard input", Path())
    if _is_command(str(named)) and not path.exists():
        return _of_text(str(named), "the command line", Path())
    if path.is_dir():
        return _of_folder(path)
    text = _text(path)
    return _of_yaml(path, text, only) if path.suffix in {".yaml", ".yml"} else _of_text(text, str(path), path.parent)


def _of_text(text: str, where: str, folder: Path) -> ReadDeployment:
    servers = list(_of_script(text, where, folder))
    if servers:
        return ReadDeployment(servers=tuple(servers))
    if where == "standard input" and ":" in text:
        return _of_yaml(Path(where), text, None)
    raise InputError(
        f"{where} starts no engine that is known",
        hint="a script with `vllm serve`, sglang.launch_server or trtllm-serve, or YAML of TensorRT-LLM, KServe, llm-d,"
        " Dynamo",
    )


def _is_command(text: str) -> bool:
    return engine_of_words(_split(text)) is not None or " -" in text


def _standard_input() -> str:
    text = sys.stdin.read(_LONGEST + 1)
    if len(text) > _LONGEST or not text.strip():
        raise InputError(f"standard input is no deployment file: {len(text):,} bytes")
    return text


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LONGEST:
            raise InputError(f"{path} is no deployment file: {path.stat().st_size:,} bytes")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"no such file: {path}",
            hint='a file, - for standard input, or a command line such as "vllm serve MODEL -tp 4"',
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _of_script(text: str, where: str, folder: Path) -> Iterator[FoundServer]:
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a line of a language that is no shell's
            continue
        if (found := engine_of_words(words)) is not None:
            engine, start = found
            server = read_words(words[start:], engine, where, _files_of(folder))
            server.words = tuple(words)
            yield server


def _of_folder(path: Path) -> ReadDeployment:
    servers = []
    for said in launched_roles(path):
        role = said.role
        script = min(path.glob(f"{role}*.sh"), default=None)
        if script is None:
            raise InputError(f"{path} holds no script of its {role}")
        server = next(_of_script(_text(script), str(script), path))
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
    files = _files_of(path.parent, documents)
    others = [server for one in documents if not is_graph(one) for server in _of_document(one, path, files)]
    servers = [*graphs, *others]
    if not servers:
        raise InputError(f"{path} describes no server that is known")
    return ReadDeployment(servers=tuple(servers))


def _of_document(document: Mapping[str, object], path: Path, files: Files) -> Iterator[FoundServer]:
    if "tensor_parallel_size" in document:
        yield read_settings(document, str(path))
    elif document.get("kind") == "LLMInferenceService":
        yield from _of_kserve(document, str(path), files)
    elif "modelArtifacts" in document:
        yield from _of_llm_d(document, str(path), files)
    else:  # Compose and Kubernetes keep whole command lines
        for words in _lists_of_words(document):
            if (found := engine_of_words(words)) is not None:
                yield read_words(words[found[1] :], found[0], str(path), files)


def _lists_of_words(value: object) -> Iterator[list[str]]:
    if isinstance(value, dict):
        command, args = value.get("command"), value.get("args")
        if isinstance(command, list) and isinstance(args, list):
            yield from _lists_of_words([str(word) for word in (*command, *args)])
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


def _of_kserve(document: Mapping[str, object], where: str, files: Files) -> Iterator[FoundServer]:
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
        server = read_words(words, "vllm", f"{where} ({role})", files)
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


def _of_llm_d(document: Mapping[str, object], where: str, files: Files) -> Iterator[FoundServer]:
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
        server = read_words(words, "vllm", f"{where} ({role})", files)
        server.role = role_of(role) if apart else "server"
        server.instances = number(side.get("replicas"), 1)
        server.model = None if model is None else str(model)
        yield server
