"""Request logs as they arrived: times, lengths, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from arrival_cases import aggregated_loads

from evaluator.arrivals.streams import ArrivalProcess
from evaluator.inputs.workloads.arrival_times import read_arrivals
from store.errors import InputError

CSV = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:04.0319600,0,8
2023-11-16 18:17:05.5319600,110,27
"""


def test_dates_keep_every_digit_of_a_second(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(CSV)
    trace = read_arrivals(path, most=10)
    # A request without a prompt is none.
    assert np.diff(trace.times).tolist() == pytest.approx([0.052, 1.5], abs=1e-6)
    assert trace.input_lengths.tolist() == [4808, 3180, 110]
    assert trace.output_lengths.tolist() == [10, 8, 27]
    assert read_arrivals(path, most=2).times.size == 2
    assert read_arrivals(path, most=2).sha256 == trace.sha256


def test_json_lines_with_numbers(tmp_path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"timestamp": t, "input_length": 10 + t, "output_length": 3, "hash_ids": [1]} for t in (0, 0, 3000, 6000)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    trace = read_arrivals(path, most=10)
    assert trace.times.tolist() == [0.0, 0.0, 3000.0, 6000.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("ContextTokens,GeneratedTokens\n1,2\n", "no column with the time of arrival"),
        ("timestamp,input_length,output_length\n5,1,2\n4,1,2\n", "line 3: the time falls"),
        ("timestamp,input_length,output_length\n5,1,2\n5,1,2\n", "no two requests at different times"),
        ("timestamp,input_length,output_length\nsoon,1,2\n", "'soon' is no time"),
        ("timestamp,input_length,output_length\nnan,1,2\n", "'nan' is no time"),
        ("timestamp,input_length,output_length\n5,1\n", "line 2: output_length is missing"),
        ("timestamp,input_length,output_length\n5,9999999,1\n", "a prompt of 9999999 tokens is above"),
        ('{"timestamp": 1, "input_length": 2, "output_length": 1}\n[1]\n', "line 2: expected an object"),
        ('{"timestamp": 1, "input_length": 2, "output_length": 1}\n{\n', "line 2: not JSON"),
    ],
)
def test_a_log_that_is_none_is_refused_with_its_line(tmp_path, text, message) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_arrivals(path, most=10)
    assert message in caught.value.message


def test_a_trace_of_even_times_and_one_length_is_a_constant_stream(tmp_path) -> None:
    """The same play by either way: times, lengths and the attention of prompts come from other tables."""
    path = tmp_path / "log.csv"
    lines = [f"{7 * number},2000,300" for number in range(1_000)]
    path.write_text("time,prompt_tokens,completion_tokens\n" + "\n".join(lines) + "\n")
    trace = read_arrivals(path, most=10_000)
    process = ArrivalProcess(kind="trace", requests=1_000, trace_sha256=trace.sha256)
    (traced,) = aggregated_loads([2.0], process, trace)
    (drawn,) = aggregated_loads([2.0], ArrivalProcess(kind="constant", requests=1_000))
    assert traced.ttft_mean_ms == pytest.approx(drawn.ttft_mean_ms, rel=1e-3)
    assert traced.tpot_mean_ms == pytest.approx(drawn.tpot_mean_ms, rel=1e-3)
    assert traced.cells.requests.sum() == drawn.cells.requests.sum() == 950
