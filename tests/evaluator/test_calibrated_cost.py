"""The calibrated family behind the cost interface, on a made-up device and on the shipped ones."""

from dataclasses import replace

import numpy as np
import pytest

from evaluator.calibration.carrying import form_of
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.base import DeviceFigures, figures_of
from evaluator.calibration.lookup import attention_kernel, kernel_format, product_kernel
from evaluator.evaluate import cost_of
from evaluator.graph.operators import (
    Affine,
    AttentionExtents,
    CollectiveExtents,
    ExpertExtents,
    GemmExtents,
    Operator,
)
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.calibration_record import Calibration, calibration_to_json, carried_to
from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import CARRIED, FITTED, PARTLY_MEASURED, shipped_calibration
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.calibrated import CalibratedCost, calibrated_cost
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.theoretical import reach
from evaluator.scenario import Scenario, evened_out
from store.errors import InputError

VALUES = {
    name: {
        parameter.name: parameter.choices[0] if parameter.choices else parameter.starts[0]
        for parameter in form.parameters
    }
    for name, form in FORMS.items()
}
KERNELS = {
    "gemm.bf16": VALUES["matmul"],
    "gemm.fp8": VALUES["matmul"] | {"fixed_us": 9.0},
    "prefill_attention.bf16.kv_bf16.d128": VALUES["prefill_attention"],
    "decode_attention.gqa.kv_bf16.d128": VALUES["decode_attention"],
    "moe.bf16.gated.balanced": VALUES["experts"],
    "collective.all_reduce": VALUES["collective"],
    "collective.all_reduce_custom": VALUES["collective"] | {"fixed_us": 2.0},
    "collective.all_gather": VALUES["collective"],
    "elementwise": {"fixed_us": 2.0, "memory_efficiency": 0.8, "cache_mb": 1e4, "beyond_efficiency": 1.0},
}
CALIBRATION = Calibration(device="toy", kernels=KERNELS, accuracy={}, includes=("rope", "quantise", "moe_routing"))
PROFILE = DeviceProfile(
    name="toy",
    vendor="none",
    family="calibrated",
    matrix_flops_per_s=(("bf16", 100e12), ("fp8", 200e12)),
    vector_flops_per_s=(("bf16", 10e12),),
    memory_bytes=2**36,
    memory_bandwidth_bytes_per_s=1e12,
    grid=(4, 8),
    links=(
        Link(bandwidth_bytes_per_s=10e9, latency_s=5e-6, efficiency=1.0),
        Link(bandwidth_bytes_per_s=100e9, latency_s=1e-6, efficiency=1.0),
    ),
    compute_efficiency=0.7,
    memory_efficiency=0.6,
    matrix_static_s=5e-6,
    vector_static_s=2e-6,
    communication_static_s=5e-6,
    compute_units=100,
    calibration=calibration_to_json(CALIBRATION),
)
FIGURES = DeviceFigures(
    matrix_flops_per_s=PROFILE.matrix_flops_per_s,
    memory_bytes_per_s=1e12,
    link_bytes_per_s=100e9,
    compute_units=100,
)
TOKENS = np.array([1.0, 7.0, 64.0, 2048.0])
SUMS = BatchSums(tokens=TOKENS, sequences=TOKENS, pairs=1000 * TOKENS, keys=1000 * TOKENS)
GEMM = Operator(
    kind="gemm", label="x", counts=(1,), weight_format="BF16", gemm=GemmExtents(m=Affine(tokens=1), n=4096, k=1024)
)


def cost(**changes) -> CostModel:
    return calibrated_cost(replace(PROFILE, **changes))


def collective(kind, group, stride=1, bytes_each=1000):
    extents = CollectiveExtents(group_size=group, stride=stride, payload_bytes=Affine(tokens=bytes_each))
    return Operator(kind=kind, label="x", counts=(1,), collective=extents)


def attention(kind, query_heads=32, kv_heads=8, window=None):
    extents = AttentionExtents(
        query_heads=query_heads, kv_heads=kv_heads, head_dim=128, value_head_dim=128, window=window
    )
    return Operator(kind=kind, label="x", counts=(1,), attention=extents)


def experts(role, tokens=1):
    extents = ExpertExtents(
        tokens=Affine(tokens=tokens),
        experts=64,
        local_experts=16,
        ranks=4,
        experts_per_token=4,
        hidden_size=1024,
        intermediate_size=512,
        role=role,
    )
    return Operator(kind="moe_grouped_gemm", label="x", counts=(1,), weight_format="BF16", experts=extents)


def test_a_product_is_priced_by_its_form():
    inputs = {
        "m": TOKENS,
        "n": 4096.0,
        "k": 1024.0,
        "weight_bytes": 2.0,
        "activation_bytes": 2.0,
        "peak_flops_per_s": 100e12,
        "quantises": 0.0,
    }
    expected = FORMS["matmul"].seconds(VALUES["matmul"], inputs, FIGURES)
    seconds = cost().operator_seconds(GEMM, SUMS)
    assert seconds.total() == pytest.approx(expected)
    assert seconds.overhead == pytest.approx(VALUES["matmul"]["fixed_us"] * 1e-6)


def test_no_rows_of_logits_cost_nothing():
    none = BatchSums(tokens=TOKENS, sequences=0 * TOKENS, pairs=TOKENS, keys=TOKENS)
    head = replace(GEMM, gemm=GemmExtents(m=Affine(sequences=1), n=4096, k=1024))
    assert (cost().operator_seconds(head, none).total() == 0).all()


def test_kinds_inside_measured_kernels_are_not_priced_twice():
    rope = Operator(kind="rope", label="x", counts=(1,), bytes_read=Affine(tokens=1000))
    assert cost().operator_seconds(rope, SUMS).total() == 0.0
    between = Operator(
        kind="activation", label="layers.mlp.experts.activation", counts=(1,), bytes_read=Affine(tokens=1000)
    )
    shared = replace(between, label="layers.mlp.shared_experts.activation")
    assert cost().operator_seconds(between, SUMS).total() == 0.0
    assert (cost().operator_seconds(shared, SUMS).total() > 0).all()


def test_the_quantisation_measured_with_narrow_products_is_priced_where_the_step_has_it():
    # measured fixed time 9 us with, 3 us of the 16-bit product without: 3 us are the product's own
    narrow = cost().operator_seconds(replace(GEMM, weight_format="FP8"), SUMS)
    assert narrow.overhead == pytest.approx(np.full(4, 3e-6))
    quantise = Operator(kind="quantise", label="layers.output_proj", counts=(1,), bytes_read=Affine(tokens=8000))
    assert cost().operator_seconds(quantise, SUMS).total() == pytest.approx(2e-6 + 1e-8 * TOKENS)
    of_experts = replace(quantise, label="layers.mlp.experts")
    assert cost().operator_seconds(of_experts, SUMS).total() == 0.0


def test_memory_bound_operators_by_hand():
    # 3 launches x 2 us + 8000 bytes a token at 0.8 TB/s = 10 ns a token
    operator = Operator(
        kind="norm",
        label="x",
        counts=(1,),
        launches=3,
        bytes_read=Affine(tokens=6000),
        bytes_written=Affine(tokens=2000),
    )
    assert cost().operator_seconds(operator, SUMS).total() == pytest.approx(6e-6 + 1e-8 * TOKENS)


@pytest.mark.parametrize("kind", ["attention_prefill", "attention_decode"])
def test_attention_grows_with_what_is_attended(kind):
    more = BatchSums(tokens=TOKENS, sequences=TOKENS, pairs=9000 * TOKENS, keys=9000 * TOKENS)
    few, many = (cost().operator_seconds(attention(kind), sums).total() for sums in (SUMS, more))
    assert (many > few).all()


def test_experts_apart_add_up_to_the_measured_kernel():
    whole, up, down = (cost().operator_seconds(experts(role), SUMS).total() for role in ("both", "gate_up", "down"))
    assert up + down == pytest.approx(whole)


def test_experts_of_blocks_take_no_less_than_their_padded_rows_take_through_the_cache():
    """One rank of two of Qwen3-235B: 128 experts of 4,096 x 768, whose 128 rows each are 2.416e9 bytes of tiles."""
    extents = ExpertExtents(
        tokens=Affine(tokens=1),
        experts=128,
        local_experts=128,
        ranks=2,
        experts_per_token=8,
        hidden_size=4096,
        intermediate_size=768,
        role="both",
    )
    blocks = Operator(kind="moe_grouped_gemm", label="x", counts=(1,), weight_format="FP8_BLOCK", experts=extents)
    hopper = load_device("h200_sxm", family="calibrated")
    usual, padded = (calibrated_cost(hopper, expert_rows=rows).operator_seconds(blocks, SUMS) for rows in (0, 128))
    own = np.asarray(usual.matrix) + usual.memory
    # 128 x 2 x 3 x 4,096 x 768 bytes at 132 x 47e9 bytes/s: 0.3895 ms, however few tokens there are.
    np.testing.assert_allclose(np.asarray(padded.matrix) + padded.memory, np.maximum(own, 389.5e-6), rtol=1e-3)
    assert own[0] < 100e-6
    assert own[-1] > 389.5e-6
    wide = replace(blocks, weight_format="BF16")
    for device, operator in ((hopper, wide), (load_device("b200_sxm", family="calibrated"), blocks)):
        same = [calibrated_cost(device, expert_rows=rows).operator_seconds(operator, SUMS) for rows in (0, 128)]
        np.testing.assert_array_equal(same[0].total(), same[1].total())


@pytest.mark.parametrize(("tp", "engine", "rows"), [(4, "vllm_sync", 128), (8, "vllm_sync", 0), (4, "vllm", 0)])
def test_experts_are_padded_by_the_engine_that_does_so(tp, engine, rows):
    scenario = Scenario(
        model=load_model("Qwen/Qwen3-30B-A3B"),
        device=load_device("h200_sxm", family="calibrated"),
        precision=Precision(linear="FP8_BLOCK"),
        plan=Plan(tp=tp, moe_tp=tp),
        workload=Workload(input_length=1000, output_length=100.0),
        phase="decode",
        serving_model=engine,
    )
    assert cost_of(scenario).expert_rows == rows


def test_narrow_experts_take_the_faster_of_two_implementations():
    fast = VALUES["experts"] | {"fixed_us": 1.0, "compute_efficiency": 1.0, "memory_efficiency": 1.0}
    kernels = KERNELS | {"moe.nvfp4.gated.balanced.low_latency": fast}
    both = cost(calibration=calibration_to_json(replace(CALIBRATION, kernels=kernels)))
    narrow, wide = (replace(experts("both"), weight_format=form) for form in ("FP8_BLOCK", "BF16"))
    assert (both.operator_seconds(narrow, SUMS).total() < cost().operator_seconds(narrow, SUMS).total()).all()
    assert both.operator_seconds(wide, SUMS).total() == pytest.approx(cost().operator_seconds(wide, SUMS).total())


def test_all_reduce_takes_the_faster_kernel_inside_one_level():
    inside = cost().operator_seconds(collective("all_reduce", 8), SUMS).communication
    custom_only = KERNELS["collective.all_reduce_custom"]
    inputs = {"message_bytes": 1000 * TOKENS, "group": 8.0, "passes": 2.0, "one_shot": 1.0}
    custom = FORMS["collective"].seconds(custom_only, inputs, FIGURES)
    plain = FORMS["collective"].seconds(VALUES["collective"], inputs | {"one_shot": 0.0}, FIGURES)
    assert inside == pytest.approx(np.minimum(custom, plain))


def test_a_group_beyond_the_innermost_level_uses_the_slower_link():
    assert reach(PROFILE, 8, 1)[0].bandwidth_bytes_per_s == 100e9
    assert reach(PROFILE, 2, 8)[0].bandwidth_bytes_per_s == 10e9
    assert reach(PROFILE, 64, 1) == (PROFILE.links[0], 3)
    near, far = (cost().operator_seconds(collective("all_gather", 8, stride), SUMS).communication for stride in (1, 4))
    assert (far > near).all()


def test_one_device_needs_no_collective():
    assert cost().operator_seconds(collective("all_reduce", 1), SUMS).total() == 0.0


def test_nearest_coefficients_but_its_own_bytes_and_peak():
    assert product_kernel(CALIBRATION, "gemm", "nvfp4") == "gemm.fp8"
    assert product_kernel(CALIBRATION, "gemm", "w4a16") == "gemm.bf16"
    assert kernel_format("W8A8_STATIC").name == "int8"
    assert kernel_format("MXFP4", FIGURES).name == "w4a16_mxfp4"  # this device has no FP4 unit
    assert attention_kernel(CALIBRATION, "decode_attention.mha", "fp8", 64, None) == "decode_attention.gqa.kv_bf16.d128"
    with pytest.raises(InputError, match="no kernel mla_prefill"):
        attention_kernel(CALIBRATION, "mla_prefill", "bf16", 192, None)
    with pytest.raises(InputError, match="no calibrated kernel format"):
        kernel_format("BASE64")


def test_assumptions_say_what_is_carried_and_what_is_inside():
    carried = calibration_to_json(carried_to(CALIBRATION, "other"))
    said = " ".join(cost(calibration=carried).assumptions)
    assert "carried over from toy" in said
    assert "rope" in said
    assert cost().convention == "physical"


def test_a_profile_without_calibration_is_refused():
    with pytest.raises(InputError, match="has no calibration"):
        calibrated_cost(replace(PROFILE, calibration=None))
    with pytest.raises(InputError, match="unknown routing"):
        calibrated_cost(PROFILE, routing="fair")


@pytest.mark.parametrize("device", [*FITTED, *PARTLY_MEASURED])
def test_shipped_coefficients_lie_inside_their_bounds(device):
    calibration = shipped_calibration(device)
    assert calibration.carried_from is None
    for kernel in set(calibration.kernels) - set(calibration.carried):
        values = calibration.kernels[kernel]
        form = form_of(kernel, values)
        assert set(values) == {parameter.name for parameter in form.parameters}
        for parameter in form.parameters:
            value = values[parameter.name]
            assert value in parameter.choices or parameter.low * 0.999 <= value <= parameter.high * 1.001, (
                kernel,
                parameter,
            )


@pytest.mark.parametrize("device", [*FITTED, *PARTLY_MEASURED, *CARRIED])
def test_every_shipped_device_prices_every_kind(device):
    from evaluator.inputs.devices.device_profiles import load_device

    model = calibrated_cost(load_device(device, family="calibrated"))
    assert isinstance(model, CalibratedCost)
    assert model.calibration.carried_from == CARRIED.get(device)
    mla = AttentionExtents(query_heads=16, kv_heads=1, head_dim=576, value_head_dim=512, kv_bits=8)
    operators = [
        GEMM,
        *(
            replace(GEMM, weight_format=form)
            for form in ("FP8", "FP8_BLOCK", "NVFP4", "W8A8_DYNAMIC", "W4A16", "MXFP4")
        ),
        replace(GEMM, kind="batched_gemm", gemm=GemmExtents(m=Affine(tokens=1), n=512, k=128, batch=16)),
        attention("attention_prefill"),
        attention("attention_decode"),
        attention("attention_decode", 64, 1, 128),
        replace(attention("mla_decode"), attention=mla),
        replace(
            attention("mla_prefill"),
            attention=AttentionExtents(query_heads=16, kv_heads=16, head_dim=192, value_head_dim=128),
        ),
        experts("both"),
        *(collective(kind, 8) for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_receive")),
        Operator(kind="norm", label="x", counts=(1,), bytes_read=Affine(tokens=1000)),
    ]
    for operator in operators:
        seconds = model.operator_seconds(operator, SUMS).total()
        assert np.isfinite(seconds).all(), operator
        assert (seconds > 5e-7).all(), operator
        assert (seconds < 1.0).all(), operator
    assert figures_of(model.profile).compute_units > 1


def test_every_number_format_there_is_has_a_kernel_format():
    from evaluator.inputs.formats import LINEAR_NAMES

    for name in LINEAR_NAMES:
        wanted = kernel_format(name, FIGURES)
        assert product_kernel(CALIBRATION, "gemm", wanted.name) in {"gemm.bf16", "gemm.fp8"}


@pytest.mark.parametrize(
    ("phase", "plan", "routing"),
    [
        ("decode", Plan(dp=8, ep=8), "balanced"),
        ("decode", Plan(dp=4, tp=2, ep=8), "balanced"),
        ("decode", Plan(dp=4, ep=4), "power_law_1.2"),
        ("decode", Plan(tp=8, ep=8), "power_law_1.2"),  # one attention replica: no copies of busy experts
        ("aggregated", Plan(dp=8, ep=8), "power_law_1.2"),
    ],
)
def test_decode_instances_of_many_replicas_even_out_their_experts(phase, plan, routing):
    scenario = Scenario(
        model=load_model("Qwen/Qwen3-30B-A3B"),
        device=load_device("h200_sxm", family="calibrated"),
        precision=Precision(linear="BF16"),
        plan=plan,
        workload=Workload(input_length=1000, output_length=100.0),
        phase=phase,
        serving_model="sglang",
        routing="power_law_1.2",
    )
    assert evened_out(scenario) is (routing == "balanced")
    assert cost_of(scenario).routing == routing
