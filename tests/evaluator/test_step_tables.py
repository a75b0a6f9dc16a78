"""Operators of a step as engines run them: what is exchanged around experts."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import duckdb
import numpy as np
import pytest
from shared_data import shared_data

from evaluator.graph.operators import Affine, CollectiveExtents, ExpertExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.pricing.calibrated import calibrated_cost
from evaluator.pricing.occurrence import operator_seconds
from evaluator.serving.exchanges import exchanged_once, gathered_once


def experts(ranks: int, role: str) -> ExpertExtents:
    return ExpertExtents(
        tokens=Affine(tokens=8), experts=256, local_experts=256 // ranks, ranks=ranks, experts_per_token=8,
        hidden_size=7168, intermediate_size=256, role=role,
    )  # fmt: skip


def exchange(label: str, kind: str, sent: ExpertExtents | None = None) -> Operator:
    moved = CollectiveExtents(group_size=8, stride=1, payload_bytes=Affine(tokens=8 * 14336))
    return Operator(label=label, kind=kind, counts=(1,), collective=moved, experts=sent)


def test_tokens_are_gathered_once_around_experts():
    before = [
        exchange("layers.mlp.dispatch", "all_gather"),
        exchange("layers.mlp.gather", "reduce_scatter"),
        exchange("layers.mlp.dispatch", "all_to_all"),  # sends rows to where their experts are
        exchange("layers.attention_all_reduce", "all_reduce"),
        Operator(
            label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts(1, "gate_up")
        ),
    ]
    moved = [one.collective.payload_bytes.tokens for one in gathered_once(before) if one.collective]
    assert moved == [14336, 14336, 8 * 14336, 8 * 14336]


@pytest.mark.parametrize(("held_in", "narrower"), [("NVFP4", 9 / 32), ("FP8_BLOCK", 1.0)])
def test_a_token_goes_once_to_each_device_of_its_experts(held_in, narrower):
    """Of 4 devices the 8 experts of a token are on 4 (1 - 0.75^8) = 3.5995, each of which gets its 14,336 bytes; in
    NVFP4 4.5 of every 16 bits. One sum of 16 bits comes back from each."""
    gate_up = Operator(
        label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts(4, "gate_up"),
        weight_format=held_in,
    )  # fmt: skip
    sent = experts(4, "exchange")
    before = [
        exchange("layers.mlp.dispatch", "all_to_all", sent),
        gate_up,
        exchange("layers.mlp.gather", "all_to_all", sent),
        exchange("layers.attention_all_reduce", "all_reduce"),
    ]
    moved = [float(one.collective.payload_bytes.tokens) for one in exchanged_once(before) if one.collective]
    assert moved == pytest.approx([narrower * 3.5995 * 14336, 3.5995 * 14336, 8 * 14336], rel=1e-4)


@pytest.mark.parametrize("device", ["h100_sxm", "h200_sxm", "b200_sxm"])
def test_deepep_sends_a_token_once(device):
    """Over DeepEP's measured exchanges of prompts by eight devices: dispatch and combine of 256 to 16,384 tokens each, with
    the fastest number of multiprocessors.

    Eight experts are on 8 (1 - (7/8)^8) = 5.3 of eight devices, so a row for each expert is half as much again as what is
    sent. On Blackwell neither is nearer: its times are off by as much both ways."""
    table = shared_data("kernels_by_engine", device) / "wideep_deepep_normal_perf--sglang--0.5.12.parquet"
    times = "dispatch_transmit_us + dispatch_notify_us + combine_transmit_us + combine_notify_us"
    rows = duckdb.sql(
        f"SELECT hidden_size, num_topk, num_experts, num_token, min({times}) FROM '{table}' "
        "WHERE num_token BETWEEN 256 AND 16384 GROUP BY ALL ORDER BY ALL"
    ).fetchall()  # fmt: skip
    cost = calibrated_cost(load_device(device))
    found = {"rows": [], "once": []}
    for hidden, copies, count, tokens, measured in rows:
        sent = replace(experts(8, "exchange"), experts=count, local_experts=count // 8, experts_per_token=copies)
        moved = CollectiveExtents(group_size=8, stride=1, payload_bytes=Affine(tokens=2 * copies * hidden))
        both = [replace(exchange(f"mlp.{way}", "all_to_all", sent), collective=moved) for way in ("dispatch", "gather")]
        each = np.array([float(tokens)])
        sums = BatchSums(tokens=each, sequences=each, pairs=each, keys=each)
        for name, some in (("rows", both), ("once", exchanged_once(both))):
            seconds = sum(operator_seconds(one, cost, sums).total()[0] for one in some)
            found[name].append(abs(1e6 * seconds / measured - 1.0))
    assert len(rows) == 126
    rows_off, once_off = (median(errors) for errors in found.values())
    if device == "b200_sxm":
        assert abs(rows_off - once_off) < 0.05
    else:
        assert once_off < 0.2
        assert rows_off > 0.4
