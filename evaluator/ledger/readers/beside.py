"""Files beside a result that tell its server: manifests, configurations, metadata."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluator.inputs.yaml_file import read_text
from evaluator.ledger.readers.building import Document, inner, text
from evaluator.ledger.readers.declared import found
from store.errors import InputError

Facts = Mapping[str, Any]
_LARGEST_BYTES = 1 << 20
_MOST_FILES = 40
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "lmsysorg": "sglang", "tensorrt": "trtllm", "trtllm": "trtllm"}
_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:[.-]?(?:post|rc)\d+)?)")
_DEVICE_LABELS = ("cloud.google.com/gke-accelerator", "nvidia.com/gpu.product", "amd.com/gpu.product-name",
                  "node.kubernetes.io/accelerator")  # fmt: skip
_FLAGS = {
    "model": ("--model", "--model-path"),
    "served": ("--served-model-name",),
    "tp": ("--tensor-parallel-size", "-tp", "--tp", "--tp-size"),
    "pp": ("--pipeline-parallel-size", "-pp", "--pp", "--pp-size"),
    "dp": ("--data-parallel-size", "-dp", "--dp", "--dp-size"),
    "ep": ("--ep", "--ep-size"),
    "precision": ("--quantization", "-q"),
    "kv_precision": ("--kv-cache-dtype",),
}


def facts_beside(path: Path) -> tuple[tuple[str, Facts], ...]:
    """(file, facts), a server's manifest first."""
    folder = path.parent
    try:
        names = sorted(one for one in folder.iterdir() if one.suffix in {".yaml", ".yml"} or one.name == _EXPERIMENT)
        told = tuple((str(one), one.stat().st_mtime_ns, one.stat().st_size) for one in names[:_MOST_FILES])
    except OSError:
        return ()
    return _told(told)


@functools.lru_cache(maxsize=64)
def _told(files: tuple[tuple[str, int, int], ...]) -> tuple[tuple[str, Facts], ...]:
    said = []
    for name, _, size in files:
        if size > _LARGEST_BYTES:
            continue
        for document in _documents(Path(name)):
            for order, (known, reader) in enumerate(_READERS):
                if known(document):
                    said.append((order, Path(name).name, reader(document)))
    return tuple((name, facts) for _, name, facts in sorted(said, key=lambda one: one[:2]))


def _documents(path: Path) -> Iterator[Document]:
    import yaml

    try:
        content = read_text(path, largest_bytes=_LARGEST_BYTES, what="a file beside results")
        found_ = [json.loads(content)] if path.suffix == ".json" else list(yaml.safe_load_all(content))
    except (InputError, ValueError, RecursionError, yaml.YAMLError):
        return
    yield from (one for one in found_ if isinstance(one, dict))


def _is_manifest(document: Document) -> bool:
    return "kind" in document and bool(_container(document))


def _container(document: Document) -> Document:
    for path in ("spec.template.spec.containers", "spec.leaderWorkerTemplate.workerTemplate.spec.containers",
                 "spec.containers"):  # fmt: skip
        for one in found(document, path) or []:
            if isinstance(one, dict) and _engine(str(one.get("image", ""))) is not None:
                return one
    return {}


def _of_manifest(document: Document) -> Facts:
    container = _container(document)
    image = str(container.get("image", ""))
    environment = {str(one.get("name")): str(one.get("value")) for one in container.get("env") or []
                   if isinstance(one, dict) and one.get("value") is not None}  # fmt: skip
    words = [str(one) for name in ("command", "args") for one in container.get(name) or []]
    flags = _flags([_filled(word, environment) for part in words for word in part.split()])
    spec = found(document, "spec.template.spec | spec.leaderWorkerTemplate.workerTemplate.spec | spec") or {}
    limits = inner(inner(container, "resources"), "limits")
    devices = next((int(str(value)) for name, value in limits.items()
                    if name.endswith("gpu") and str(value).isdigit()), None)  # fmt: skip
    replicas = found(document, "spec.replicas")
    version = _VERSION.fullmatch(image.rpartition(":")[2])
    facts: dict[str, Any] = {
        "model": flags.pop("model", None) or flags.get("served"),
        "engine": _engine(image),
        "engine_version": version[1] if version else None,
        "image": image,
        "device": text(inner(spec, "nodeSelector"), *_DEVICE_LABELS),
        "num_devices": devices and devices * (replicas if isinstance(replicas, int) and replicas > 0 else 1),
        "instances": replicas if isinstance(replicas, int) and replicas > 1 else None,
        "flags": " ".join(word for word in words if word.startswith("-")) or None,
        **{name: value for name, value in flags.items() if name in {"precision", "kv_precision"}},
        **{name: int(value) for name, value in flags.items() if name in {"tp", "pp", "dp", "ep"} and value.isdigit()},
    }
    if devices == 1:
        facts.setdefault("tp", 1)
    return {name: value for name, value in facts.items() if value is not None}


def _filled(word: str, environment: Mapping[str, str]) -> str:
    return re.sub(r"\$[({](\w+)[)}]", lambda named: environment.get(named[1], named[0]), word)


def _flags(words: list[str]) -> dict[str, str]:
    spelt = {spelling: name for name, spellings in _FLAGS.items() for spelling in spellings}
    read: dict[str, str] = {}
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in spelt:
            read[spelt[flag]] = value if equals else (words[place + 1] if place + 1 < len(words) else "")
    return read


def _engine(image: str) -> str | None:
    return next((ours for name, ours in _ENGINES.items() if name in image.lower()), None)


def _of_configuration(document: Document) -> Facts:
    facts = {"model": found(document, "server.model_name"), "engine": found(document, "server.type")}
    return {name: str(value) for name, value in facts.items() if value}


_EXPERIMENT = "experiment_metadata.json"
_READERS: tuple[tuple[Callable[[Document], bool], Callable[[Document], Facts]], ...] = (
    (_is_manifest, _of_manifest),
    (
        lambda document: "server_engine" in document and "experiment_folder_name" in document,
        lambda document: {
            name: value
            for name, value in {
                "model": text(document, "model", "api_model_name"),
                "engine": (text(document, "server_engine") or "").lower() or None,
                "engine_version": text(document, "server_version"),
                "device": text(document, "server_gpu_type"),
                "num_devices": int(str(document["server_gpu_count"]))
                if str(document.get("server_gpu_count")).isdigit()
                else None,
                "unit": text(document, "metrics_time_unit"),
            }.items()
            if value is not None
        },
    ),
    (lambda document: {"api", "data", "load", "server"} <= document.keys(), _of_configuration),
)
