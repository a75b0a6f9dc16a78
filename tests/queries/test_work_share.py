"""Rates of batches whose composition misses bins, by hand: a batch of short prompts only must not look fast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generator import BINS, DEVICES, MODELS, PRECISIONS, WORKLOADS, block, scenario, sweep_record

from queries.sandbox import run_sql
from store.location import parse_url
from store.opening import open_store
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios

MIX = WORKLOADS[5]  # bins of 320, 1280 and 5120 tokens: mean 0.5 x 320 + 0.3 x 1280 + 0.2 x 5120 = 1568; output 400
ALIKE = WORKLOADS[7]  # 128 tokens in, 128 out


def stored_row(url, phase, workload, **columns):
    """The one probe of a scenario of one replica, eight requests in flight, with these columns."""
    record = scenario(MODELS[4], workload, DEVICES[0], precision=PRECISIONS[0], plan=(8, 1, 1), phase=phase)
    with open_store(url, create=True) as store:
        sweep = begin_sweep(store, sweep_record(key="e" * 32))
        (ref,) = put_scenarios(store, sweep, [record])
        whole = block(record, 8, 8)
        changed = {name: np.asarray([value]) for name, value in columns.items()}
        put_block(store, sweep, ref.id, replace(whole, columns={**whole.columns, **changed}))
        finish_sweep(store, sweep, "finished")
        seal(store)
    with run_sql(parse_url(url), "SELECT * FROM probe") as result:
        names = [column.name for column in result.columns]
        (row,) = result
    return dict(zip(names, row, strict=True))


@pytest.fixture
def url(tmp_path):
    """The address of a store to be."""
    return f"sqlite:///{tmp_path}/store.sqlite"


def test_an_aggregated_batch_without_long_prompts_is_charged_for_them(url):
    assert sum(length * weight for *_, length, weight in BINS) == 1568
    # Prompts of 784 tokens on average are half the work: prefilling the distribution's takes another 200 ms.
    row = stored_row(
        url, "aggregated", MIX, ttft_ms=200.0, e2e_ms=1800.0, tpot_inclusive_ms=4.5, realised_input_length_mean=784.0
    )
    assert row["requests_per_s"] == pytest.approx(4.0)  # 8 requests / (1.8 + 0.2 s)
    assert row["output_tokens_per_s"] == pytest.approx(1600.0)  # x 400
    assert row["input_tokens_per_s"] == pytest.approx(6272.0)  # x 1568
    # counting ttft twice: 8 x 400 tokens / (0.2 + 0.2 + 1.8 + 0.2 s)
    assert row["output_tokens_per_s_twice"] == pytest.approx(3200 / 2.4)
    assert row["input_length_bias"] == -0.5  # 784 / 1568 - 1
    # what was seen is left as it was
    assert (row["ttft_ms"], row["e2e_ms"]) == (200.0, 1800.0)


def test_an_aggregated_batch_with_too_many_long_prompts_is_not_blamed_for_them(url):
    # Prompts of 3136 tokens are twice the work: 400 ms of prefill would have been 200.
    row = stored_row(url, "aggregated", MIX, ttft_ms=400.0, e2e_ms=2200.0, realised_input_length_mean=3136.0)
    assert row["requests_per_s"] == pytest.approx(4.0)


def test_a_prefill_batch_is_charged_alike(url):
    row = stored_row(url, "prefill", MIX, ttft_ms=150.0, makespan_ms=200.0, realised_input_length_mean=784.0)
    assert row["prefill_capacity_requests_per_s"] == pytest.approx(20.0)  # 8 / 0.2 s, at half the work
    assert row["input_tokens_per_s"] == pytest.approx(20 * 1568)


def test_a_decode_step_is_of_the_whole_distribution_already(url):
    row = stored_row(
        url, "decode", MIX, tpot_exclusive_ms=20.0, tpot_inclusive_ms=20.0, realised_input_length_mean=784.0
    )
    assert row["output_tokens_per_s"] == pytest.approx(400.0)  # 8 / 0.02 s


def test_lengths_that_do_not_vary_need_no_charge(url):
    row = stored_row(url, "aggregated", ALIKE, ttft_ms=300.0, e2e_ms=1700.0)
    assert row["requests_per_s"] == 8000.0 / 1700.0
    assert row["input_length_bias"] is None
