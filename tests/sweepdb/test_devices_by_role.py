"""Prefill on one device and decode on another: stored rows of both pair up, and each side is of the device that was asked for."""

from __future__ import annotations

import pytest

import sweepdb

SIZES = {"num_devices": 2, "input_length": 2000, "output_length": 200, "tp_sizes": 2, "batch_range": (1, 8)}
MODEL, PREFILL, DECODE = "Qwen/Qwen3-8B", "mi355x", "mi300x"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('roles')}/s.sqlite"
    for device, mode in ((PREFILL, "prefill"), (DECODE, "decode")):
        sweepdb.evaluate(MODEL, store=address, device=device, mode=mode, serving_model="waves", **SIZES)
    with sweepdb.open(address) as opened:
        yield opened


def test_the_best_pair_has_a_device_for_each_role(store):
    rows = store.pd_ratio(ttft_limit=1000, tpot_limit=50).df()
    assert set(rows["prefill_device"]) == {PREFILL}
    assert set(rows["decode_device"]) == {DECODE}
    best = rows.iloc[0]
    (prefill,), (decode,) = (
        store.sql(f"SELECT max(request_qps) FROM ({asked})").rows
        for asked in (
            "SELECT 1e3 * concurrency / ttft_ms AS request_qps FROM probe WHERE phase = 'prefill'",
            "SELECT 1e3 * concurrency / (tpot_exclusive_ms * 200) AS request_qps FROM probe WHERE phase = 'decode'",
        )
    )
    assert 0 < best["prefill_requests_per_s"] <= 1.01 * prefill[0]
    assert 0 < best["decode_requests_per_s"] <= 1.01 * decode[0]
    assert best["pd_ratio"] == pytest.approx(best["decode_requests_per_s"] / best["prefill_requests_per_s"], rel=1e-6)


def test_a_role_is_asked_of_its_device_alone(store):
    limits = {"ttft_limit": 1000, "tpot_limit": 50}
    both = store.pd_ratio(prefill_device=PREFILL, decode_device=DECODE, **limits).df()
    assert len(both) == len(store.pd_ratio(**limits).df()) > 0
    assert store.pd_ratio(prefill_device=DECODE, decode_device=PREFILL, **limits).df().empty
