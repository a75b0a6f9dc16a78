"""How many requests an instance holds that is asked for everything at once: what its memory decides.

Not here: memory of scenarios with activations (evaluator.serving.occupancy)."""

from __future__ import annotations

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.formats import linear_format
from evaluator.inputs.model import ModelSpec, MoeMlp
from evaluator.inputs.parameters import attention_parameters, parameter_count
from evaluator.inputs.plan import Plan
from evaluator.inputs.precision import Precision
from evaluator.pricing.kv_state import layer_bytes

FREE_SHARE = 0.9  # of what weights leave, for keys and values: the engines' default
LARGEST_PLANNED_BATCH = 2048  # of one replica: the largest that trtllm-bench plans for
HALF_BYTES = 2.0


def saturated_users(model: ModelSpec, device: DeviceProfile, precision: Precision, plan: Plan, tokens: float) -> int:
    """Requests in flight on all replicas where each reserves `tokens` of keys and values to its end.

    Left out: activations, the runtime's own memory, blocks that are not full."""
    free = FREE_SHARE * (device.memory_bytes - _weight_bytes(model, precision, plan))
    bits = 16 if precision.cache == "DISABLED" else 8
    one = sum(group.count * layer_bytes(group, bits, plan.tp, tokens) for group in model.layers)
    return plan.dp * max(1, min(LARGEST_PLANNED_BATCH, int(free / (one / plan.pp))))


def _weight_bytes(model: ModelSpec, precision: Precision, plan: Plan) -> float:
    """Of one device: experts by how they are split, ends in 16 bits, mixers in theirs, all else as linears."""
    expert = sum(
        group.count * group.mlp.experts * group.mlp.expert_weights(model.hidden_size)
        for group in model.layers
        if isinstance(group.mlp, MoeMlp)
    )
    ends = model.vocab_size * model.hidden_size * (1 if model.tie_word_embeddings else 2)
    mixing = sum(group.count * attention_parameters(model, group) for group in model.layers)
    rest = parameter_count(model).total - expert - ends - mixing
    split = plan.ep * plan.moe_tp * plan.pp
    linear, experts = _bytes_of(precision.linear), _bytes_of(precision.experts or precision.linear)
    mixers = _bytes_of(precision.mixers or precision.linear)
    shared = rest * linear + mixing * mixers + ends * HALF_BYTES
    return expert * experts / split + shared / (plan.tp * plan.pp)


def _bytes_of(name: str) -> float:
    known = linear_format(name)
    return (known.weight_bits + known.scale_bits_per_weight) / 8
