"""A Hugging Face config.json as a ModelSpec; a setting that is not understood is an error.

Modules here with `READERS` (model_type -> reader) are found by themselves."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace

from evaluator.inputs.architectures.config_reader import KEYS, Config, ConfigReader, language_part, refuse_unread
from evaluator.inputs.architectures.towers import tower_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.yaml_file import shortened
from store.errors import InputError

Read = Callable[[ConfigReader], ModelSpec]

_MISSING, _UNCOVERED = KEYS["missing"], KEYS["uncovered"]


def spec_from_config(config: Config, where: str) -> ModelSpec:
    """With encoders, only the language part. `where` names the file in errors."""
    architecture = config.get("model_type")
    if not isinstance(architecture, str):
        raise InputError(f"{where}: model_type is missing", hint="is this the config.json of a language model?")
    reader = language_part(config, where) if "text_config" in config else ConfigReader(config, where)
    architecture = reader.word("model_type", architecture)
    read = architectures().get(architecture)
    if read is None:
        _refuse_parts(reader, architecture)
        named = f"model_type {shortened(architecture)}"
        raise reader.refuse(f"{_MISSING[architecture]} ({named})" if architecture in _MISSING else named)
    spec = read(reader)
    _refuse_parts(reader, architecture)
    refuse_unread(reader)
    if "text_config" in config and config.get("vision_config"):
        return replace(spec, vision=tower_of(config, where, spec.hidden_size))
    return spec


def _refuse_parts(reader: ConfigReader, architecture: str) -> None:
    for key, part in () if architecture in _MISSING else _UNCOVERED.items():
        if reader.config.get(key) and key not in reader.read:
            raise reader.refuse(f"{part} ({key} of model_type {shortened(architecture)})")


@functools.cache
def architectures() -> Mapping[str, Read]:
    found: dict[str, Read] = {}
    for module in sorted(item.name for item in pkgutil.walk_packages(__path__, f"{__name__}.")):
        found |= getattr(importlib.import_module(module), "READERS", {})
    return found
