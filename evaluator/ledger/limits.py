"""Limits by data sheets alone: impossible measurements, and requests that memory holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.formats import Precision, linear_format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.parameters import attention_parameters, parameter_count
from evaluator.pricing.kv_state import layer_bytes
from evaluator.serving.occupancy import kv_cache_bits

if TYPE_CHECKING:
    from evaluator.ledger.deployments import Deployment

TOO_MANY_BYTES = "faster than the data sheet's memory reads the weights and keys of a step"
TOO_MANY_OPERATIONS = "more operations than the data sheet's peak"
TOO_FAST_PROMPTS = "prompts faster than the data sheet's peak"
TOO_LARGE = "weights that leave less than a twentieth of the devices' memory"
LARGEST_WEIGHTS = 0.95  # of memory: a runtime's context, its buffers for collectives and activations take the rest


def impossible(deployment: Deployment, metrics: Mapping[str, float]) -> str | None:
    """The rule that excludes these values (ms, tokens/s, without statistic)."""
    weights = _weight_bytes(deployment.model, deployment.precision, deployment.plan)
    if weights > LARGEST_WEIGHTS * deployment.device.memory_bytes:
        return TOO_LARGE
    step = metrics.get("tpot_exclusive_ms", metrics.get("decode_step_ms"))
    if step is not None and 1e-3 * step < least_step_s(deployment):
        return TOO_MANY_BYTES
    if _requests_per_s(deployment, metrics) * _operations(deployment, _tokens(deployment)) > _peak(deployment):
        return TOO_MANY_OPERATIONS
    if _prompt_operations_per_s(deployment, metrics) > _peak(deployment):
        return TOO_FAST_PROMPTS
    return None


def least_step_s(deployment: Deployment) -> float:
    """Reading once what a decode step needs: visited weights without embeddings, and everybody's keys at mean length.

    A low bound: without other experts, activations and collectives."""
    plan, model, precision = deployment.plan, deployment.model, deployment.precision
    shortest = deployment.client.shortest if deployment.client else 1.0
    length = shortest * (deployment.input_length + 0.5 * deployment.output_length)
    users = 0 if deployment.saturated else deployment.users / (deployment.instances * plan.dp)
    keys = sum(
        group.count * layer_bytes(group, kv_cache_bits(precision), plan.tp, length) * users for group in model.layers
    )
    weights = sum(group.count * _layer_bytes(deployment, group) for group in model.layers)
    return float(weights + keys) / plan.pp / deployment.device.memory_bandwidth_bytes_per_s


def _layer_bytes(deployment: Deployment, group: LayerGroup) -> float:
    plan, hidden = deployment.plan, deployment.model.hidden_size
    linear = _bytes_a_weight(deployment.precision.linear)
    mixers = _bytes_a_weight(deployment.precision.mixers or deployment.precision.linear)
    attention = mixers * attention_parameters(deployment.model, group) / plan.tp
    if group.mlp is None:
        return attention
    if not isinstance(group.mlp, MoeMlp):
        return attention + linear * (3 if group.mlp.gated else 2) * hidden * group.mlp.intermediate_size / plan.tp
    visited = group.mlp.experts_per_token * group.mlp.expert_weights(hidden)
    experts = _bytes_a_weight(deployment.precision.experts or deployment.precision.linear)
    return attention + experts * visited / (plan.ep * plan.moe_tp)


def _bytes_a_weight(name: str) -> float:
    known = linear_format(name)
    return (known.weight_bits + known.scale_bits_per_weight) / 8


def _tokens(deployment: Deployment) -> float:
    return deployment.input_length + deployment.output_length


def _operations(deployment: Deployment, tokens: float) -> float:
    """Two per visited weight; without attention, head and embedding."""
    model = deployment.model
    ends = model.vocab_size * model.hidden_size * (1 if model.tie_word_embeddings else 2)
    return 2.0 * (parameter_count(model).active - ends) * tokens


def _requests_per_s(deployment: Deployment, metrics: Mapping[str, float]) -> float:
    if "requests_per_s" in metrics:
        return metrics["requests_per_s"]
    if "output_tokens_per_s" in metrics and deployment.mode != "decode":
        return metrics["output_tokens_per_s"] / deployment.output_length
    if deployment.mode in {"aggregated", "disaggregated"} and {"ttft_ms", "tpot_exclusive_ms"} <= metrics.keys():
        whole = metrics["ttft_ms"] + (deployment.output_length - 1) * metrics["tpot_exclusive_ms"]
        shortest = deployment.client.shortest if deployment.client else 1.0
        return shortest * 1e3 * deployment.users / whole
    return 0.0


def _prompt_operations_per_s(deployment: Deployment, metrics: Mapping[str, float]) -> float:
    """While prompts are computed: a batch to its last token, or one to its first."""
    shortest = deployment.client.shortest if deployment.client else 1.0
    one = _operations(deployment, shortest * deployment.input_length)
    if "prefill_latency_ms" in metrics:
        return 1e3 * deployment.users * one / metrics["prefill_latency_ms"]
    return 1e3 * one / metrics["ttft_ms"] if "ttft_ms" in metrics else 0.0


def _peak(deployment: Deployment) -> float:
    return deployment.num_devices * max(_rate(deployment.device, name) for name in _formats(deployment.precision))


def _formats(precision: Precision) -> tuple[str, ...]:
    return (precision.linear, precision.experts or precision.linear)


def _rate(device: DeviceProfile, name: str) -> float:
    rates = dict(device.matrix_flops_per_s)
    return rates.get(linear_format(name).compute) or rates.get("fp16") or rates["bf16"]


# The engines' default: the share of what weights leave that keys and values take (TensorRT-LLM's
# `free_gpu_memory_fraction`); under vLLM the share of all memory that both take (`gpu_memory_utilization`).
MEMORY_SHARE = 0.9
LARGEST_PLANNED_BATCH = 2048  # of one replica: the largest that trtllm-bench plans for
HALF_BYTES = 2.0
WHOLE_PROMPTS = "vllm_v0"  # takes prompts in one piece


def saturated_users(model: ModelSpec, device: DeviceProfile, precision: Precision, plan: Plan, tokens: float) -> int:
    """Over all replicas, each reserving `tokens` to its end.

    Left out: activations, runtime memory, part-filled blocks."""
    free = MEMORY_SHARE * (device.memory_bytes - _weight_bytes(model, precision, plan))
    return plan.dp * max(1, min(LARGEST_PLANNED_BATCH, _held(model, precision, plan, free, tokens)))


def seats_in_memory(deployment: Deployment, *, whole: bool = False) -> int | None:
    """A replica's requests that memory holds, where more are asked; None: all.

    One counts at its mean length, since engines admit while blocks are left; `whole`, as in a batch, at its last. None
    also where weights do not fit. TensorRT-LLM's checkpoints bring narrow keys that rows do not state: eight bits."""
    model, precision, plan = deployment.model, deployment.precision, deployment.plan
    if (deployment.engine or "").startswith("trtllm"):
        precision = replace(precision, attention="FP8")
    memory, weights = deployment.device.memory_bytes, _weight_bytes(model, precision, plan)
    vllm = (deployment.engine or "vllm").startswith("vllm")
    free = MEMORY_SHARE * memory - weights if vllm else MEMORY_SHARE * (memory - weights)
    if deployment.engine == WHOLE_PROMPTS:
        free -= _tried_bytes(model, precision, plan, free)
    grown = deployment.output_length * (1.0 if whole else 0.5)
    held = _held(model, precision, plan, free, deployment.input_length + grown)
    return held if 0 < held < deployment.users_of_replica else None


def _tried_bytes(model: ModelSpec, precision: Precision, plan: Plan, free: float) -> float:
    """Activations of the largest step, which vLLM tries before it divides what is left into blocks.

    Without chunks that step is as long as the context: the model's, or the longest whose keys fit beside it.
    vllm/worker/worker.py, determine_num_available_blocks at 0.6.3."""
    token, key = _activation_bytes(model, plan), _key_bytes(model, precision, plan, 1.0)
    context = free / (token + key)
    return token * min(context, model.max_positions or context)


def _activation_bytes(model: ModelSpec, plan: Plan) -> float:
    """Of a token at its most: the residual, what an MLP reads, and both sides of its activation."""
    inner = max((_inner(model, group, plan) for group in model.layers), default=0.0)
    return HALF_BYTES * (2 * model.hidden_size + inner)


def _inner(model: ModelSpec, group: LayerGroup, plan: Plan) -> float:
    if isinstance(group.mlp, MoeMlp):
        return group.mlp.experts_per_token * (model.hidden_size + 3 * group.mlp.intermediate_size / plan.moe_tp)
    return 3 * group.mlp.intermediate_size / plan.tp if group.mlp is not None else 0.0


def _key_bytes(model: ModelSpec, precision: Precision, plan: Plan, tokens: float) -> float:
    every = sum(group.count * layer_bytes(group, kv_cache_bits(precision), plan.tp, tokens) for group in model.layers)
    return every / plan.pp


def _held(model: ModelSpec, precision: Precision, plan: Plan, free: float, tokens: float) -> int:
    """In the free bytes of a replica; below 1: too few."""
    one = _key_bytes(model, precision, plan, tokens)
    return int(free / one) if one else LARGEST_PLANNED_BATCH


def _weight_bytes(model: ModelSpec, precision: Precision, plan: Plan) -> float:
    """A device's: experts by their split, ends in 16 bits, mixers in theirs, the rest as linears."""
    expert = sum(
        group.count * group.mlp.experts * group.mlp.expert_weights(model.hidden_size)
        for group in model.layers
        if isinstance(group.mlp, MoeMlp)
    )
    ends = model.vocab_size * model.hidden_size * (1 if model.tie_word_embeddings else 2)
    mixing = sum(group.count * attention_parameters(model, group) for group in model.layers)
    rest = parameter_count(model).total - expert - ends - mixing
    split = plan.ep * plan.moe_tp * plan.pp
    linear, experts = _bytes_a_weight(precision.linear), _bytes_a_weight(precision.experts or precision.linear)
    mixers = _bytes_a_weight(precision.mixers or precision.linear)
    shared = rest * linear + mixing * mixers + ends * HALF_BYTES
    return expert * experts / split + shared / (plan.tp * plan.pp)
