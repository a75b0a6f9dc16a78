"""Defaults of a request: who serves on a device, published formats, plans that can be launched.

They serve the buyer of a real device; the upstream convention keeps its own."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.launchable import rule_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import SearchRule
from evaluator.inputs.precision import Precision
from store.schema import Convention

FORMULAS = "waves"
SEEDS_LINEAR = "W8A8_DYNAMIC"
# Vendors whose devices vLLM itself runs on (CUDA, ROCm, XPU); others have plug-ins, or nobody built them.
# https://docs.vllm.ai/en/latest/getting_started/installation/gpu/
ENGINES: Mapping[str, str] = {"nvidia": "vllm", "amd": "vllm", "intel": "vllm"}


def usual_serving_model(device: DeviceProfile, convention: Convention) -> str:
    """An engine where the device's vendor has one, else formulas; the upstream convention knows no engine."""
    return FORMULAS if convention == "upstream" else ENGINES.get(device.vendor.lower(), FORMULAS)


def usual_search(serving_model: str, convention: Convention) -> tuple[SearchRule, str | None]:
    """(rule, engine) of a search: plans that the engine can launch as one server, or every legal one without one."""
    engine = None if convention == "upstream" else rule_of(serving_model)
    return ("every", None) if engine is None else ("launchable", engine)


def usual_precision(model: ModelSpec, convention: Convention) -> Precision:
    """Formats as the weights are published; under the upstream convention its own."""
    if convention == "upstream":
        return Precision(linear=SEEDS_LINEAR)
    return Precision(
        linear=model.native_linear,
        experts=model.native_experts,
        attention=model.native_kv_cache,
        mixers=model.native_mixers,
        head=model.native_head,
    )
