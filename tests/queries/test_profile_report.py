"""The report `profile` over a generated store against plain Python."""

from __future__ import annotations

import itertools
import math

import pytest
from generator import DEVICES, MODELS, PHASES, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import admits, judged, memory_free, read_rows, reference, write_sweep

import queries

TTFT, TPOT = 3000.0, 6.0
LIMITS = {
    "prefill": {"ttft_limit": TTFT},
    "decode": {"tpot_limit": TPOT},
    "aggregated": {"ttft_limit": TTFT, "tpot_limit": TPOT},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The address and rows of a store of one model at two pairs of lengths, every phase."""
    url = f"sqlite:///{tmp_path_factory.mktemp('profile')}/store.sqlite"
    made = itertools.product(WORKLOADS[:2], DEVICES[:2], PLANS[:4], PHASES)
    records = [
        scenario(MODELS[4], workload, device, precision=PRECISIONS[0], plan=plan, phase=phase)
        for workload, device, plan, phase in made
    ]
    write_sweep(url, records, key="a", sizes=20)
    return url, read_rows(url)


def tokens_held(row):
    """Tokens of requests in whole blocks of 128, times how often their cache fits its room."""
    blocks = math.ceil((row["input_length_mean"] + row["output_length"]) / 128)
    room = memory_free(row) + row["kv_cache_bytes"]
    return math.floor(row["concurrency"] * 128 * blocks * room / row["kv_cache_bytes"])


@pytest.mark.parametrize("phase", PHASES)
def test_a_profile_has_every_batch_that_fits(stored, phase):
    url, rows = stored
    wanted = {}
    for row in rows:
        if row["phase"] == phase and memory_free(row) >= 0:
            qps, rate, *_ = judged(row)
            context = row["input_length_mean"] + row["output_length"] / 2
            tokens = None if phase == "prefill" else tokens_held(row)
            wanted[reference(row)] = {
                "requests_per_s": qps, "tokens_per_s_per_device": rate / row["num_devices"], "context_length": context,
                "max_kv_tokens": tokens, "kv_usage": tokens and row["concurrency"] * context / tokens,
                "ttft_ms": row["ttft_ms"], "itl_ms": row["tpot_exclusive_ms"],
                "within_limits": admits(row, TTFT, TPOT), "input_length": row["input_length"],
            }  # fmt: skip
    with queries.open(url) as opened:
        found = opened.profile(mode=phase, **LIMITS[phase]).dicts()
    assert {one["question_group"] for one in found} == {0}  # both pairs of lengths stand in one group
    assert {row["input_length"] for row in found} == {WORKLOADS[0][0], WORKLOADS[1][0]}
    assert {one["within_limits"] for one in found} == {True, False}
    assert len(found) == len(wanted)
    for one in found:
        assert {name: one[name] for name in wanted[one["probe"]]} == pytest.approx(wanted[one["probe"]])
