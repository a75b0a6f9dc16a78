"""Files of more benchmark clients: each fact where its client has it, and damage as one sentence with its place."""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime

import duckdb
import pytest
import yaml
from client_files import AIPERF, INFERENCEX, OWN, VLLM, only, write
from more_client_files import (
    AIPERF_CSV,
    CONFIGURATION,
    EXPERIMENT,
    GENAI,
    MANIFEST,
    REPORT,
    SGLANG,
    STAGE,
    SWEEP,
    changed,
)
from shared_data import shared_data

from evaluator.canonical import content_key
from evaluator.ledger.readers import opening, packed, read_measurements, rows
from evaluator.ledger.readers.declared import named_device
from store.errors import InputError


def test_sglang_says_its_server_its_drafts_and_what_its_cache_held(tmp_path):
    record = only(write(tmp_path, json.dumps(SGLANG) + "\n", "run.jsonl"))
    assert (record.source_format, record.engine, record.engine_version) == ("sglang_bench", "sglang", "0.5.9+gabc1234")
    assert (record.model, record.kv_precision, record.mode) == ("org/Big-1T-FP8", "fp8_e4m3", "aggregated")
    assert (record.request_rate, record.concurrency) == (None, 128.0)  # JSON's Infinity: no rate was asked
    assert (record.input_length, record.output_length) == (1024.0, 512.0)  # 524288 / 512, 262144 / 512
    # Attention data parallelism lies inside tp: 8 devices are 4 replicas of 2, experts over all 8.
    side = record.decode
    assert (side.tp, side.dp, side.ep, side.moe_tp, record.num_devices) == (2, 4, 8, 1, 8)
    assert record.metrics == {
        "e2e_ms_mean": 30000.0, "e2e_ms_p90": 33000.0, "ttft_ms_mean": 2000.0, "ttft_ms_p50": 1900.0,
        "ttft_ms_std": 100.0, "ttft_ms_p95": 2500.0, "tpot_exclusive_ms_mean": 54.0, "itl_ms_mean": 53.0,
        "requests_per_s": 4.0, "input_tokens_per_s": 4096.0, "output_tokens_per_s": 2048.0, "total_tokens_per_s": 6144.0,
    }  # fmt: skip
    run = record.run
    assert (run.accept_length, run.cached_share, run.engine_commit) == (2.5, 0.25, "abc1234")  # 131072 / 524288
    assert (run.completed_requests, run.failed_requests) == (512, 1)
    assert json.loads(record.extra)["spec_decode"] == "EAGLE"


@pytest.mark.parametrize(
    ("info", "mode", "guess"),
    [
        (None, None, ""),
        ({"router_manager": True, "workers_count": 2}, None, "2 workers behind a router: disaggregated, or replicas"),
        ({"router_manager": True, "workers_count": 1}, "aggregated", ""),
        ({"tp_size": 8, "disaggregation_mode": "decode"}, "decode", ""),
        ({"prefill": [{"tp_size": 4}, {"tp_size": 4}], "decode": [{"tp_size": 8}]}, "disaggregated", ""),
    ],
)
def test_sglang_behind_a_router_is_no_aggregated_server(info, mode, guess, tmp_path):
    result = read_measurements(write(tmp_path, SGLANG | {"server_info": info, "accept_length": None}))
    (record,) = result.records
    assert record.mode == mode
    assert (guess in result.files[0].guessed) == bool(guess)
    assert record.run.accept_length is None  # null is not known
    if mode == "disaggregated":
        assert (record.prefill.instances, record.prefill.tp, record.decode.instances, record.decode.tp) == (2, 4, 1, 8)


def test_a_stage_of_inference_perf_with_its_servers_manifest(tmp_path):
    write(tmp_path, MANIFEST, "manifests.yaml")
    write(tmp_path, CONFIGURATION, "config.yaml")
    write(tmp_path, STAGE, "summary_lifecycle_metrics.json")
    write(tmp_path, STAGE, "stage_0_lifecycle_metrics.json")
    result = read_measurements(tmp_path)
    (record,) = result.records
    assert (record.request_rate, record.concurrency, record.mode) == (10.0, None, "aggregated")
    # The manifest says what is served; the client's configuration only what it asks for.
    assert (record.model, record.engine, record.engine_version) == ("org/model-8B", "vllm", "0.11.0")
    assert (record.device, record.num_devices, record.kv_precision) == ("h100_sxm", 8, "fp8")  # 2 replicas of 4
    assert (record.decode.tp, record.decode.instances, record.run.image) == (4, 2, "vllm/vllm-openai:v0.11.0")
    assert (record.input_length, record.output_length) == (200.0, 101.0)
    assert (record.run.completed_requests, record.run.failed_requests) == (594, 6)
    metrics = record.metrics
    assert metrics["ttft_ms_mean"] == pytest.approx(50.0)
    assert metrics["ttft_ms_p99.9"] == pytest.approx(95.0)
    assert "ttft_ms_p5" not in metrics  # the fast end serves no question
    assert metrics["e2e_ms_p50"] == pytest.approx(945.0)
    # (1050 - 50) / (101 - 1): the file's own 5 ms is of stream pieces, two a token.
    assert metrics["tpot_exclusive_ms_mean"] == pytest.approx(10.0)
    said = {one.place: one.guessed for one in result.files}
    assert said["summary_lifecycle_metrics.json"] == ("repeats stage_*_lifecycle_metrics.json",)
    assert said["manifests.yaml"] == ("settings, no result",)
    assert any(one.startswith("TPOT 10 ms") for one in said["stage_0_lifecycle_metrics.json"])


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_benchmark_report_in_its_own_units(form, tmp_path):
    record = only(write(tmp_path, json.dumps(REPORT) if form == "json" else yaml.safe_dump(REPORT), f"br.{form}"))
    assert (record.source_format, record.mode, record.model) == ("benchmark_report", "disaggregated", "org/model-8B")
    assert (record.device, record.engine, record.num_devices) == ("h200_sxm", "vllm", 14)  # 3 x 2 + 8
    assert (record.prefill.instances, record.prefill.tp, record.decode.dp, record.decode.ep) == (3, 2, 8, 8)
    assert (record.concurrency, record.request_rate) == (32.0, None)
    assert (record.input_length, record.output_length) == (998.0, 101.0)  # what was sent, not what was asked for
    assert record.metrics == {
        "ttft_ms_mean": 400.0, "ttft_ms_p99": 900.0, "ttft_ms_p99.9": 990.0, "tpot_exclusive_ms_mean": 20.0,
        "e2e_ms_mean": 2400.0, "output_tokens_per_s": 1300.0, "requests_per_s": 13.0,
    }  # fmt: skip
    run = record.run
    assert (run.measured_by, run.tags, run.image) == ("ada", "h100,nightly", "ghcr.io/llm-d/llm-d-cuda:0.3.1")
    assert (run.completed_requests, run.failed_requests) == (480, 20)
    assert record.measured_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_an_open_loop_of_a_report_has_no_users(tmp_path):
    load = REPORT["scenario"]["load"]["standardized"] | {"concurrency": float("inf"), "rate_qps": 13.0}
    record = only(write(tmp_path, changed(REPORT, ("scenario", "load", "standardized"), load)))
    assert (record.concurrency, record.request_rate) == (None, 13.0)


def test_an_experiment_of_genai_bench_with_its_metadata(tmp_path):
    write(tmp_path, EXPERIMENT, "experiment_metadata.json")
    write(tmp_path, GENAI, "D(1000,100)_text-to-text_num_concurrency_16_time_60s.json")
    (record,) = read_measurements(tmp_path).records
    assert (record.model, record.engine, record.engine_version) == ("org/model-8B", "sglang", "0.5.9")
    assert (record.device, record.num_devices, record.concurrency) == ("h100_sxm", 2, 16.0)
    assert record.metrics == {
        "ttft_ms_mean": 200.0, "ttft_ms_p99": 500.0, "ttft_ms_std": 50.0, "tpot_exclusive_ms_mean": 18.0,
        "e2e_ms_mean": 1982.0, "output_tokens_per_s": 800.0, "total_tokens_per_s": 8800.0, "input_tokens_per_s": 8000.0,
        "requests_per_s": 8.0,
    }  # fmt: skip


def test_a_sweep_of_aiperf_gives_all_its_points(tmp_path):
    result = read_measurements(write(tmp_path, SWEEP, "profile_export_aiperf_sweep.json"))
    assert [(one.concurrency, one.metrics["ttft_ms_mean"]) for one in result.records] == [(8.0, 100.0), (16.0, 250.0)]
    assert result.records[0].metrics == {
        "ttft_ms_mean": 100.0, "ttft_ms_p99": 300.0, "tpot_exclusive_ms_mean": 10.0, "requests_per_s": 7.2
    }  # fmt: skip
    assert (result.records[0].input_length, result.records[0].output_length) == (1000.0, 101.0)


def test_aiperf_as_csv_and_what_repeats_it(tmp_path):
    path = write(tmp_path, AIPERF_CSV, "profile_export_aiperf.csv")
    record = only(path)
    assert record.metrics == {
        "ttft_ms_mean": 1300.0, "ttft_ms_p99": 1900.0, "ttft_ms_p90": 1500.0, "ttft_ms_p50": 1250.0,
        "tpot_exclusive_ms_mean": 30.0, "tpot_exclusive_ms_p99": 39.0, "tpot_exclusive_ms_p90": 35.0,
        "tpot_exclusive_ms_p50": 30.0, "requests_per_s": 2.0, "output_tokens_per_s": 202.0,
    }  # fmt: skip
    assert (record.input_length, record.output_length) == (512.0, 101.0)
    write(tmp_path, AIPERF, "profile_export_aiperf.json")
    (tmp_path / "sweep_aggregate").mkdir()
    write(tmp_path / "sweep_aggregate", SWEEP, "profile_export_aiperf_sweep.json")
    assert [one.source for one in read_measurements(tmp_path).records] == ["profile_export_aiperf.json"]


def test_perf_eval_writes_inferencex_rows_with_device(tmp_path):
    row = {name: value for name, value in INFERENCEX.items() if name != "hw"} | {"device": "H200"}
    record = only(write(tmp_path, [row]))
    assert (record.source_format, record.device, record.num_devices) == ("inferencex", "h200_sxm", 8)


def test_files_that_gzip_or_zstd_packed(tmp_path):
    lines = json.dumps(VLLM) + "\n" + json.dumps(VLLM | {"max_concurrency": 32, "request_throughput": 4.0}) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    write(tmp_path, lines, "b.jsonl")
    plain = "delim = '\x01', quote = '', escape = '', header = false, auto_detect = false"
    duckdb.sql(
        f"COPY (FROM read_csv('{tmp_path}/b.jsonl', columns = {{'line': 'VARCHAR'}}, {plain})) TO '{tmp_path}/c.jsonl.zst'"
        " (FORMAT csv, COMPRESSION zstd, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01')"
    )
    users = [[one.concurrency for one in read_measurements(tmp_path / name).records]
             for name in ("a.jsonl.gz", "b.jsonl", "c.jsonl.zst")]  # fmt: skip
    assert users == [[64.0, 32.0]] * 3
    for name in ("a.jsonl.gz", "c.jsonl.zst"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="cut or damaged"):
            read_measurements(tmp_path / name)


@pytest.mark.parametrize(
    ("document", "path", "value", "complaint"),
    [
        (SGLANG, ("mean_ttft_ms",), "fast", "mean_ttft_ms: 'fast' is not a number"),
        (SGLANG, ("max_concurrency",), [1], "max_concurrency: [1] is not a number"),
        (SGLANG, ("mean_tpot_ms",), 0.0127, "tpot_exclusive_ms_mean is 0.0127 ms, shorter than any server's"),
        (SGLANG, ("mean_e2e_latency_ms",), 30.0, "e2e_ms_mean is 30 ms where its parts are 2.959e+04: is it in seconds?"),
        (SGLANG, ("completed",), 0, "no request of the run completed: 1 failed"),
        (STAGE, ("successes", "latency", "time_to_first_token"), {"mean": 0.05, "units": "furlongs"}, "'furlongs' is unknown"),
        (STAGE, ("successes", "prompt_len", "mean"), "long", "is not a number"),
        (REPORT, ("results", "request_performance", "aggregate", "latency", "request_latency", "units"), "ms", "in seconds?"),
        (REPORT, ("scenario", "load", "standardized", "concurrency"), {}, "is not a number"),
        (REPORT, ("run", "time", "start"), "yesterday", "'yesterday' is no time"),
        (GENAI, ("aggregated_metrics", "stats", "ttft", "mean"), "x", "mean: 'x' is not a number"),
        (GENAI, ("aggregated_metrics", "num_completed_requests"), 1.5, "is not a whole number"),
        (INFERENCEX, ("mean_ttft",), -1, "must be above 0"),
        (AIPERF, ("request_latency", "unit"), "weeks", "unit 'weeks' is unknown"),
        (SWEEP, ("per_combination_metrics",), [7], "per_combination_metrics[0] is no object"),
    ],
)  # fmt: skip
def test_damage_is_one_sentence_with_its_place(document, path, value, complaint, tmp_path):
    result = read_measurements(write(tmp_path, changed(document, path, value)))
    assert result.records == ()
    (problem,) = result.problems
    assert problem.where.startswith("result.json")
    assert complaint in problem.what


def test_latencies_in_seconds_are_told_by_users_and_rate(tmp_path):
    """64 users at 8 requests/s are 8 s a request; 3.2 s between the limits of any queue, 0.0082 s of none."""
    seconds = VLLM | {"mean_ttft_ms": 0.42, "mean_tpot_ms": 0.06, "mean_e2el_ms": 8.04,
                      "median_ttft_ms": 0.4, "std_ttft_ms": 0.1, "p99_ttft_ms": 0.9, "median_tpot_ms": 0.06,
                      "p99.9_tpot_ms": 0.1}  # fmt: skip
    result = read_measurements(write(tmp_path, seconds))
    assert "are latencies in seconds?" in result.problems[0].what
    assert "make it 8000" in result.problems[0].what


def test_a_stage_in_milliseconds_is_told_by_the_length_of_its_run(tmp_path):
    """594 answers at 9.9 a second are a run of 60 s; a mean request of 1050 s does not fit into it."""
    wrong = copy.deepcopy(STAGE)
    for block in wrong["successes"]["latency"].values():
        block.update({name: 1e3 * value for name, value in block.items()})
    result = read_measurements(write(tmp_path, wrong, "stage_0_lifecycle_metrics.json"))
    assert result.records == ()
    assert [one.what for one in result.problems] == [
        "a request takes 1.05e+06 ms, but all 594 of them 6e+04 ms at 9.9 requests/s: are latencies a thousand times too large?"
    ]


def test_a_file_of_a_gigabyte_is_refused_by_its_size(tmp_path):
    path = tmp_path / "result.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # no block of it is on the disk, and none is read
    with pytest.raises(InputError, match="more than 268435456 bytes"):
        read_measurements(path)


@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd"])
def test_what_unpacks_to_more_than_is_held_is_refused(tmp_path, monkeypatch, packing):
    monkeypatch.setattr(packed, "LARGEST_FILE_BYTES", 1 << 16)
    path = tmp_path / "result.json"
    text = json.dumps(VLLM) + " " * (1 << 16)
    if packing == "zstd":
        lines = [line + " " * 99 for line in json.dumps(VLLM, indent=1).split("\n")] * 20
        duckdb.sql("SELECT unnest($lines) AS line", params={"lines": lines}).write_csv(
            str(path), header=False, compression="zstd", quotechar="", escapechar="", sep="\x01")  # fmt: skip
    else:
        path.write_bytes(gzip.compress(text.encode()) if packing == "gzip" else text.encode())
    assert packing == "plain" or path.stat().st_size < 1 << 14
    with pytest.raises(InputError, match="more than 65536 bytes"):
        read_measurements(path)


def test_values_and_lines_that_would_fill_the_memory_are_problems(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "MOST_VALUES", 100)
    monkeypatch.setattr(rows, "LONGEST_LINE", 1000)
    path = tmp_path / "result.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (VLLM, VLLM | {"many": [[]] * 99}, VLLM | {"tp": 4})))
    result = read_measurements(path)
    assert len(result.records) == 2
    assert [(one.where, one.what) for one in result.problems] == [
        ("result.jsonl:2", "more than 100 values: import parts of it")
    ]
    table = tmp_path / "mine.csv"
    header, line = OWN.splitlines()[:2]
    table.write_text("\n".join([header, line, "," * 1001, line]))
    result = read_measurements(table)
    assert len(result.records) == 1
    assert [(one.where, one.what) for one in result.problems] == [
        ("mine.csv:3", "a line of more than 1000 characters; what follows is not read")
    ]


@pytest.mark.parametrize("document", [SGLANG, STAGE, REPORT, GENAI, SWEEP, AIPERF, INFERENCEX, VLLM])
def test_a_cut_file_and_one_that_is_nan_everywhere(document, tmp_path):
    text = json.dumps(document)
    cut = read_measurements(write(tmp_path, text[: len(text) // 2], "cut.json"))
    assert (cut.records, [one.what for one in cut.problems]) == ((), ["not JSON: the file is cut off"])
    numbers = json.loads(text, parse_float=lambda _: float("nan"))
    nan = read_measurements(write(tmp_path, numbers, "nan.json"))
    assert nan.records == ()
    assert {one.what for one in nan.problems} <= {"no measured value that we know", "no request of the run completed"}
    assert nan.problems


def test_nesting_without_end_is_refused_in_no_time(tmp_path):
    deep = read_measurements(write(tmp_path, "[" * 5_000_000, "deep.json"))
    assert [one.what for one in deep.problems] == ["not JSON that can be read: nested too deeply"]
    inside = json.dumps(SGLANG)[:-1] + ', "note": ' + "[" * 900 + "]" * 900 + "}"
    assert read_measurements(write(tmp_path, inside)).records == ()
    marked_up = "results:\nscenario:\n  a: " + "[" * 100_000
    assert "32 levels deep" in read_measurements(write(tmp_path, marked_up, "deep.yaml")).problems[0].what
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="more than 268435456 bytes"):
        read_measurements(large)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b"[" * (1 << 20)) * 300)
    with pytest.raises(InputError, match="more than 268435456 bytes"):
        read_measurements(tmp_path / "bomb.json.gz")


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ("NVIDIA-H100-80GB-HBM3", "h100_sxm"), ("NVIDIA A100-SXM4-80GB", "a100_sxm"), ("nvidia-h100-80gb", "h100_sxm"),
        ("AMD Instinct MI300X OAM", "mi300x"), ("h100_xsm", "h100_xsm"), ("abacus", "abacus"),
    ],
)  # fmt: skip
def test_devices_as_drivers_and_clusters_write_them(written, ours):
    assert named_device(written) == ours


def test_many_runs_of_a_folder_keep_their_places(tmp_path):
    for number, users in enumerate((8, 16)):
        folder = tmp_path / f"day{number}" / "runs"
        folder.mkdir(parents=True)
        write(folder, VLLM | {"max_concurrency": users, "request_throughput": users / 8}, "run=0.json")
        write(folder, "a,b\n1,2\n", "summary.csv")
    result = read_measurements(tmp_path)
    assert [one.source for one in result.records] == ["day0/runs/run=0.json", "day1/runs/run=0.json"]
    assert len({one.file for one in result.records}) == 2
    assert {one.place: one.guessed for one in result.files if not one.format} == {
        f"day{number}/runs/summary.csv": ("repeats run=*",) for number in (0, 1)
    }


def test_every_file_that_a_client_really_wrote_is_read():
    folder = shared_data("clients")
    result = read_measurements(folder)
    assert result.problems == ()
    assert {one.source_format for one in result.records} == {
        "sglang_bench", "inference_perf_stage", "benchmark_report", "guidellm"
    }  # fmt: skip
    for record in result.records:
        path = folder / record.source.partition(":")[0].partition(" ")[0]
        if record.source_format == "sglang_bench":
            line = int(record.source.partition(":")[2] or 1)
            document = json.loads(path.read_text().splitlines()[line - 1])
            for name, value in document.items():
                statistic, _, kind = name.removesuffix("_ms").partition("_")
                ours = {"ttft": "ttft_ms", "tpot": "tpot_exclusive_ms", "itl": "itl_ms", "e2e_latency": "e2e_ms"}.get(
                    kind
                )
                if ours is not None:
                    assert record.metrics[f"{ours}_{statistic.replace('median', 'p50')}"] == value
            assert record.metrics["total_tokens_per_s"] == document["total_throughput"]
            assert record.input_length == document["total_input_tokens"] / document["completed"]
            assert (record.concurrency, record.request_rate) == (document["max_concurrency"], None)
            assert record.run.accept_length == document["accept_length"]
        elif record.source_format == "inference_perf_stage":
            stage = json.loads(path.read_text())
            times = stage["successes"]["latency"]
            assert record.request_rate == stage["load_summary"]["requested_rate"]
            assert record.metrics["ttft_ms_mean"] == pytest.approx(1e3 * times["time_to_first_token"]["mean"])
            assert record.metrics["e2e_ms_p99"] == pytest.approx(1e3 * times["request_latency"]["p99"])
            assert (record.model, record.device, record.engine_version) == (
                "meta-llama/Llama-3.1-8B-Instruct", "h100_sxm", "0.11.0"
            )  # fmt: skip
        elif record.source_format == "guidellm":
            assert (record.model, record.request_rate, record.concurrency) == (
                "e2e-mock-model",
                record.request_rate,
                None,
            )
        else:
            assert (record.model, record.device, record.num_devices) == ("Qwen/Qwen3-0.6B", "h100_sxm", 16)


@pytest.mark.parametrize("document", [SGLANG, STAGE, REPORT, GENAI, VLLM, INFERENCEX])
def test_a_key_is_that_of_the_records_canonical_text(document, tmp_path):
    """Texts that many points share are made once; the key is still the digest of the whole, without where it stood."""
    record = only(write(tmp_path, document))
    extra = {name: value for name, value in json.loads(record.extra).items() if name != "circumstances"}
    at = None if record.measured_at is None else record.measured_at.isoformat()
    bare = replace(
        record, key="", source="", extra=json.dumps(extra, sort_keys=True, ensure_ascii=False), measured_at=at
    )
    assert record.key == content_key(bare)
