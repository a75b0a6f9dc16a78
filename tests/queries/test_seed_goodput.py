"""Seed 003's toy: its printed curves as stored loads, and the order of its findings among plays of our own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generator import DEVICES, MODELS, PRECISIONS, WORKLOADS, block, scenario, sweep_record

import sweepdb
from store.loads import ArrivalRecord, LoadRecord
from store.opening import open_store
from store.writing import begin_sweep, put_block, put_loads, put_scenarios

ARRIVAL = ArrivalRecord(key="e" * 64, process="poisson", requests=1_000, seed=1, cv=1.0)
SHORT, LONG = 100, 200  # bins of 13 ms and of 18 s
# What vLLM before 0.8 does, but for a handover of its own between prefill and decode: the toy has none.
AT_ONCE = """\
name: at_once
admission: prefill_first
profile: {token_budget: 8192, prefill_factor: 1.0, decode_factor: 1.0, step_ms: 2.326888, step_per_decode_ms: 0.064311,
  step_per_prompt_ms: 1.0, prompt_step_ms: 0.0, request_ms: 40.0, replica_wait_steps: 0.0, layer_ms: 0.0,
  latent_layer_ms: 0.0, handover_ms: 0.0}
client: {shortest: 0.99, prompts_per_user: 10, poll_steps: 1}
"""


def load(number: int, rate: float, within_ttft: int, within_tpot: int) -> LoadRecord:
    """Of 1,000 requests so many meet a limit between both bins: those of TPOT are among those of TTFT, or the other way."""
    both = min(within_ttft, within_tpot)
    groups = {
        (SHORT, SHORT): both, (SHORT, LONG): within_ttft - both, (LONG, SHORT): within_tpot - both,
        (LONG, LONG): 1_000 - max(within_ttft, within_tpot),
    }  # fmt: skip
    cells = [[*bins, count, 0, 0, 0, 0] for bins, count in groups.items() if count]
    return LoadRecord(
        key=f"{number:032d}{int(1e6 * rate):032d}", settings_key=f"{number:064d}", arrivals_per_s=rate,
        saturation_per_s=20.0, play_seats=256, kv_tokens=1_000_000, kv_admission="current", dispatch="random",
        reject_ms=None, counted_requests=1_000, rejected=0, preempted=0, load_status="stable", in_flight=5.0,
        busy_share=0.5, generated_per_s=100.0, ttft_mean_ms=100.0, load_tpot_mean_ms=10.0, outside_ms=0.0,
        gaps=np.asarray([[80, 90_000]]), cells=np.asarray(cells),
    )  # fmt: skip


def test_the_printed_goodputs_are_read_from_stored_curves(sqlite_url) -> None:
    """TTFT holds up to 3 requests a second, TPOT up to 1.6: co-located the smaller. 5.6 and 10 apart make 3.33 a device."""
    curves = {
        "aggregated": [(1.6, 1_000, 900), (3.0, 900, 500), (4.0, 500, 100)],
        "prefill": [(5.6, 1_000, 1_000), (5.7, 0, 1_000)],
        "decode": [(10.0, 1_000, 1_000), (10.1, 1_000, 0)],
    }
    with open_store(sqlite_url, create=True) as store:
        sweep = begin_sweep(store, sweep_record(key="a" * 32))
        for number, (phase, curve) in enumerate(curves.items()):
            record = scenario(MODELS[4], WORKLOADS[0], DEVICES[0], precision=PRECISIONS[0], plan=(1, 1, 1), phase=phase)
            record = replace(record, status="ok", reason=None, subject=replace(record.subject, serving_model="vllm"))
            (ref,) = put_scenarios(store, sweep, [record])
            put_block(store, sweep, ref.id, block(record, 1, 1))
            put_loads(store, sweep, ref.id, ARRIVAL, [load(number, *point) for point in curve])
    ttft, tpot = {"ttft_limit": 4_000.0}, {"tpot_limit": 400.0}
    with sweepdb.open(sqlite_url) as opened:
        for limits, printed in ((ttft, 3.0), (tpot, 1.6), ({**ttft, **tpot}, 1.6)):
            (row,) = opened.best(by="goodput", mode="aggregated", attainment=0.9, **limits).dicts()
            assert row["goodput"] == pytest.approx(printed)
        assert row["binding_limit"] == "tpot"
        (pair,) = opened.best(
            by="goodput", mode="pd", attainment=0.9, num_devices=3, kv_transfer_gb_per_s=1e6, **ttft, **tpot
        ).dicts()
    # min(2 x 5.6, 10) / 3 = 3.33, and 10 / (3 x 1.6) = 2.08
    assert (pair["prefill_instances"], pair["decode_instances"]) == (2, 1)
    assert pair["goodput_per_device"] == pytest.approx(3.333, rel=0.01)
    assert pair["advantage"] == pytest.approx(2.083, rel=0.01)


@pytest.mark.long
def test_the_toy_has_its_findings_in_order_when_played(sqlite_url, tmp_path) -> None:
    """TPOT binds co-located, a prefill instance passes less, separation carries 1.5 to 2.5 times as much where the handover
    takes no time of its own, and chunked prompts take a part of that gain."""
    engine = tmp_path / "at_once.yaml"
    engine.write_text(AT_ONCE, encoding="utf-8")
    for model in (str(engine), "vllm"):
        sweepdb.evaluate(
            "facebook/opt-13b", store=sqlite_url, device="a100_sxm", num_devices=1, input_length=512, output_length=64,
            batch_range=4, serving_model=model, arrivals="poisson",
        )  # fmt: skip
    limits = {"ttft_limit": 400.0, "tpot_limit": 40.0, "attainment": 0.9}
    with sweepdb.open(sqlite_url) as opened:
        stored = opened.sql("SELECT DISTINCT serving_model FROM scenario").rows
        ours = next(name for (name,) in stored if "@" in name)
        alone = opened.best(by="goodput", serving_model=ours, mode="aggregated", **limits).dicts()[0]
        chunked = opened.best(by="goodput", serving_model="vllm", mode="aggregated", **limits).dicts()[0]["goodput"]
        sides = [
            opened.best(by="goodput", serving_model=ours, mode=mode, **one).dicts()[0]["goodput"]
            for mode, one in (
                ("prefill", {"ttft_limit": 400.0, "attainment": 0.9}),
                ("decode", {"tpot_limit": 40.0, "attainment": 0.9}),
            )
        ]
        pairs = opened.best(
            by="goodput", serving_model=ours, mode="pd", num_devices=5, kv_transfer_gb_per_s=600.0, **limits
        ).dicts()
    best = max(pairs, key=lambda row: row["goodput_per_device"])
    assert alone["binding_limit"] == "tpot"
    assert sides[0] < sides[1]
    assert 1.5 <= best["goodput_per_device"] / alone["goodput"] <= 2.5
    # A chunk of 512 tokens takes A100 longer than the limit of 40 ms: decodes beside it wait, though less than for whole prompts.
    assert alone["goodput"] < chunked < best["goodput_per_device"]
