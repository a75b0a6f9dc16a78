"""Runs in which each user asks once or twice: most first tokens are of prompts that came all at once."""

from __future__ import annotations

import json

import pytest
from client_files import write
from measured_points import closed_loop
from more_client_files import SGLANG

from evaluator.ledger.deployments import deployment_of
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.readers.building import Circumstances, circumstances_of, kept
from store.records import RunRecord, SideRecord
from sweepdb.measuring.validating import compare
from sweepdb.own_runs import OF_BURSTS, point_or_reason

HEAD = "model,device,input_length,output_length,ttft_ms,shortest_length\n"
LONG = {
    "model": "Qwen/Qwen3-8B", "concurrency": 64.0, "input_length": 4096.0, "output_length": 1024.0, "engine_version": "0.19",
    "metrics": {"ttft_ms_mean": 4000.0, "tpot_exclusive_ms_mean": 20.0},
}  # fmt: skip


def of_requests(count, **changes):
    return closed_loop(**{**LONG, "run": RunRecord(completed_requests=count), **changes})


def known(point):
    return {one.metric: one.predicted for one in compare([point]).of("known")}


def test_prompts_of_one_round_wait_for_each_other():
    """64 prompts of 4,096 tokens at once. One takes 2 x 7.6e9 x 4096 + 1e13 (attention) = 7.2e13 operations, 90 to 130 ms
    at 550 to 800 TFLOPS in FP8. The mean of 64 in a row is 32.5 of them: 2.9 to 4.2 s."""
    once, usual = known(of_requests(64)), known(of_requests(640))
    assert 2_900 < once["ttft"] < 4_200
    # Ten each: a tenth of the prompts are of that round, the others come when some user's answer is done.
    assert 300 < usual["ttft"] < 700
    # No prompt is read between the steps of a single round.
    assert once["tpot"] < 0.95 * usual["tpot"]
    assert usual == known(of_requests(None))  # who does not say asks ten times, as public benchmarks do


def test_the_rate_of_a_run_holds_its_emptying():
    """SGLang's cookbook asks 80 prompts of 16 users, lengths from 1 to twice the mean, and prints a mean concurrency of 13.93
    for DeepSeek-R1 and 13.98 for GLM-4.7-Flash; of ten prompts of one user 1.00."""

    def in_flight(users, count):
        lengths = {"input_length": 500.0, "output_length": 500.0, "concurrency": float(users)}
        point = of_requests(count, **lengths, metrics={"output_tokens_per_s": 100.0, "e2e_ms_mean": 1000.0},
                            extra=json.dumps(kept(Circumstances(shortest_length=0.01))))  # fmt: skip
        values = known(point)
        return values["output_tokens_per_s"] / 500 * values["e2e_ms"] / 1000

    assert 13.5 < in_flight(16, 80) < 14.7
    assert 0.97 < in_flight(1, 10) < 1.01


def test_a_batch_beyond_the_seats_takes_as_long_as_its_last_answer():
    """256 prompts at once on 22 to 25 seats: a tenth are served at a time, so that the mean answer waits for half of the run."""
    whole = {"model": "meta-llama/Llama-3.1-405B-Instruct", "precision": "fp8", "engine_version": "0.6.3", "num_devices": 8,
             "decode": SideRecord(tp=8), "concurrency": 256.0, "input_length": 2048.0, "output_length": 2048.0}  # fmt: skip
    values = {"output_tokens_per_s": 598.2, "e2e_ms_mean": 1.0}  # of dstack
    found = known(of_requests(256, **whole, metrics=values, extra=json.dumps(kept(Circumstances(static_batch=True)))))
    assert found["output_tokens_per_s"] == pytest.approx(598.2, rel=0.1)
    rounds = 256 * 2048 / found["output_tokens_per_s"] * 1000 / found["e2e_ms"]
    assert 1.6 < rounds < 2.0


@pytest.mark.parametrize(
    ("completed", "users", "each"),
    [(64, 64, 1), (100, 64, 2), (40, 64, 1), (1_000, 4, 50), (None, 64, None), (64, None, None)],
)
def test_prompts_of_each_user(completed, users, each):
    point = of_requests(completed, concurrency=users, decode=SideRecord(tp=1, batch_size=8), mode="decode")
    assert deployment_of(point).prompts_per_user == each


def stating(shortest, **changes):
    return closed_loop(**{**LONG, **changes}, extra=json.dumps(kept(Circumstances(shortest_length=shortest))))


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.8"), ("vllm", "0.12"), ("vllm", "0.19")])
def test_a_client_of_equal_lengths_says_nothing_of_drift(engine, version):
    """SGLang's client prints a range of 1 where lengths are alike, vLLM's prints none: one load, one prediction. The server
    decides how far users drift apart."""
    served = {"engine": engine, "engine_version": version}
    assert known(stating(1.0, **served)) == known(of_requests(None, **served))
    assert known(stating(0.8, **served)) != known(stating(1.0, **served))


def test_users_of_equal_lengths_stay_in_step_under_tensorrt_llm():
    """64 prompts of 1,024 tokens, eight to a step of 8,192: who came together waits for eight prompts, who came alone for one.
    So it was in the laboratory: Qwen3-32B is 12 % off in the median with users in step, 18 with users apart."""
    served = {"engine": "trtllm", "engine_version": "1.0", "input_length": 1024.0}
    in_step, apart = (known(one)["ttft"] for one in (stating(1.0, **served), of_requests(None, **served)))
    assert in_step > 1.5 * apart


def test_a_run_of_bursts_teaches_its_steps_alone():
    """Its TTFT of 4 s would make every other prediction of TTFT seven times as long. Prefill instances have a queue whose first
    round is reckoned with, so that their TTFT teaches."""
    assert set(point_or_reason(of_requests(640)).measured) == {"ttft_ms", "tpot_exclusive_ms"}
    assert [point_or_reason(of_requests(64 * each)).of_bursts for each in (1, 4, 5, 10)] == [True, True, False, False]
    few = point_or_reason(of_requests(128))
    assert (dict(few.measured), few.of_bursts) == ({"tpot_exclusive_ms": 20.0}, True)
    assert point_or_reason(of_requests(128, metrics={"ttft_ms_mean": 4000.0})) == OF_BURSTS
    apart = {"mode": "disaggregated", "num_devices": 2, "prefill": SideRecord(tp=1, instances=1),
             "decode": SideRecord(tp=1, instances=1)}  # fmt: skip
    of_sides = point_or_reason(of_requests(128, **apart))
    assert (set(of_sides.measured), of_sides.prompts.prompts_per_user) == ({"ttft_ms", "tpot_exclusive_ms"}, 2)


@pytest.mark.parametrize(
    ("users", "count", "shortest", "least", "most"),
    [
        # SGLang's cookbook prints that of 16 users 13.93 and 13.98 asked on average: 1.144 and 1.149 times its rate.
        (16, 80, 0.01, 1.09, 1.19),
        # One round ends with an answer of 1,000 tokens and its mean is 900: 1.11, less what steps win as users leave.
        (64, 64, 0.8, 1.03, 1.11),
        (64, 64, 1.0, 0.98, 1.05),  # all end together
        (1, 10, 0.8, 0.99, 1.01),  # nobody is left alone
    ],
)
def test_a_rate_alone_teaches_what_the_server_makes_while_it_is_full(users, count, shortest, least, most):
    """Later answers would be slower by as much."""
    point = stating(shortest, concurrency=float(users), run=RunRecord(completed_requests=count), input_length=500.0,
                    output_length=500.0 if shortest == 0.01 else 900.0, metrics={"output_tokens_per_s": 1000.0})  # fmt: skip
    taught = point_or_reason(point)
    assert (set(taught.measured), taught.of_bursts) == ({"output_tokens_per_s"}, False)
    assert least < taught.measured["output_tokens_per_s"] / 1000 < most


def test_a_rate_beside_times_or_of_unknown_rounds_teaches_as_measured():
    rate = {"output_tokens_per_s": 1000.0}
    unknown = point_or_reason(of_requests(None, metrics=rate))
    beside = point_or_reason(of_requests(640, metrics=rate | {"e2e_ms_mean": 9000.0}))
    assert unknown.measured == rate
    assert beside.measured == rate | {"e2e_ms": 9000.0}
    # First prompts that waited for one another are in the time of a short run's answers, and not in what is taught of its rate.
    assert set(point_or_reason(of_requests(64, metrics=rate | {"e2e_ms_mean": 9000.0})).measured) == {
        "output_tokens_per_s"
    }


@pytest.mark.parametrize(("ratio", "shortest"), [(0.0, 0.01), (0.5, 0.5), (1.0, 1.0), (None, None)])
def test_sglang_says_from_where_its_client_draws_lengths(tmp_path, ratio, shortest):
    path = write(tmp_path, json.dumps(SGLANG | {"random_range_ratio": ratio}) + "\n", "run.jsonl")
    (record,) = read_measurements(path).records
    assert circumstances_of(record).shortest_length == shortest


def test_a_table_says_it_in_a_column(tmp_path):
    rows = "".join(f"Qwen/Qwen3-8B,h100_sxm,500,250,100,{said}\n" for said in ("0", "", "0.8", "1.5"))
    found = read_measurements(write(tmp_path, HEAD + rows, "own.csv"))
    assert [circumstances_of(one).shortest_length for one in found.records] == [0.01, None, 0.8]
    assert [one.what for one in found.problems] == ["shortest_length: 1.5 is no part of the longest length, 0 to 1"]
