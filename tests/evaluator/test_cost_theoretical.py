"""The theoretical family on the seeds' TEST_DEVICE: rooflines, static costs, collectives and missing dtypes by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import TEST_DEVICE

from evaluator.graph.operators import Affine, CollectiveExtents, ExpertExtents, GemmExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.device import Link
from evaluator.pricing.theoretical import TheoreticalCost, link_of_group, transfer_seconds

BANDWIDTH = 0.96 * 2**40  # effective bytes/s
COST = TheoreticalCost(device=TEST_DEVICE)


def batch(tokens):
    zero = np.zeros_like(np.asarray(tokens, dtype=float))
    return BatchSums(tokens=np.asarray(tokens, dtype=float), sequences=zero, pairs=zero, keys=zero)


def gemm(dtype="int8", **options):
    return Operator(
        kind="gemm",
        label="linear",
        counts=(1,),
        matrix_flops=Affine(tokens=2 * 5120 * 6400),
        matrix_dtype=dtype,
        bytes_read=Affine(constant=5120 * 6400, tokens=5120),
        bytes_written=Affine(tokens=2 * 6400),
        gemm=GemmExtents(m=Affine(tokens=1), n=6400, k=5120),
        **options,
    )


def test_a_small_product_is_bound_by_its_weights():
    seconds = COST.operator_seconds(gemm(), batch([16]))
    # 32,768,000 + 16 x 17,920 = 33,054,720 bytes: 31.316 us, and 5 us static
    assert seconds.memory == pytest.approx(33_054_720 / BANDWIDTH)
    assert seconds.matrix == 0.0
    assert seconds.overhead == 5e-6
    assert seconds.total() == pytest.approx(36.316e-6, rel=1e-4)


def test_a_large_product_is_bound_by_the_matrix_unit():
    seconds = COST.operator_seconds(gemm(), batch([56000]))
    # 2 x 56000 x 5120 x 6400 / (707.8 T x 0.7) = 7.407 ms
    assert seconds.matrix == pytest.approx(2 * 56000 * 5120 * 6400 / (707.8e12 * 0.7))
    assert seconds.memory == 0.0


def test_matrix_and_vector_work_add_up_before_they_are_compared_with_memory():
    attention = Operator(
        kind="attention_prefill",
        label="attention",
        counts=(1,),
        matrix_flops=Affine(pairs=4 * 8 * 128),
        vector_flops=Affine(pairs=4 * 8),
        bytes_read=Affine(tokens=2048),
    )
    sums = BatchSums(
        tokens=np.asarray(56000.0),
        sequences=np.asarray(16.0),
        pairs=np.asarray(16 * 3500.0**2),
        keys=np.asarray(56000.0),
    )
    seconds = COST.operator_seconds(attention, sums)
    # 16 x 3500^2 x 8 scores: 8.028e11 / 247.73e12 = 3.2407 ms and 6.272e9 / 7.7e12 = 0.8145 ms
    assert seconds.matrix == pytest.approx(3.2407e-3, rel=1e-4)
    assert seconds.vector == pytest.approx(0.8145e-3, rel=1e-4)
    assert seconds.total() == pytest.approx(4.0602e-3, rel=1e-4)


def test_launches_multiply_the_static_cost():
    assert COST.operator_seconds(gemm(launches=3), batch([1])).overhead == pytest.approx(15e-6)
    norm = Operator(kind="norm", label="norm", counts=(1,), bytes_read=Affine(tokens=2))
    assert COST.operator_seconds(norm, batch([1])).overhead == pytest.approx(2e-6)


def test_a_missing_dtype_is_widened_and_upstream_drops_its_time():
    without = replace(TEST_DEVICE, matrix_flops_per_s=(("fp16", 280e12), ("bf16", 245.8e12), ("int8", 560e12)))
    physical = TheoreticalCost(device=without)
    assert physical.widened("fp4") == "fp16"  # no fp8 either; integers are no home for floats
    assert physical.widened("int8") == "int8"
    assert physical.widened("bf16") == "fp16"  # sixteen bits run at the family's fp16 figure
    seconds = physical.operator_seconds(gemm("fp8"), batch([56000]))
    assert seconds.matrix == pytest.approx(2 * 56000 * 5120 * 6400 / (280e12 * 0.7))
    dropped = TheoreticalCost(device=without, convention="upstream").operator_seconds(gemm("fp8"), batch([56000]))
    assert dropped.matrix == 0.0
    assert dropped.memory > 0


def test_touched_experts_are_read_and_widened():
    extents = ExpertExtents(
        tokens=Affine(tokens=1),
        experts=4,
        local_experts=2,
        ranks=2,
        experts_per_token=1,
        hidden_size=8,
        intermediate_size=8,
    )
    grouped = Operator(
        kind="moe_grouped_gemm",
        label="experts",
        counts=(1,),
        expert_bytes=10**9,
        expert_vector_flops=10**6,
        experts=extents,
        matrix_flops=Affine(tokens=1),
    )
    # E[touched] = 2 (1 - (1 - 1/4)^2) = 0.875
    seconds = COST.operator_seconds(grouped, batch([2]))
    assert seconds.memory == pytest.approx(0.875e9 / BANDWIDTH)


def collective(kind, payload, group, stride=1, device=TEST_DEVICE):
    operator = Operator(
        kind=kind,
        label=kind,
        counts=(1,),
        collective=CollectiveExtents(group_size=group, stride=stride, payload_bytes=Affine(tokens=payload)),
    )
    return TheoreticalCost(device=device).operator_seconds(operator, batch([1]))


def test_all_reduce_takes_the_faster_of_ring_and_tree():
    # 16 x 5120 x 2 = 163,840 bytes over a mesh of 8 at 137.2 GB/s: tree 2 x 3 x 1.3 us + 2 M / W = 10.188 us
    assert collective("all_reduce", 163_840, 8).communication == pytest.approx(10.188e-6, rel=1e-4)
    # 573.44 MB: ring 2 x 7 x 1.3 us + 14/8 M / W = 7.3326 ms
    assert collective("all_reduce", 573_440_000, 8).communication == pytest.approx(7.3326e-3, rel=1e-4)


def test_gather_scatter_and_exchange():
    # all-gather: 3 x 1.3 us + 7 x 607,744 / 137.2e9 = 34.907 us
    assert collective("all_gather", 607_744, 8).communication == pytest.approx(34.907e-6, rel=1e-4)
    # reduce-scatter of the gathered buffer takes as long
    assert collective("reduce_scatter", 8 * 607_744, 8).communication == pytest.approx(34.907e-6, rel=1e-4)
    # all-to-all: seven eighths of 524,288 bytes leave: 3.9 us + 458,752 / 137.2e9 = 7.244 us
    assert collective("all_to_all", 524_288, 8).communication == pytest.approx(7.244e-6, rel=1e-4)


def test_a_mesh_gives_a_small_group_few_links():
    # Two of eight use one of seven links: 137.2 / 7 = 19.6 GB/s
    assert link_of_group(TEST_DEVICE, 2, 1).bandwidth_bytes_per_s == pytest.approx(19.6e9)
    assert link_of_group(TEST_DEVICE, 8, 1).bandwidth_bytes_per_s == pytest.approx(137.2e9)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_one_device_exchanges_nothing(kind):
    alone = CollectiveExtents(group_size=1, stride=1, payload_bytes=Affine(tokens=8192.0))
    assert transfer_seconds(kind, alone, link_of_group(TEST_DEVICE, 1, 1), np.array([1e6])) == 0.0


@pytest.mark.parametrize(
    ("group", "stride", "bandwidth"),
    [(16, 1, 35e9), (2, 8, 35e9), (2, 4, 19.6e9), (8, 2, 35e9), (4, 2, 137.2e9 * 3 / 7)],
)
def test_the_innermost_level_that_spans_the_group_decides(group, stride, bandwidth):
    assert link_of_group(TEST_DEVICE, group, stride).bandwidth_bytes_per_s == pytest.approx(bandwidth)


def test_a_collective_never_beats_the_memory_it_passes_through():
    fast = replace(TEST_DEVICE, grid=(8,), links=(Link(bandwidth_bytes_per_s=1e18, latency_s=0.0, efficiency=1.0),))
    assert collective("all_reduce", 10**9, 8, device=fast).communication == pytest.approx(10**9 / BANDWIDTH)


def test_only_collectives_have_transfer_times():
    extents = CollectiveExtents(group_size=2, stride=1, payload_bytes=Affine(constant=1))
    with pytest.raises(ValueError, match="gemm is not a collective"):
        transfer_seconds("gemm", extents, link_of_group(TEST_DEVICE, 2, 1), np.asarray(1.0))
