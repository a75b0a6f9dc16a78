"""Request logs: the three known forms, and what is refused."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from shared_data import shared_data

from evaluator.inputs.workloads.lengths import mean_input_length, mean_output_length
from evaluator.inputs.workloads.traces import read_trace
from evaluator.serving.waves.packing import largest_remainder, realised_mean
from store.errors import InputError


def test_equal_weight_quantiles_keep_the_means(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"t,{i},{2 * i}\n" for i in range(1, 101)))
    summary = read_trace(path, input_bins=5)
    assert summary.requests == 100
    assert len(summary.bins) == 20  # 5 quantiles of 20 requests, each in 4 by output
    assert all(np.isclose(b.weight, 0.05) for b in summary.bins)
    # bins hold 5 consecutive lengths each, so representatives are whole: 3, 8, ..., 98
    assert sorted(b.input_length for b in summary.bins) == list(range(3, 100, 5))
    assert mean_input_length(summary.bins) == pytest.approx(50.5)
    assert mean_output_length(summary.bins) == pytest.approx(101)


def test_a_request_at_an_edge_belongs_to_both_quantiles(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("input_tokens,output_tokens\n" + "".join(f"{i},7\n" for i in (10, 20, 90)))
    # 1.5 requests each: (10 + 20 / 2) / 1.5 = 13.33 and (20 / 2 + 90) / 1.5 = 66.67; all ask for 7 tokens
    summary = read_trace(path, input_bins=2)
    assert {b.weight for b in summary.bins if b.max_input_length == 20} == {0.25}
    inputs = {(b.min_input_length, b.max_input_length) for b in summary.bins}
    assert inputs <= {(10, 10), (10, 20), (20, 20), (20, 90), (90, 90)}
    assert mean_input_length(summary.bins) == pytest.approx(40, abs=0.5)


def test_small_batches_hold_short_and_long_prompts_alike(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("input_tokens,output_tokens\n" + "".join(f"{100 * i},{1 + i % 97}\n" for i in range(1, 1601)))
    bins = read_trace(path, input_bins=16).bins
    lengths = np.array([b.input_length for b in bins])
    assert len({b.weight for b in bins}) == 1
    for ties in ("first", "last"):
        samples = largest_remainder(np.arange(1, 200), np.array([b.weight for b in bins]), ties=ties)
        bias = np.abs(realised_mean(samples, lengths) / (samples[-1] @ lengths / 199) - 1)
        # lengths are uniform over 0..160,000: in order of length, a batch of 16 would hold bins 0-3 of 16, 78 % too short
        assert bias[3:].max() < 0.3
        assert bias[15:].max() < 0.1


def test_jsonl_of_mooncake_and_of_benchmarks(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"timestamp": 0, "input_length": 10, "output_length": 4, "hash_ids": [1]}\n\n{"input_length": 30, "output_length": 8}\n'
    )
    summary = read_trace(path, input_bins=2)
    assert [(b.input_length, b.output_length) for b in summary.bins] == [(30, 8), (10, 4)]
    path.write_text('{"prompt": "x", "prompt_len": 10, "output_len": 4}\n')
    assert read_trace(path, input_bins=1).bins[0].input_length == 10


def test_requests_without_output_are_counted_not_averaged(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("input_tokens,output_tokens\n10,0\n20,5\n")
    summary = read_trace(path, input_bins=1)
    assert (summary.requests, summary.skipped) == (1, 1)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "no column with the prompt length"),
        ("input_tokens,output_tokens\n", "no request with both"),
        ("input_tokens,output_tokens\n-5,2\n", r"line 2: a length of -5 tokens is outside"),
        ("input_tokens,output_tokens\nnan,2\n", r"line 2: 'nan' is not a whole number"),
        ("input_tokens,output_tokens\n5\n", r"line 2: 1 fields, the header has 2"),
        ('{"input_length": 5, "output_length": 2}\n{broken\n', "line 2: not JSON"),
        (
            '{"input_length": 5, "output_length": 2}\n{"input_length": 5}\n',
            "line 2: input_length or output_length is missing",
        ),
        ('{"conversations": []}\n', "texts must be tokenised first"),
        ('[{"input_length": 5, "output_length": 2}]\n', "one JSON array; a trace has one object a line"),
    ],
)
def test_a_bad_trace_names_the_line(tmp_path, text, complaint):
    path = tmp_path / "bad.log"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(path)

    assert re.search(complaint, str(caught.value))


def test_a_ten_gigabyte_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.csv"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(InputError, match="too large for a trace"):
        read_trace(path)


def test_one_endless_line_is_refused_in_bounded_memory(tmp_path):
    path = tmp_path / "endless.csv"
    with path.open("wb") as file:
        file.truncate(2**29)
    with pytest.raises(InputError, match="a line is longer"):
        read_trace(path)


def test_azure_conversation_trace_keeps_its_means():
    path = shared_data("traces", "AzureLLMInferenceTrace_2023_conv.csv")
    with path.open() as file:
        rows = [(int(r["ContextTokens"]), int(r["GeneratedTokens"])) for r in csv.DictReader(file)]
    kept = np.array([row for row in rows if min(row) > 0])
    summary = read_trace(path, input_bins=16)
    assert summary.requests == len(kept)
    assert mean_input_length(summary.bins) == pytest.approx(kept[:, 0].mean(), rel=1e-3)
    assert mean_output_length(summary.bins) == pytest.approx(kept[:, 1].mean(), rel=5e-3)
