"""Checkpoints of one model in several formats: `Llama-3.1-405B-Instruct` as Meta publishes it, and in FP8.

Not here: reading formats of a file (evaluator.inputs.native_formats)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from evaluator.inputs.formats import LINEAR_NAMES
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.parameters import bytes_of_weights
from evaluator.inputs.precision import Precision

_FORMAT = re.compile(r"(?i)[-_](?:fp8|nvfp4|fp4)(?:-dynamic)?$")


def published_precision(spec: ModelSpec) -> Precision:
    """The formats that a model's weights are published in."""
    return Precision(
        linear=spec.native_linear,
        experts=spec.native_experts,
        attention=spec.native_kv_cache,
        mixers=spec.native_mixers,
        head=spec.native_head,
    )


def published_bytes(spec: ModelSpec) -> float | None:
    """Bytes of a model's weights as published; None where its files state no format that is known."""
    precision = published_precision(spec)
    return bytes_of_weights(spec, precision) if set(precision.weights) <= set(LINEAR_NAMES) else None


def checkpoints_of(name: str) -> Iterator[tuple[str, ModelSpec]]:
    """The catalogue's checkpoints of the same weights, the named one among them, the smallest last."""
    if name in list_models():
        found = [(other, load_model(other)[1]) for other in _of_one_model()[_stem(name)]]
        yield from sorted(found, key=lambda one: -(published_bytes(one[1]) or 0.0))


def published_as(name: str, precision: Precision) -> str:
    """The checkpoint of a model that is published in these formats; the model itself where none is."""
    wanted = (precision.linear, precision.experts or precision.linear, precision.mixers, precision.head)
    for other, spec in sorted(checkpoints_of(name), key=lambda one: one[0] != name):
        if (spec.native_linear, spec.native_experts, spec.native_mixers, spec.native_head) == wanted:
            return other
    return name


@cache
def _of_one_model() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in list_models():
        found.setdefault(_stem(name), []).append(name)
    return found


def _stem(name: str) -> str:
    """The name of a model without publisher and format."""
    return _FORMAT.sub("", name.rpartition("/")[2]).removeprefix("Meta-").lower()
