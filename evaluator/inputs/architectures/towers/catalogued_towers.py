"""Image encoders of catalogued models, read as those of files are."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

from evaluator.inputs.architectures.towers import tower_of
from evaluator.inputs.vision.tower import VisionTower


def catalogued_tower(name: str, text_width: int) -> VisionTower | str | None:
    """The encoder of a catalogued model, or why it is not read; None where the model has none."""
    entry = _entries().get(name)
    if entry is None:
        return None
    config = {"model_type": entry["family"], "vision_config": entry["vision_config"]}
    return tower_of(config, name, text_width)


@functools.cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    text = (resources.files("evaluator") / "inputs" / "vision" / "encoders.yaml").read_text(encoding="utf-8")
    return {name: entry for entry in yaml.safe_load(text) for name in entry["models"]}
