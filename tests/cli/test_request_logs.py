"""Logs of requests on the command line: the share that met limits, and replays of stored ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from client_files import VLLM_DETAILED, lifecycle
from conftest_cli import sweepdb
from restated import rows

from sweepdb.measuring.log_scoring import largest_distance


def conforming(path, limits, **more):
    return json.loads(sweepdb(f"query conforming {path} {limits} --format json", **more).out)


def test_the_share_that_met_all_limits(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(VLLM_DETAILED))
    (found,) = conforming(path, "--ttft-limit 200 --tpot-limit 25")
    # TTFT 100, 300, 150 ms and TPOT 20, 60, 30 ms; the fourth failed.
    assert (found["requests"], found["failed"]) == (4, 1)
    assert (found["share_ttft"], found["share_tpot"], found["share"]) == (0.5, 0.25, 0.25)
    assert found["share_e2e"] == 0.75  # without a limit, only what failed is a miss
    assert found["requests_per_s"] == 2.0
    assert found["conforming_per_s"] == 0.5


def test_the_example_of_ten_requests_a_second_of_which_three_conform(tmp_path):
    path = tmp_path / "per_request_lifecycle_metrics.json"
    slow, fast = (0.4, 2.4, 41), (0.15, 1.15, 41)  # TPOT 50 ms and 25 ms
    requests = [lifecycle(0.1 * place, *(fast if place % 10 < 3 else slow)) for place in range(1000)]
    path.write_text(json.dumps(requests))
    (found,) = conforming(path, "--ttft-limit 200 --tpot-limit 50")
    assert found["share"] == pytest.approx(0.3)
    # 1,000 requests from 0 to the last end at 99.9 + 2.4 s
    assert found["conforming_per_s"] == pytest.approx(300 / 102.3)
    assert found["requests_per_s"] == pytest.approx(10.0, rel=0.03)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("query conforming", "Report conforming reads logs"),
        ("query conforming FILE", "conforming needs a limit"),
        ("query conforming FILE --ttft-limit -1", "--ttft-limit must be a number of ms above 0, not -1"),
        ("query conforming FILE --ttft-limit 9 --num-devices 4", "does not take --num-devices"),
        ("query conforming no.json --ttft-limit 9", "no such file"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(command, said, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(VLLM_DETAILED))
    refused = sweepdb(command.replace("FILE", str(path)))
    assert refused.code == 2
    assert said in refused.err


def test_a_result_without_requests_is_no_log(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({name: value for name, value in VLLM_DETAILED.items() if name != "ttfts"}))
    assert "no log of requests" in sweepdb(f"query conforming {path} --ttft-limit 200").err


def test_a_stored_log_is_replayed_at_its_own_times(tmp_path):
    """The measured replay as a client would have written it: its clock starts at the engine."""
    requests = [
        lifecycle(float(row["queued_s"]), 1e-3 * float(row["ttft_ms"]), 1e-3 * float(row["e2e_ms"]), int(row["answer"]))
        for row in rows("arrival_replay")
    ]
    for one, row in zip(requests, rows("arrival_replay"), strict=True):
        one["info"]["input_tokens"] = int(row["prompt"])
        one["request"] = ""  # the log names no model
    path, store = tmp_path / "per_request_lifecycle_metrics.json", f"sqlite:///{tmp_path}/log.sqlite"
    path.write_text(json.dumps(requests))
    stated = (
        "model=meta-llama/Meta-Llama-3.1-8B",
        "device=rtx_pro_6000_server",
        "engine=vllm",
        "tp=1",
        "batch_size=128",
    )
    sweepdb(f"measurements import {path} {' '.join(f'--set {one}' for one in stated)} --store {store}")
    again = sweepdb(f"measurements import {path} {' '.join(f'--set {one}' for one in stated)} --store {store}")
    assert "0 new" in again.err
    done = json.loads(sweepdb(f"validate --format json --store {store}").out)
    assert done["excluded"] == []
    found = done["replays"]
    worked = json.loads(sweepdb(f"validate --workers processes:1 --format json --store {store}").out)
    assert worked["replays"] == found
    by_metric = {one["metric"]: one for one in found}
    assert by_metric["ttft"]["requests"] == 300
    for metric in ("ttft", "e2e"):
        for share in ("p50", "p90", "p99"):
            one = by_metric[metric]
            assert one[f"played_{share}"] == pytest.approx(one[f"measured_{share}"], rel=0.12)
        assert 0.0 < by_metric[metric]["distance"] < 0.4
    assert "replayed at their own times" in sweepdb(f"validate --store {store}").out
    (key,) = {one["point"] for one in found}
    sweepdb(f"measurements delete {key[:12]} --store {store}")
    counted = sweepdb(["sql", "SELECT count(*) AS n FROM raw.measured_requests", "--format", "csv"], store)
    assert counted.out == "n\n0\n"


def test_the_distance_of_two_samples():
    assert largest_distance(np.asarray([1.0, 2.0]), np.asarray([2.0, 3.0])) == 0.5
    assert largest_distance(np.asarray([1.0]), np.asarray([9.0])) == 1.0
    assert largest_distance(np.arange(5.0), np.arange(5.0)) == 0.0
