"""A Hugging Face style config.json as a ModelSpec. What is not understood is an error that names the part.

A module of this folder that has `READERS` (model_type -> reader) is found here; nothing else lists them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping

from evaluator.inputs.architectures.config_reader import Config, ConfigReader
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.yaml_file import shortened
from store.errors import InputError

Read = Callable[[ConfigReader], ModelSpec]

# Settings that change what is computed, in models we do not cover. A value that is false-like leaves the model plain.
_UNCOVERED = {
    "index_topk": "sparse attention with a token indexer",
    "linear_num_value_heads": "gated delta net (linear attention) layers",
    "linear_key_head_dim": "gated delta net (linear attention) layers",
    "hybrid_override_pattern": "Mamba layers",
    "mamba_num_heads": "Mamba layers",
    "ssm_state_size": "state space layers",
    "vision_config": "a vision tower",
    "attention_chunk_size": "chunked attention",
    "block_configs": "layers that differ one by one (a pruned architecture)",
    "compress_ratios": "compressed attention",
    "num_kv_shared_layers": "KV caches shared between layers",
}


def spec_from_config(config: Config, where: str) -> ModelSpec:
    """The model that `config` describes; `where` names the file in errors."""
    reader = ConfigReader(config, where)
    architecture = config.get("model_type")
    if not isinstance(architecture, str):
        raise InputError(f"{where}: model_type is missing", hint="is this the config.json of a language model?")
    for key, part in _UNCOVERED.items():
        if config.get(key):
            raise reader.refuse(f"{part} ({key} of model_type {architecture!r})")
    read = architectures().get(architecture)
    if read is None:
        raise reader.refuse(f"model_type {shortened(architecture)}")
    spec = read(reader)
    if unread := reader.unread():
        raise InputError(
            f"{where}: {_several(unread)}: not read by the evaluator for model_type {architecture!r}, and they may"
            " change what is computed",
            hint="take out of the file what changes no operator and no weight; docs/howto/add-a-model.md",
        )
    return spec


def _several(names: list[str]) -> str:
    """Names of keys; of many the first ones."""
    return ", ".join(name[:80] for name in names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


@functools.cache
def architectures() -> Mapping[str, Read]:
    """The reader of every model_type that is covered."""
    found: dict[str, Read] = {}
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        found |= getattr(importlib.import_module(f"{__name__}.{module}"), "READERS", {})
    return found
