"""Plans that an engine can launch as one server, by its documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gcd

from evaluator.inputs.formats import BLOCK_COLUMNS, WIDE, Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import LayerGroup, ModelSpec, MoeMlp
from store.light_dataclass import dataclass

Rule = Callable[[Plan, bool], bool]  # (plan, whether the model has routed experts)
_SHARES = frozenset({"dcp", "redundant_experts", "pcp", "micro_batches", "encoder_devices"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """An engine that launch files are written for."""

    title: str
    rule: Rule
    words: str  # of the rule
    shares: frozenset[str] = _SHARES  # those of Plan.shares that its launch files write
    encoders_apart: bool = False  # files start encoders on devices of their own
    image_budget: bool = False  # a step encodes no more images than tokens of prompts fit into it
    quantises: bool = False  # it makes FP8 of 16-bit weights as it loads them (--quantization fp8)
    keys_first: bool = False  # a prompt starts when its keys from outside the devices are there
    whole_blocks: bool = False  # it refuses to slice blocks of weights that share a scale
    splits_vocabulary: bool = False  # tensor parallel ranks share the rows of the embedding (VocabParallelEmbedding)
    cuda_alone: bool = False  # it has kernels for devices of NVIDIA, and for no others


def _vllm(plan: Plan, routed: bool) -> bool:
    """Experts split over tp x dp devices: whole with `--enable-expert-parallel`, sliced without.

    Expert Parallel Deployment, https://docs.vllm.ai/en/latest/serving/expert_parallel_deployment/: EP size = TP x DP;
    Data Parallel Deployment beside it. Copies need expert parallelism (`--enable-eplb`). Others:
    `--decode-context-parallel-size`, `--prefill-context-parallel-size` (a stage is DP x PCP x TP), `--enable-dbo`."""
    group = plan.stage_devices
    if plan.redundant_experts and plan.ep == 1:
        return False
    return not routed or (plan.ep, plan.moe_tp) in {(group, 1), (1, group)}


def _sglang(plan: Plan, routed: bool) -> bool:
    """`--tp-size` counts every device of a stage; `--ep-size` divides it, and slices of experts take the rest.

    https://docs.sglang.io/cookbook/base/reference/server_arguments. Replicas of a dense model are `--dp-size` alone;
    pipelines of several replicas are not documented. `--attn-cp-size` is carved out of `--tp-size`, too
    (https://docs.sglang.io/docs/advanced_features/prefill_cp)."""
    one_pipeline = plan.pp == 1 or plan.groups == 1
    if plan.redundant_experts and plan.ep == 1:
        return False
    return one_pipeline and (not routed or plan.ep * plan.moe_tp == plan.stage_devices)


def _trtllm(plan: Plan, routed: bool) -> bool:
    """Attention is split by tp or, with `enable_attention_dp`, replicated on every device of a stage.

    https://nvidia.github.io/TensorRT-LLM/features/parallel-strategy.html: `moe_tensor_parallel_size` x
    `moe_expert_parallel_size` = `tensor_parallel_size`. A dense model has no replicas inside a server."""
    if not routed:
        return plan.dp == 1
    one_pipeline = plan.pp == 1 or plan.dp == 1
    return one_pipeline and 1 in {plan.tp, plan.dp} and plan.ep * plan.moe_tp == plan.tp * plan.dp


LAUNCHERS: Mapping[str, Launcher] = {
    "vllm": Launcher(
        title="vLLM",
        rule=_vllm,
        words="experts are whole on each of tp x dp x pcp devices, or slices over all of them",
        image_budget=True,
        quantises=True,
        keys_first=True,
        whole_blocks=True,
        splits_vocabulary=True,
    ),
    "sglang": Launcher(
        title="SGLang",
        rule=_sglang,
        words="ep x moe_tp must be tp x dp x pcp, and a pipeline has one replica",
        encoders_apart=True,
        quantises=True,
        whole_blocks=True,
        splits_vocabulary=True,
    ),
    "trtllm": Launcher(
        title="TensorRT-LLM",
        rule=_trtllm,
        words="experts split over tp or over attention replicas, not both, and a dense model has one replica",
        shares=frozenset(),  # its own ways of them, such as helix parallelism, are not written
        keys_first=True,
        cuda_alone=True,  # https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html
    ),
}


def launchable_by(model: ModelSpec, plan: Plan, precision: Precision = WIDE, *, cuda: bool = True) -> tuple[str, ...]:
    whole = not slices_blocks(model, plan, precision)
    return tuple(
        name
        for name, launcher in LAUNCHERS.items()
        if launches(name, plan, routed=model.routed)
        and (whole or not launcher.whole_blocks)
        and (cuda or not launcher.cuda_alone)
    )


def slices_blocks(model: ModelSpec, plan: Plan, precision: Precision) -> bool:
    """Qwen3-235B-A22B-FP8 over 8 slices: 1,536 / 8 = 192 columns are one and a half blocks of 128.

    vLLM's and SGLang's `Fp8MoEMethod.create_weights` and `validate_fp8_block_shape` raise ValueError there
    (https://github.com/vllm-project/vllm/issues/17569, https://github.com/QwenLM/Qwen3/issues/1485)."""
    return any(_parted(group, plan, precision) for group in model.layers)


def _parted(group: LayerGroup, plan: Plan, precision: Precision) -> bool:
    if group.mlp is None:
        return False
    routed = isinstance(group.mlp, MoeMlp)
    slices = plan.moe_tp if routed else plan.tp
    columns = BLOCK_COLUMNS.get(precision.experts or precision.linear if routed else precision.linear)
    return columns is not None and slices > 1 and group.mlp.intermediate_size % (slices * columns) != 0


def launches(engine: str, plan: Plan, *, routed: bool) -> bool:
    launcher = LAUNCHERS[engine]
    return launcher.rule(plan, routed) and plan.shares.keys() <= launcher.shares


def rule_of(serving_model: str) -> str | None:
    """`vllm` for `vllm`, `vllm_v0` and `vllm-mine@0a239add`; formulas and other names have no rule."""
    return next((name for name in LAUNCHERS if serving_model.startswith(name)), None)


def launcher_of(serving_model: str) -> Launcher | None:
    name = rule_of(serving_model)
    return None if name is None else LAUNCHERS[name]


def smaller_servers(plan: Plan) -> tuple[Plan, ...]:
    """Plans that this one repeats: replicas whose experts are apart exchange nothing.

    Dense: tp 2, dp 4 is 2 x (tp 2, dp 2) and 4 x tp 2. A mixture: tp 1, dp 16, ep 8, moe_dp 2 is 2 x (tp 1, dp 8, ep
    8, moe_dp 1), by the greatest common divisor. Encoders are divided likewise."""
    dense = (plan.ep, plan.moe_tp, plan.moe_dp) == (1, 1, 1)
    most = gcd(plan.dp if dense else gcd(plan.dp, plan.moe_dp), plan.encoder_devices or plan.dp)
    return tuple(
        replace(
            plan,
            dp=plan.dp // copies,
            moe_dp=1 if dense else plan.moe_dp // copies,
            encoder_devices=plan.encoder_devices // copies,
        )
        for copies in range(2, most + 1)
        if most % copies == 0
    )
