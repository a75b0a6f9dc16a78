"""The language part of a config.json whose model has encoders of images, videos or sound, too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evaluator.inputs.architectures.config_reader import Config, ConfigReader, refuse_unread
from evaluator.inputs.yaml_file import shortened
from store.errors import InputError

_ENCODERS = {"vision_config": "image encoder", "audio_config": "audio encoder"}
# Keys of the outer file about encoders, and about where what they make stands in the prompt.
_OF_ENCODERS = re.compile(r"image|img|video|vision|audio|media|projector|ignore_index|[be]o[ai]_token")


def language_part(config: Config, where: str) -> ConfigReader:
    """A reader of `text_config`, which the outer file says the formats of."""
    outer = ConfigReader(config, where)
    inner = outer.value("text_config")
    if not isinstance(inner, Mapping):
        raise InputError(f"{where}: text_config must be a mapping, not {shortened(inner)}")
    left_out = " and no ".join(said for key, said in _ENCODERS.items() if outer.value(key))
    outer.ignore(*(key for key in config if _OF_ENCODERS.search(key)))
    # Either of both may say these, and the outer one is what programs look at first.
    shared = {name: outer.value(name) for name in ("quantization_config", "tie_word_embeddings")}
    refuse_unread(outer)
    named = {"model_type": outer.value("model_type")}  # of the whole, where the part says none
    held = {name: value for name, value in shared.items() if value is not None}
    return ConfigReader({**named, **inner, **held}, where, left_out=left_out)
