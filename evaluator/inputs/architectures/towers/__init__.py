"""Image encoders by the model_type of the whole model; what is not understood is named, never guessed.

Modules here with `TOWERS` (model_type -> reader) are found by themselves."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from evaluator.inputs.architectures.config_reader import Config, ConfigReader, refuse_unread
from evaluator.inputs.images import VisionTower
from evaluator.inputs.yaml_file import shortened
from store.errors import InputError

# Of the vision_config, the whole file, and the width of the language part.
Read = Callable[[ConfigReader, Config, int], VisionTower]


def tower_of(config: Config, where: str, text_width: int) -> VisionTower | str:
    """A text says why it is not read: the language part is then evaluated without it."""
    said, family = config.get("vision_config"), config.get("model_type")
    read = towers().get(str(family))
    if read is None:
        return f"no image encoder of model_type {shortened(family)} is read"
    if not isinstance(said, Mapping):
        return f"vision_config must be a mapping, not {shortened(said)}"
    reader = ConfigReader(said, f"{where}, vision_config")
    try:
        tower = read(reader, config, text_width)
        refuse_unread(reader)
    except InputError as error:
        return error.message
    return tower


@functools.cache
def towers() -> Mapping[str, Read]:
    found: dict[str, Read] = {}
    for module in sorted(item.name for item in pkgutil.iter_modules(__path__)):
        found |= getattr(importlib.import_module(f"{__name__}.{module}"), "TOWERS", {})
    return found


def head_size(reader: ConfigReader, hidden: int, heads: int) -> int:
    if hidden % heads:
        raise InputError(f"{reader.where}: {heads} heads do not divide {hidden} dimensions")
    return hidden // heads


def checked(value: Any, wanted: object, reader: ConfigReader, what: str) -> None:  # noqa: ANN401  of a config
    if value != wanted:
        raise reader.refuse(f"an image encoder with {what} {shortened(value)}")


def catalogued_tower(name: str, text_width: int) -> VisionTower | str | None:
    """None where the model has none, a text why it is not read."""
    entry = _entries().get(name)
    if entry is None:
        return None
    config = {"model_type": entry["family"], "vision_config": entry["vision_config"]}
    return tower_of(config, name, text_width)


@functools.cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    text = (resources.files("evaluator") / "inputs" / "architectures" / "towers" / "encoders.yaml").read_text(
        encoding="utf-8"
    )
    return {name: entry for entry in yaml.safe_load(text) for name in entry["models"]}
