"""Measurements' models and formats by the catalogue's names. Downloads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from evaluator.inputs.formats import Precision
from evaluator.inputs.model import ModelSpec, MoeMlp
from evaluator.inputs.models import list_models, load_model, published_precision

# Names of models whose shapes the catalogue holds under another one.
SAME_SHAPES: Mapping[str, str] = {
    "bloom-176b": "bigscience/bloom",
    "deepseek-r1-nvfp4": "deepseek-ai/DeepSeek-R1",
    "deepseek-v3.1-nvfp4": "deepseek-ai/DeepSeek-V3.1",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "llama-3.3-70b": "meta-llama/Llama-3.3-70B-Instruct",
    "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.1",
    "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "qwen2-72b": "Qwen/Qwen2.5-72B",
    "qwen2-7b": "Qwen/Qwen2.5-7B",
}
# Variants of a model that keep its shapes: a date, tuning, the precision of its weights.
VARIANT = re.compile(r"-(?:2507|instruct|thinking|bf16|fp8|nvfp4|fp4)$")
_NAMED_FORMAT = re.compile(r"-(bf16|fp8|nvfp4|fp4)$")
_FORMAT = re.compile(r"-(?:bf16|fp8)$")  # of the one checkpoint of a model that the catalogue has
# Starts of names, and what of the architecture the evaluator has no formula for.
UNCOVERED: Mapping[str, str] = {
    "llama-4": "chunked local attention",
    "gpt-j": "attention and feed-forward block side by side",
}
FORMATS: Mapping[str, str] = {
    "fp16": "BF16",
    "bf16": "BF16",
    "fp8": "FP8",
    "fp8_block": "FP8_BLOCK",
    "nvfp4": "NVFP4",
    "fp4": "NVFP4",
    "mxfp4": "MXFP4",
    "w8a8": "W8A8_DYNAMIC",
    "w4a16": "W4A16",
    "int4_wo": "W4A16",
    "w8a16": "W8A16_STATIC",
}


class Unmatched(Exception):  # noqa: N818  becomes an exclusion with its rule, never an error of the user
    """Why a point cannot be predicted; `rule` is counted."""

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(detail or rule)
        self.rule = rule


def measured_model(name: str | None) -> tuple[str, ModelSpec]:
    """(catalogue name, shapes). Raises Unmatched."""
    if name is None:
        raise Unmatched("model not stated")
    found = _found(name)
    if isinstance(found, str):
        raise Unmatched(found, name)
    return found


@lru_cache(maxsize=512)
def _found(name: str) -> tuple[str, ModelSpec] | str:
    if Path(name).expanduser().exists():
        return load_model(name)
    short = re.sub(r"\s+", "-", name.strip().split("/")[-1].lower())
    for start, part in UNCOVERED.items():
        if short.startswith(start):
            return f"architecture not covered: {part}"
    known = _known(short)
    return "model not in the catalogue" if known is None else load_model(known)


def _known(short: str) -> str | None:
    catalogue = {known.split("/")[-1].lower(): known for known in reversed(list_models())}
    by_weights = {_FORMAT.sub("", name): known for name, known in catalogue.items()}
    named = {**by_weights, **SAME_SHAPES, **catalogue}
    while short not in named:
        shorter = VARIANT.sub("", short)
        if shorter == short:
            return None
        short = shorter
    return named[short]


def measured_precision(
    model: ModelSpec,
    stated: str | None,
    kv: str | None,
    *,
    linear: object = None,
    experts: object = None,
    name: str = "",
) -> Precision:
    """Of linears and experts, or both as `stated`; where nothing is, as published, since engines load what there is.

    A checkpoint decides where names are coarse: FP8 is by blocks if the model is, or if its publisher has such a twin
    of a 16-bit `name`. MXFP4 experts stay; NVFP4 mixtures follow their file's classes."""
    if not (stated or linear or experts):
        published = published_precision(model)
        return replace(published, attention=_keys(kv)) if kv else published
    first = re.split(r"[ (?]", (stated or "").lower())[0]
    linear_format, experts_format = _format(linear or first), _format(experts or first)
    twin, mixers = _eight_bit_twin(name), None
    if linear_format == "FP8" and "FP8_BLOCK" in {model.native_linear, twin and twin.native_linear}:
        linear_format = "FP8_BLOCK"
    elif linear_format == "FP8" and twin is not None and linear is None and (kv or "").lower() != "fp8":
        mixers = twin.native_mixers  # who says eight-bit keys or the format of linears has another maker's checkpoint
    if model.native_experts == "W4A16_G32" and experts_format == "W4A16":
        linear_format, experts_format = model.native_linear, "W4A16_G32"
    if model.native_experts == "FP8_BLOCK" and experts_format == "FP8":
        experts_format = "FP8_BLOCK"
    if model.native_experts == "MXFP4" and experts_format in {"NVFP4", "MXFP4"}:
        linear_format, experts_format = model.native_linear, "MXFP4"
    attention = _keys(kv)
    if linear_format == experts_format == "NVFP4":
        return replace(_four_bits(model), attention=attention)
    return Precision(linear=linear_format, experts=experts_format, attention=attention, mixers=mixers)


def _keys(kv: str | None) -> str:
    return "FP8" if (kv or "").lower().startswith("fp8") else "DISABLED"


def format_in_name(name: str | None) -> str | None:
    """The format that a checkpoint ends in whose model the catalogue has otherwise: `fp8` of MODEL-FP8."""
    short = (name or "").split("/")[-1].lower()
    found = _NAMED_FORMAT.search(short)
    return None if found is None or any(one.lower().endswith(f"/{short}") for one in list_models()) else found[1]


def _four_bits(model: ModelSpec) -> Precision:
    """As the file says; else only routed experts of a mixture, as in most files.

    Shared experts of DeepSeek-R1-FP4 and Kimi-K2.5-NVFP4 are in four bits, too. Measured four-bit products of few
    columns take three times those of 16 bits, so without a named file points are nearer without."""
    if "NVFP4" not in {model.native_linear, model.native_experts}:
        routed = any(isinstance(one.mlp, MoeMlp) for one in model.layers)
        return Precision(linear="BF16" if routed else "NVFP4", experts="NVFP4")
    return Precision(
        linear=model.native_linear,
        experts=model.native_experts,
        mixers=model.native_mixers,
        head=model.native_head,
        drafts=model.native_drafts,
    )


@lru_cache(maxsize=512)
def _eight_bit_twin(name: str) -> ModelSpec | None:
    """The publisher's checkpoint of that name with FP8 behind.

    Source: tools/automation/config.env of github.com/ai-dynamo/aiconfigurator (771d1b0) serves Qwen/Qwen3-32B-FP8
    where its tables say Qwen3-32B and fp8."""
    twin = f"{name}-FP8"
    return load_model(twin)[1] if twin in list_models() else None


def _format(name: object) -> str:
    known = FORMATS.get(str(name or "bf16").lower())
    if known is None:
        raise Unmatched("precision not covered", str(name))
    return known
