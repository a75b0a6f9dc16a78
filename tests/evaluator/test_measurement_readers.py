"""Files of measured points in the layouts that their writers use; every number here is made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from client_files import AIPERF, INFERENCEX, LAYOUTS, OWN, VLLM, block, only, write
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluator.ledger.readers import read_measurements
from evaluator.ledger.readers.clients.guidellm import layout_of
from store.errors import InputError


def test_vllm_names_units_and_definitions(tmp_path):
    record = only(write(tmp_path, VLLM))
    assert (record.source_format, record.model, record.device, record.engine) == (
        "vllm_bench", "Qwen/Qwen3-32B", "h100_sxm", "vllm"
    )  # fmt: skip
    assert (record.input_length, record.output_length) == (1024.0, 128.0)  # 655360 / 640, 81920 / 640
    assert (record.concurrency, record.request_rate, record.num_devices, record.decode.tp) == (64.0, None, 2, 2)
    assert record.metrics == {
        "ttft_ms_mean": 420.5, "ttft_ms_p50": 400.0, "ttft_ms_std": 55.0, "ttft_ms_p99": 900.0,
        "tpot_exclusive_ms_mean": 21.5, "tpot_exclusive_ms_p50": 21.0, "tpot_exclusive_ms_p99.9": 40.0,
        "itl_ms_mean": 21.25, "e2e_ms_mean": 3151.0,
        "output_tokens_per_s": 1024.0, "total_tokens_per_s": 9216.0, "requests_per_s": 8.0,
    }  # fmt: skip
    assert record.definitions["tpot_exclusive_ms_mean"].startswith("(e2e - ttft) / (output tokens - 1)")
    assert "some_new_field" in record.extra
    assert "probe_median_e2el_ms" in record.extra
    assert (record.precision, record.kv_precision, record.decode.pp) == (None, None, None)


def test_vllm_without_metadata_says_neither_device_nor_engine_behind_an_openai_server(tmp_path):
    bare = {name: value for name, value in VLLM.items() if name not in {"device", "tensor_parallel_size"}}
    record = only(write(tmp_path, {**bare, "backend": "openai-chat", "request_rate": 4.0, "max_concurrency": None}))
    assert (record.device, record.engine, record.num_devices, record.concurrency) == (None, None, None, None)
    assert record.request_rate == 4.0
    assert json.loads(record.extra)["backend"] == "openai-chat"


def test_the_copy_of_the_client_that_sglang_has(tmp_path):
    own = {"backend": "sglang", "mean_e2e_latency_ms": 3000.0, "random_range_ratio": 1.0}
    record = only(write(tmp_path, {name: value for name, value in VLLM.items() if "e2el" not in name} | own))
    assert (record.engine, record.metrics["e2e_ms_mean"]) == ("sglang", 3000.0)
    assert json.loads(record.extra)["random_range_ratio"] == 1.0


def test_vllm_drafts_are_said_and_lists_of_requests_counted(tmp_path):
    extra = json.loads(only(write(tmp_path, {**VLLM, "spec_decode_num_drafts": 9, "ttfts": [0.1] * 640})).extra)
    assert extra["spec_decode"]
    assert extra["ttfts"] == "640 values, not kept"


def test_vllm_appends_a_result_a_line_and_a_bad_line_is_named(tmp_path):
    other = {**VLLM, "max_concurrency": 128}
    path = write(tmp_path, "\n".join([json.dumps(VLLM), json.dumps(other)[:-40], "", json.dumps(other)]))
    result = read_measurements(path)
    assert [record.concurrency for record in result.records] == [64.0, 128.0]
    assert [record.source for record in result.records] == ["result.json:1", "result.json:4"]
    (problem,) = result.problems
    assert problem.where == "result.json:2"
    assert problem.what.startswith("not JSON")


def test_a_vllm_sweep_folder_is_its_runs(tmp_path):
    folder = tmp_path / "20260203"
    runs = folder / "SERVE-tp=2-BENCH-max_concurrency=64"
    runs.mkdir(parents=True)
    first, second = VLLM | {"run_number": 0}, VLLM | {"run_number": 1, "mean_ttft_ms": 430.0}
    write(runs, first, "run=0.json")
    write(runs, second, "run=1.json")
    write(runs, [first, second], "summary.json")
    write(runs, VLLM | {"run_number": -1}, "warmup.json")
    write(runs, {"run_number": 2, "error_type": "OSError", "error": "gone"}, "run=2.failure.json")
    write(runs, json.dumps(first)[:100], "run=3.json")
    result = read_measurements(folder)
    assert sorted(record.metrics["ttft_ms_mean"] for record in result.records) == [420.5, 430.0]
    assert {record.source for record in result.records} == {f"{runs.name}/run=0.json", f"{runs.name}/run=1.json"}
    assert {problem.where: problem.what.partition(":")[0] for problem in result.problems} == {
        f"{runs.name}/run=2.failure.json": "the run itself failed",
        f"{runs.name}/run=3.json:1": "not JSON",
    }


def test_numbers_that_are_none(tmp_path):
    """Python's JSON can hold NaN and Infinity; a latency of 0 says that nothing was measured."""
    record = only(write(tmp_path, {**VLLM, "mean_ttft_ms": float("nan"), "mean_tpot_ms": 0.0}))
    assert "ttft_ms_mean" not in record.metrics
    assert "tpot_exclusive_ms_mean" not in record.metrics
    result = read_measurements(write(tmp_path, {**VLLM, "mean_ttft_ms": float("inf")}))
    assert (result.records, result.problems[0].what) == ((), "mean_ttft_ms is infinite")
    result = read_measurements(write(tmp_path, {**VLLM, "mean_ttft_ms": -3.0}))
    assert result.problems[0].what == "ttft_ms_mean is -3: a measured value must be above 0"
    result = read_measurements(write(tmp_path, {**VLLM, "mean_ttft_ms": "fast"}))
    assert result.problems[0].what == "mean_ttft_ms: 'fast' is not a number"
    assert "NaN" not in only(write(tmp_path, {**VLLM, "unknown": float("nan")})).extra


def test_inferencex_is_in_seconds_and_for_each_device(tmp_path):
    record = only(write(tmp_path, INFERENCEX))
    assert record.metrics == {
        "ttft_ms_mean": 500.0, "ttft_ms_p50": 450.0, "ttft_ms_p99": 1500.0, "tpot_exclusive_ms_mean": 20.0,
        "e2e_ms_mean": 20960.0, "output_tokens_per_s": 800.0, "total_tokens_per_s": 1600.0,
    }  # fmt: skip
    assert record.definitions["ttft_ms_mean"].endswith("converted from s")
    assert record.definitions["output_tokens_per_s"].endswith("converted from one device of 8")
    assert (record.num_devices, record.mode, record.engine) == (8, "aggregated", "sglang")
    side = record.decode
    assert (side.tp, side.dp, side.ep, side.moe_tp) == (1, 8, 8, 1)
    extra = json.loads(record.extra)
    assert extra["mean_intvty"] == 50.0
    assert (extra["spec_decoding"], "spec_decode" in extra) == ("none", False)


def test_inferencex_of_its_first_year(tmp_path):
    """No lengths, no number of devices: rates were divided by tp. Drafting was called mtp."""
    names = ("hw", "conc", "model", "framework", "precision", "tput_per_gpu", "output_tput_per_gpu", "mean_ttft")
    first = {name: INFERENCEX[name] for name in names} | {"tp": 4, "ep": 1, "dp_attention": "false", "mtp": "on"}
    record = only(write(tmp_path, first))
    assert (record.input_length, record.num_devices, record.decode.tp, record.decode.moe_tp) == (None, 4, 4, 4)
    assert record.metrics["output_tokens_per_s"] == 400.0
    assert json.loads(record.extra)["spec_decode"] == "on"
    assert "spec_decode" not in json.loads(only(write(tmp_path, first | {"mtp": "off"})).extra)


def test_inferencex_disaggregated_has_two_sides_and_output_for_each_decode_device(tmp_path):
    sides = {
        "disagg": True, "is_multinode": True, "prefill_tp": 4, "prefill_ep": 1, "prefill_dp_attention": "false",
        "prefill_num_workers": 2, "decode_tp": 16, "decode_ep": 16, "decode_dp_attention": "true",
        "decode_num_workers": 1, "num_prefill_gpu": 8, "num_decode_gpu": 16,
    }  # fmt: skip
    bare = {name: value for name, value in INFERENCEX.items() if name not in {"tp", "dp", "ep", "num_gpus"}}
    record = only(write(tmp_path, bare | sides))
    assert (record.mode, record.num_devices) == ("disaggregated", 24)
    assert (record.prefill.instances, record.prefill.tp, record.prefill.moe_tp) == (2, 4, 4)
    assert (record.decode.instances, record.decode.tp, record.decode.dp, record.decode.ep) == (1, 1, 16, 16)
    assert record.metrics["total_tokens_per_s"] == 4800.0  # 200 x 24
    assert record.metrics["output_tokens_per_s"] == 1600.0  # 100 x 16
    newer = only(write(tmp_path, bare | sides | {"output_tput_per_decode_gpu": 150.0}))
    assert newer.metrics["output_tokens_per_s"] == 2400.0  # 100 x 24


def test_aiperf_units_percentiles_and_the_profiling_phase(tmp_path):
    record = only(write(tmp_path, AIPERF))
    assert (record.source_format, record.model, record.device, record.concurrency) == (
        "aiperf", "org/model", "h100_sxm", 6.0
    )  # fmt: skip
    assert record.metrics == {
        "ttft_ms_mean": 300.0, "ttft_ms_p99": 700.0, "tpot_exclusive_ms_mean": 27.0, "e2e_ms_mean": 3000.0,
        "e2e_ms_p50": 2900.0, "e2e_ms_p99": 5000.0, "e2e_ms_std": 10.0, "output_tokens_per_s": 200.0,
        "requests_per_s": 2.0,
    }  # fmt: skip
    assert record.definitions["tpot_exclusive_ms_mean"].endswith("converted from us")
    assert (record.input_length, record.output_length) == (512.0, 101.0)
    assert json.loads(record.extra)["aiperf_version"] == "0.8.0"


def test_aiperf_before_phases_and_with_an_unknown_unit(tmp_path):
    older = {"endpoint": {"model_names": ["org/old"]}, "loadgen": {"concurrency": 3, "request_rate": 1.5}}
    record = only(write(tmp_path, AIPERF | {"input_config": older, "telemetry_data": None}))
    assert (record.model, record.concurrency, record.request_rate, record.device) == ("org/old", 3.0, 1.5, None)
    result = read_measurements(write(tmp_path, AIPERF | {"request_latency": block("fortnights", avg=1.0)}))
    assert result.problems[0].what == "request_latency: unit 'fortnights' is unknown"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_guidellm_says_the_same_in_every_layout(layout, tmp_path):
    assert layout_of(LAYOUTS[layout]) == layout
    record = only(write(tmp_path, LAYOUTS[layout], "benchmarks.json"))
    assert (record.source, record.model) == ("benchmarks.json benchmarks[0]", "org/model")
    assert (record.concurrency, record.input_length, record.output_length) == (8.0, 512.0, 256.0)
    assert record.metrics["ttft_ms_mean"] == 200.0
    assert record.metrics["ttft_ms_p50"] == 199.0
    assert record.metrics["ttft_ms_p99"] == 202.0
    assert record.metrics["tpot_exclusive_ms_mean"] == 10.0
    assert record.metrics["e2e_ms_mean"] == 3000.0  # seconds in every layout
    assert record.metrics["requests_per_s"] == 4.0
    extra = json.loads(record.extra)
    assert extra["guidellm_layout"] == layout
    # Until 0.3 the field of that name left the first token out of the time and not out of the count: kept, not read.
    assert ("tpot_inclusive_ms_mean" in record.metrics) == (layout != "until 0.3")
    assert ("time_per_output_token_ms" in extra["metrics"]) == (layout == "until 0.3")


def test_guidellm_strategies_without_streams(tmp_path):
    def under(strategy):
        report = LAYOUTS["from 0.7"]
        return only(
            write(tmp_path, report | {"benchmarks": [report["benchmarks"][0] | {"config": {"strategy": strategy}}]})
        )

    assert under({"kind": "synchronous"}).concurrency == 1.0
    constant = under({"kind": "constant", "rate": 2.5})
    assert (constant.concurrency, constant.request_rate) == (None, 2.5)  # an open loop: nobody waits for an answer
    assert under({"kind": "constant", "rate": 2.5, "max_concurrency": 10240}).concurrency is None  # a cap, no users


def test_a_report_of_several_benchmarks_loses_one_that_measured_nothing(tmp_path):
    report = LAYOUTS["0.4 to 0.6"]
    result = read_measurements(write(tmp_path, report | {"benchmarks": [{"metrics": {}}, report["benchmarks"][0]]}))
    assert len(result.records) == 1
    assert [(one.where, one.what) for one in result.problems] == [
        ("result.json benchmarks[0]", "no measured value that we know")
    ]


def test_our_own_csv_line_by_line(tmp_path):
    result = read_measurements(write(tmp_path, OWN, "mine.csv"))
    assert [(one.where, one.what) for one in result.problems] == [
        ("mine.csv:3", "no measured value that we know"),
        ("mine.csv:4", "concurrency: 'many' is not a number"),
        ("mine.csv:5", "more or fewer fields than the header has"),
    ]
    first, last = result.records
    assert first.metrics == {"ttft_ms_mean": 180.5, "tpot_exclusive_ms_p50": 12.25}
    assert (first.mode, first.decode.tp, first.prefill.tp, first.num_devices) == ("aggregated", 2, 2, 2)
    assert json.loads(first.extra) == {"rack": "r7"}
    assert last.metrics == {"tpot_exclusive_ms_p50": 15.0}
    assert (last.precision, last.num_devices, last.decode.tp) == (None, None, None)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_byte_order_mark(separator, tmp_path):
    path = tmp_path / "mine.csv"
    lines = OWN.replace(",", separator).splitlines()[:2]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    assert only(path).metrics["ttft_ms_mean"] == 180.5


def test_disaggregated_sides_in_our_own_csv(tmp_path):
    text = (
        "model,device,mode,input_length,output_length,prefill_tp,prefill_instances,decode_tp,decode_dp,decode_batch_size,"
        "output_tokens_per_s\nm,d,disaggregated,1000,10,4,2,1,8,16,5000\n"
    )
    record = only(write(tmp_path, text, "mine.csv"))
    assert (record.prefill.tp, record.prefill.instances, record.prefill.dp) == (4, 2, None)
    assert (record.decode.tp, record.decode.dp, record.decode.batch_size) == (1, 8, 16.0)


def test_a_line_in_another_encoding_leaves_the_others(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(
        OWN.splitlines()[0].encode() + b"\nB\xe4r,d,vllm,fp8,1,8,8,1,1,5,5,r\nm,d,vllm,fp8,1,8,8,1,1,5,5,r\n"
    )
    result = read_measurements(path)
    assert [one.model for one in result.records] == ["m"]
    assert [(one.where, one.what) for one in result.problems] == [("mine.csv:2", "not UTF-8 text")]


def test_aiconfigurator_rows_are_predictions_and_say_so(tmp_path):
    text = (
        "model,isl,osl,prefix,concurrency,request_rate,bs,global_bs,ttft,tpot,request_latency,seq/s,seq/s/gpu,tokens/s,"
        "tokens/s/gpu,tokens/s/user,num_total_gpus,tp,pp,dp,moe_tp,moe_ep,parallel,gemm,kvcache,backend,version,system\n"
        "M,4000,500,0,16,1.5,16,16,300,20,10280,1.5,0.375,750,187.5,50,4,4,1,1,1,1,tp4,fp8,fp8,trtllm,1.0,h200_sxm\n"
    )
    record = only(write(tmp_path, text, "pareto.csv"))
    assert (record.source_format, record.device, record.engine, record.num_devices) == (
        "aiconfigurator", "h200_sxm", "trtllm", 4
    )  # fmt: skip
    assert record.metrics == {
        "ttft_ms_mean": 300.0, "tpot_exclusive_ms_mean": 20.0, "e2e_ms_mean": 10280.0, "output_tokens_per_s": 750.0
    }  # fmt: skip
    assert all(definition.startswith("predicted by AIConfigurator") for definition in record.definitions.values())
    assert (record.decode.tp, record.decode.batch_size) == (4, 16.0)


def test_aiconfigurator_disaggregated_has_two_sides(tmp_path):
    text = (
        "model,isl,osl,concurrency,(p)bs,(p)workers,(d)bs,(d)workers,ttft,tpot,request_latency,tokens/s/gpu,num_total_gpus,"
        "(p)tp,(p)pp,(p)dp,(d)tp,(d)pp,(d)dp,(d)moe_tp,(d)moe_ep,(d)backend,(d)system,(d)gemm\n"
        "M,4000,500,64,1,2,64,1,300,20,10280,100,8,2,1,1,4,1,1,1,4,sglang,b200_sxm,fp8_block\n"
    )
    record = only(write(tmp_path, text, "best_config_topn.csv"))
    assert (record.mode, record.device, record.engine) == ("disaggregated", "b200_sxm", "sglang")
    assert (record.prefill.instances, record.prefill.tp, record.decode.tp, record.decode.ep) == (2, 2, 4, 4)
    assert record.metrics["output_tokens_per_s"] == 800.0  # 100 a device x 8


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.json", b"", "the file is empty"),
        ("empty.csv", b" \n", "the file is empty"),
        ("wide.csv", "model,device\n".encode("utf-16"), "not UTF-8 text"),
        ("latin.json", b'{\n"a": "\xe4"}', "latin.json:2: not UTF-8 text"),
        ("other.csv", b"a,b\n1,2\n", "columns of no format we know: a, b"),
    ],
)
def test_files_that_are_not_results_at_all(name, content, complaint, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_measurements(path)


def test_a_file_or_folder_that_is_not_there_or_holds_nothing(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_measurements(tmp_path / "none.json")
    with pytest.raises(InputError, match="holds no result of a benchmark"):
        read_measurements(tmp_path)


def test_truncated_and_foreign_json_are_problems_with_their_place(tmp_path):
    cut = read_measurements(write(tmp_path, json.dumps(VLLM, indent=1)[:200]))
    assert cut.records == ()
    assert cut.problems[0].where.startswith("result.json:")
    assert cut.problems[0].what.startswith("not JSON")
    foreign = read_measurements(write(tmp_path, [{"a": 1}, VLLM, 7]))
    assert len(foreign.records) == 1
    assert [(one.where, one.what) for one in foreign.problems] == [
        ("result.json[0]", "a result of no client we know; it has a"),
        ("result.json[2]", "not a JSON object"),
    ]


def test_the_key_is_of_the_content_and_not_of_the_place(tmp_path):
    one = only(write(tmp_path, VLLM, "one.json"))
    (other,) = read_measurements(write(tmp_path, [VLLM], "other.json")).records
    assert one.source != other.source
    places = {record.file for record in (one, other)}
    assert len(places) == 2
    assert replace(one, source=other.source, file=other.file) == other
    changed = only(write(tmp_path, VLLM | {"mean_ttft_ms": 421.0}))
    assert changed.key != one.key


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mean_ttft_ms": 10**400}, "is not a number"),
        ({"tensor_parallel_size": 10**12}, "is not a whole number"),
        ({"model_id": ["a"]}, "model_id is not a text"),
        ({"model_id": "a\u0000b"}, "model_id is not a text"),
        ({"model_id": "m" * 501}, "model has 501 characters, more than 500"),
        ({"note": "half \ud800"}, "it holds halves of characters"),
    ],
)
def test_what_no_store_could_hold_is_a_problem(change, complaint, tmp_path):
    result = read_measurements(write(tmp_path, json.dumps(VLLM | change)))
    assert result.records == ()
    assert complaint in result.problems[0].what


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)
WHOLE = (VLLM, INFERENCEX, AIPERF, *LAYOUTS.values())


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_field_may_hold_anything(data, tmp_path):
    """A result whose fields were replaced is read, or reported, and never ends the import."""
    document = json.loads(json.dumps(data.draw(st.sampled_from(WHOLE))))
    holder = document
    for _ in range(data.draw(st.integers(0, 3))):
        below = [value for value in (holder.values() if isinstance(holder, dict) else holder) if value and isinstance(
            value, dict | list)]  # fmt: skip
        if not below:
            break
        holder = data.draw(st.sampled_from(below))
    place = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    holder[place] = data.draw(VALUES)
    result = read_measurements(write(tmp_path, json.dumps(document)))
    assert result.records or result.problems
    for record in result.records:
        assert len(record.key) == 64
        assert all(value > 0 for value in record.metrics.values())


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), place=st.integers(0, 400))
def test_any_bytes_in_a_table_are_read_or_reported(noise, place, tmp_path):
    path = tmp_path / "mine.csv"
    whole = OWN.encode()
    header = len(OWN.splitlines()[0]) + 1
    at = header + place % (len(whole) - header)
    path.write_bytes(whole[:at] + noise + whole[at:])
    if b"\0" in noise:
        with pytest.raises(InputError, match="not UTF-8 text"):
            read_measurements(path)
        return
    result = read_measurements(path)
    assert result.records or result.problems
    assert all(problem.where.startswith("mine.csv:") for problem in result.problems)


def test_a_report_that_is_cut_after_its_results_says_so_alone_and_in_a_folder(tmp_path):
    cut = tmp_path / "report.yaml"
    cut.write_text("results:\n  request_performance:\n    aggregate: {}\n", encoding="utf-8")
    said = "cut off at line 3: after its results a benchmark report has its scenario"
    with pytest.raises(InputError, match=said):
        read_measurements(cut)
    (problem,) = read_measurements(tmp_path).problems
    assert (problem.where, problem.what) == ("report.yaml", said)
