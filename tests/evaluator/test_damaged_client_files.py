"""One file of each client, damaged as files are: each is one sentence with its place, and no point of it is stored."""

from __future__ import annotations

import functools
import json
import operator
from copy import deepcopy

import pytest
from client_files import AIPERF, INFERENCEX, LAYOUTS, VLLM
from more_client_files import GENAI, REPORT, SGLANG, STAGE, SWEEP

from evaluator.ledger.readers import read_measurements
from store.errors import InputError

# Where each has the mean latency of a first token.
FIRST_TOKEN = {
    "vllm": (VLLM, ("mean_ttft_ms",)),
    "sglang": (SGLANG, ("mean_ttft_ms",)),
    "inference-perf": (STAGE, ("successes", "latency", "time_to_first_token", "mean")),
    "report": (REPORT, ("results", "request_performance", "aggregate", "latency", "time_to_first_token", "mean")),
    "genai-bench": (GENAI, ("aggregated_metrics", "stats", "ttft", "mean")),
    "aiperf": (AIPERF, ("time_to_first_token", "avg")),
    "guidellm": (LAYOUTS["from 0.7"], ("benchmarks", 0, "metrics", "time_to_first_token_ms", "successful", "mean")),
    "inferencex": (INFERENCEX, ("mean_ttft",)),
    "aiperf-sweep": (SWEEP, ("per_combination_metrics", 0, "metrics", "time_to_first_token_avg", "mean")),
}
CLIENTS = pytest.mark.parametrize("client", FIRST_TOKEN)


def changed(client, value):
    document, path = deepcopy(FIRST_TOKEN[client][0]), FIRST_TOKEN[client][1]
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def refused(path):
    """What is said of a file or of its points, as one text a refusal."""
    try:
        read = read_measurements(path)
    except InputError as error:
        return [error.message]
    return [f"{one.where}: {one.what}" for one in read.problems]


def written(folder, document):
    path = folder / "run.json"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


@CLIENTS
def test_the_file_itself_is_read(client, tmp_path):
    assert refused(written(tmp_path, FIRST_TOKEN[client][0])) == []


@CLIENTS
def test_a_cut_file_is_told_with_the_line_where_it_ends(client, tmp_path):
    path = written(tmp_path, FIRST_TOKEN[client][0])
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: len(lines) // 2]))
    (said,) = refused(path)
    assert f"run.json:{len(lines) // 2}" in said


@CLIENTS
@pytest.mark.parametrize("value", ["fast", [1.0], {"value": 1.0}, True], ids=str)
def test_a_latency_of_a_wrong_type_is_told(client, value, tmp_path):
    (said,) = refused(written(tmp_path, changed(client, value)))
    assert said.startswith(("run.json", str(tmp_path)))
    assert "is not a number" in said


def leaves(document, path=()):
    """The places of all that a document holds, other documents apart."""
    if isinstance(document, dict | list) and document:
        for step, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from leaves(value, (*path, step))
    else:
        yield path


@CLIENTS
@pytest.mark.parametrize("value", ["fast", {"value": 1.0}, [], float("nan"), -1, 1e308, None], ids=str)
def test_anything_else_anywhere_is_read_or_told(client, value, tmp_path):
    document = FIRST_TOKEN[client][0]
    for path in leaves(document):
        damaged = deepcopy(document)
        functools.reduce(operator.getitem, path[:-1], damaged)[path[-1]] = value
        said = refused(written(tmp_path, damaged))
        assert all(len(one) < 400 and one.startswith(("run.json", str(tmp_path))) for one in said), (path, said)


@CLIENTS
def test_a_latency_that_is_no_number_is_not_kept(client, tmp_path):
    read = read_measurements(written(tmp_path, changed(client, float("nan"))))
    assert read.records
    assert "ttft_ms_mean" not in read.records[0].metrics


@CLIENTS
def test_a_file_nested_a_million_deep_is_told(client, tmp_path):
    path = written(tmp_path, changed(client, "HERE"))
    path.write_text(path.read_text().replace('"HERE"', "[" * 1_000_000 + "]" * 1_000_000))
    (said,) = refused(path)
    assert said.startswith(("run.json", str(tmp_path)))
    assert "nested too deeply" in said
    assert len(said) < 300


def scaled(document, factor, *, within=False):
    """The document with every latency in another unit."""
    if isinstance(document, dict):
        return {name: scaled(value, factor, within=within or any(word in name for word in LATENCIES))
                for name, value in document.items()}  # fmt: skip
    if isinstance(document, list):
        return [scaled(value, factor, within=within) for value in document]
    return document * factor if within and isinstance(document, float) else document


LATENCIES = ("ttft", "tpot", "itl", "e2e", "latency", "inter_token", "time_to_first", "time_per_output")


RATES = {  # with which users over rate are the mean of a request: 64 at 20/s are 3.2 s, 32 at 1.52/s are 21 s
    "vllm": {"request_throughput": 20.0, "output_throughput": 2560.0},
    "inferencex": {"output_tput_per_gpu": 195.0},
}


@CLIENTS
@pytest.mark.parametrize(("factor", "unit"), [(1e-3, "seconds"), (1e3, "microseconds")])
def test_latencies_in_another_unit_than_the_file_says_are_told(client, factor, unit, tmp_path):
    """Users over rate are how long a request takes. The stage has no users, but a request does not outlast its run."""
    document = FIRST_TOKEN[client][0] | RATES.get(client, {})
    said = refused(written(tmp_path, scaled(document, factor)))
    if client == "inference-perf" and factor > 1:
        assert len(said) == 1
        assert "are latencies a thousand times too large?" in said[0]
        return
    assert said
    assert all(one.startswith("run.json") for one in said)
    assert all(f"in {unit}?" in one for one in said)
