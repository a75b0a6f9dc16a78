"""Logs of requests from four clients: the same three answers and one failure in each, and what is made of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from client_files import AIPERF_REQUESTS, GUIDELLM_REQUESTS, LIFECYCLE, VLLM_DETAILED
from hypothesis import given
from hypothesis import strategies as st

from evaluator.ledger.readers import read_measurements
from store.loads import MeasuredRequests, pack_requests, unpack_requests

FILES = {
    "vllm.json": json.dumps(VLLM_DETAILED),
    "guidellm.json": json.dumps(GUIDELLM_REQUESTS),
    "profile_export.jsonl": "".join(json.dumps(one) + "\n" for one in AIPERF_REQUESTS),
    "per_request_lifecycle_metrics.json": json.dumps(LIFECYCLE),
}


def read(folder, name, text=None):
    path = folder / name
    path.write_text(FILES[name] if text is None else text)
    return read_measurements(path)


@pytest.mark.parametrize("name", FILES)
def test_every_client_says_the_same(name, tmp_path):
    found = read(tmp_path, name)
    assert found.problems == ()
    (record,) = found.records
    log = found.requests[record.key]
    assert log.completed.tolist() == [True, True, True, False]
    assert log.sent_us.tolist() == [0, 500_000, 1_000_000, 1_500_000]
    assert log.prompt[:3].tolist() == [1000] * 3
    assert log.answer[:3].tolist() == [5, 5, 3]
    assert log.ttft_ms == pytest.approx([100.0, 300.0, 150.0], abs=2e-3)
    # 80 ms over 4 tokens, 240 ms over 4, 60 ms over 2.
    assert log.tpot_ms == pytest.approx([20.0, 60.0, 30.0], abs=2e-3)
    assert log.e2e_ms == pytest.approx([180.0, 540.0, 210.0], abs=2e-3)


@pytest.mark.parametrize("name", ["profile_export.jsonl", "per_request_lifecycle_metrics.json"])
def test_a_file_of_requests_is_one_point(name, tmp_path):
    (record,) = read(tmp_path, name).records
    assert record.metrics["ttft_ms_p50"] == pytest.approx(150.0, abs=2e-3)
    assert record.metrics["tpot_exclusive_ms_mean"] == pytest.approx(110 / 3, abs=2e-3)
    assert record.metrics["e2e_ms_mean"] == pytest.approx(310.0, abs=2e-3)
    assert record.request_rate == pytest.approx(2.0)  # 3 gaps in 1.5 s
    assert (record.input_length, record.output_length) == (1000.0, pytest.approx(13 / 3))
    # 930 ms of answers in the 1.21 s to the last end
    assert record.concurrency == pytest.approx(0.93 / 1.21, abs=1e-4)


def test_percentiles_that_a_client_does_not_print_come_from_its_requests(tmp_path):
    (record,) = read(tmp_path, "vllm.json").records
    assert record.metrics["ttft_ms_p90"] == pytest.approx(270.0)  # 150 + 0.8 x 150
    assert record.metrics["ttft_ms_p50"] == 400.0  # which it prints


def test_an_older_log_does_not_say_when_requests_were_sent(tmp_path):
    old = {name: value for name, value in VLLM_DETAILED.items() if name != "start_times"}
    found = read(tmp_path, "vllm.json", json.dumps(old))
    log = found.requests[found.records[0].key]
    assert not log.timed
    assert log.sent_per_s is None
    assert log.span_s == 2.0  # the duration of the file


def test_a_sample_of_requests_is_no_log(tmp_path):
    sampled = json.loads(FILES["guidellm.json"])
    sampled["benchmarks"][0]["metrics"]["request_totals"]["successful"] = 300
    assert not read(tmp_path, "guidellm.json", json.dumps(sampled)).requests


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ttfts": [0.1, 0.2]}, "input_lens has 4 values for 2 requests"),
        ({"itls": [0.1, [], [], []]}, "itls: 0.1 is no list of seconds"),
        ({"itls": [[-1.0], [], [], []]}, "before its first token"),
        ({"ttfts": [1e9, 0.1, 0.1, 0.0]}, "a request has a time of 1e+09 s"),
    ],
)
def test_a_damaged_log_is_named(change, said, tmp_path):
    (problem,) = read(tmp_path, "vllm.json", json.dumps(VLLM_DETAILED | change)).problems
    assert said in problem.what


numbers = st.integers(-1, 2**40)


@given(st.lists(st.tuples(*[numbers] * 5), min_size=1, max_size=30))
def test_packed_requests_are_the_same_again(rows):
    columns = np.asarray(rows, dtype=np.int64).T
    names = ("sent_us", "prompt", "answer", "ttft_us", "e2e_us")
    log = MeasuredRequests(**dict(zip(names, columns, strict=True)))
    again = unpack_requests(pack_requests(log))
    assert all((getattr(again, name) == getattr(log, name)).all() for name in names)
