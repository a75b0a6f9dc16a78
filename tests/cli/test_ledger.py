"""Measured points into the store, predictions beside them, and the same errors in SQL."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from conftest_loads import evaluate_loads
from shared_data import shared_data

from cli.render.progress import ProgressLine
from evaluator.inputs.engines.engine_profiles import as_yaml, fitted_engine, label_of_engine
from evaluator.ledger.readers import read_measurements
from sweepdb.measuring.validating import compare

COLUMNS = ("model", "device", "engine", "precision", "input_length", "output_length", "concurrency", "tp", "pp",
           "ttft_ms", "tpot_exclusive_ms", "aic_ttft_ms", "aic_tpot_ms")  # fmt: skip
MODEL, MOE = "Qwen/Qwen3-8B", "openai/gpt-oss-20b"


def rows():
    """Twenty points whose values no engine gave: what matters is that everybody reads the same errors from them.

    TTFT is 20 + L users / 400 ms on one device (0 / 1 more for an engine, 10 more on two); the peer says 30 + L / 20."""
    made = []
    for extra, engine in enumerate(("vllm", "sglang")):
        for tp, users in ((1, 4), (1, 16), (2, 16), (2, 64)):
            for length in (1024, 4096):
                ttft = round(20.0 + length * users / 400 + extra + 10 * (tp - 1), 2)
                row = [MODEL, "h100_sxm", engine, "bf16", length, 128, users, tp, 1, ttft, 4.5 + users / 4]
                made.append([*row, 30.0 + length / 20, 6.0 if tp == 1 else ""])
    made += [[MODEL, "h100_sxm", "vllm", "bf16", 2048, 64, users, 1, 40, 150.0, 11.0, "", ""] for users in (8, 32)]
    made += [[MOE, "h200_sxm", "trtllm", "mxfp4", 2048, 64, users, 1, 1, 150.0, 11.0, "", ""] for users in (8, 32)]
    return made


def write(path, lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *lines])
    return path


@pytest.fixture
def mine(tmp_path):
    return write(tmp_path / "mine.csv", rows())


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    """(store, the answer as JSON) after the twenty points were validated once."""
    folder = tmp_path_factory.mktemp("ledger")
    path, url = write(folder / "mine.csv", rows()), f"sqlite:///{folder}/store.sqlite"
    outcome = sweepdb(f"validate --measurements {path} --against aic --format json", url)
    assert outcome.code == 0, outcome.err
    return url, json.loads(outcome.out), outcome.err


def asked(url, sql):
    outcome = sweepdb(["sql", sql, "--format", "json"], url)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_first_tokens_that_are_an_interval_are_held_against_both_ends(tmp_path):
    """SGLang's users in step wait twice as long at 64: half the points lie between both times, half beyond."""
    url, lines = f"sqlite:///{tmp_path}/store.sqlite", []
    evaluated = (
        "evaluate Qwen/Qwen3-0.6B --device h100_sxm --input-length 2000 --output-length 300 --batch-range 64 64"
        " --quantization BF16 --mode aggregated --serving-model sglang --tp-sizes 1 --num-devices 1"
    )
    assert sweepdb(evaluated, url).code == 0
    (row,) = asked(url, "SELECT ttft_ms, ttft_in_step_ms, tpot_exclusive_ms FROM aggregated")
    inside = (row["ttft_ms"] * row["ttft_in_step_ms"]) ** 0.5
    head = "model,device,engine,engine_version,precision,tp,input_length,output_length,concurrency,ttft_ms,tpot_exclusive_ms"
    for ttft in (inside, 2.0 * row["ttft_in_step_ms"]):
        lines.append(f"Qwen/Qwen3-0.6B,h100_sxm,sglang,0.5.8,bf16,1,2000,300,64,{ttft},{row['tpot_exclusive_ms']}")
    (tmp_path / "mine.csv").write_text("\n".join([head, *lines]) + "\n")
    document = json.loads(sweepdb(f"validate --measurements {tmp_path}/mine.csv --format json", url).out)
    found = document["ttft_intervals"]
    assert (found["points"], found["inside"]) == (2, 1)
    off = [100 * (row["ttft_ms"] / one - 1) for one in (inside, 2.0 * row["ttft_in_step_ms"])]
    assert found["apart"]["mean_ape"] == pytest.approx(-sum(off) / 2, rel=1e-6)
    assert found["in_step"]["bias"] == pytest.approx((100 * (row["ttft_in_step_ms"] / inside - 1) - 50) / 2, rel=1e-6)
    assert [row["kind"] for row in asked(url, "SELECT kind FROM sweep ORDER BY id")] == ["request", "validation"]
    said = sweepdb(f"validate --measurements {tmp_path}/mine.csv", url).out
    assert "TTFT of 2 points is predicted as an interval" in said
    assert "50 % were measured inside" in said


def test_import_says_what_is_new_and_again_adds_nothing(mine, sqlite_url):
    first = sweepdb(f"measurements import {mine}", sqlite_url)
    assert (first.code, first.out) == (0, "")
    assert first.err.startswith(f"20 new of 20 points read from {mine} (sweepdb_csv)\n")
    again = sweepdb(f"measurements import {mine} --format json", sqlite_url)
    assert json.loads(again.out) == [
        {"read": 20, "new": 0, "replaced": 0, "unreadable": 0, "formats": "sweepdb_csv", "sources": str(mine)}
    ]
    assert again.err.startswith("0 new of 20 points")
    assert asked(sqlite_url, "SELECT count(*) AS n FROM measurement") == [{"n": 20}]


def test_a_bad_line_is_named_and_the_rest_goes_in(tmp_path, sqlite_url):
    bad = rows()[:3]
    bad[1][6] = "many"
    outcome = sweepdb(f"measurements import {write(tmp_path / 'bad.csv', bad)}", sqlite_url)
    assert outcome.code == 4
    assert outcome.err.splitlines()[:2] == [
        "bad.csv:3: concurrency: 'many' is not a number",
        f"2 new of 2 points read from {tmp_path}/bad.csv (sweepdb_csv)",
    ]


def test_a_bad_file_leaves_the_others_and_alone_is_an_error(mine, tmp_path, sqlite_url):
    missing = tmp_path / "none.json"
    both = sweepdb(["measurements", "import", str(missing), str(mine)], sqlite_url)
    assert (both.code, both.err.splitlines()[0]) == (4, f"{missing}: {missing}: no such file or directory")
    assert "20 new of 20" in both.err
    alone = sweepdb(f"measurements import {missing}", sqlite_url)
    assert (alone.code, alone.err) == (2, f"error: {missing}: no such file or directory.\n")


def test_list_filters_and_labels_every_row_as_measured(mine, tmp_path, sqlite_url):
    peer = tmp_path / "pareto.csv"
    peer.write_text("model,isl,osl,ttft,tpot,tokens/s/gpu,num_total_gpus,system\nM,100,10,5,1,50,2,h200_sxm\n")
    sweepdb(["measurements", "import", str(mine), str(peer)], sqlite_url)
    everything = json.loads(sweepdb("measurements list --format json", sqlite_url).out)
    assert len(everything) == 21
    assert everything[0]["metrics"] == {"tpot_exclusive_ms_mean": 5.5, "ttft_ms_mean": 30.24}  # 20 + 1024 x 4 / 400
    assert {(row["source_format"], row["family"]) for row in everything} == {
        ("sweepdb_csv", "measured"),
        ("aiconfigurator", "predicted elsewhere"),
    }
    for arguments, count in (
        ("--model QWEN3-8b", 18), ("--device h200", 3), ("--model gpt --device h100", 0), ("--source mine.csv", 20),
        ("--source aiconfigurator", 1),
    ):  # fmt: skip
        assert len(json.loads(sweepdb(f"measurements list {arguments} --format json", sqlite_url).out)) == count
    table = sweepdb("measurements list --source pareto", sqlite_url).out.splitlines()
    assert len(table) == 3
    assert table[-1].split()[1] == "predicted"
    text = sweepdb("measurements list --format csv", sqlite_url).out
    assert len(list(csv.DictReader(text.splitlines()))) == 21


def test_what_a_file_lacks_can_be_stated_and_is_kept_as_stated(tmp_path, sqlite_url):
    """A client knows neither the device nor the plan behind the address it asks."""
    result = {"backend": "openai", "model_id": MODEL, "completed": 10, "total_input_tokens": 10240,
              "total_output_tokens": 1280, "max_concurrency": 4, "request_throughput": 1.0, "mean_ttft_ms": 60.0,
              "mean_tpot_ms": 8.0}  # fmt: skip
    path = tmp_path / "run.json"
    path.write_text(json.dumps(result))
    given = ["device=h100_sxm", "engine=vllm", "precision=bf16", "tp=1", "model=other/name"]
    arguments = ["measurements", "import", str(path), *(part for one in given for part in ("--set", one))]
    assert sweepdb(arguments, sqlite_url).err.startswith("1 new of 1")
    assert sweepdb(arguments, sqlite_url).err.startswith("0 new of 1")
    (row,) = asked(sqlite_url, "SELECT model, device, decode_tp, extra FROM measurement")
    assert (row["model"], row["device"], row["decode_tp"]) == (MODEL, "h100_sxm", 1)
    assert json.loads(row["extra"])["stated_at_import"] == {
        "device": "h100_sxm", "engine": "vllm", "precision": "bf16", "tp": 1
    }  # fmt: skip
    document = json.loads(sweepdb("validate --format json", sqlite_url).out)
    assert document["overall"]["ttft"]["rows"] == document["overall"]["tpot"]["rows"] == 1


def test_without_points_there_is_nothing_to_compare_and_no_store_is_made(sqlite_url):
    outcome = sweepdb("validate", sqlite_url)
    assert (outcome.code, "There is no store" in outcome.err) == (3, True)
    assert sweepdb("db init", sqlite_url).code == 0
    outcome = sweepdb("validate", sqlite_url)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, "error: There is no measured point to compare.")


@pytest.mark.parametrize("format_", ["table", "json", "csv", "html"])
def test_points_that_no_rule_lets_through_still_have_an_answer(format_, tmp_path, sqlite_url):
    lines = rows()[:2]
    lines[0][0] = lines[1][0] = "nobody/knows-this"
    path = write(tmp_path / "odd.csv", lines)
    outcome = sweepdb(f"validate --measurements {path} --against aic --format {format_}", sqlite_url)
    assert outcome.code == 0, outcome.err
    assert outcome.err.startswith("0 errors stored")
    assert outcome.out
    if format_ == "json":
        document = json.loads(outcome.out)
        assert (document["overall"], document["groups"], document["peer"]) == ({}, [], {"coverage": 0.0})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("measurements list --set device=x", "--set belongs to measurements import"),
        ("measurements import x.csv --set tp", "--set tp: not NAME=VALUE"),
        ("measurements import x.csv --set rack=7", "--set rack=7: not NAME=VALUE"),
        ("measurements import x.csv --set tp=two", "--set tp=two: tp: 'two' is not a number"),
        ("measurements import x.csv --set tp=0", "--set tp=0: must be above 0"),
        ("measurements import", "Measurements import needs files or folders of points"),
        ("measurements drop x", "Measurements drop x is not one of"),
        ("measurements import x.csv --model y", "--model belongs to measurements list"),
        ("validate --format parquet", "--format parquet is not one of table, json, html, csv"),
        ("validate --against vidur", "--against vidur is not one of aic"),
        ("validate --engine mystery", "Unknown engine 'mystery'"),
    ],
)
def test_usage_errors(arguments, complaint, sqlite_url):
    outcome = sweepdb(arguments, sqlite_url)
    assert (outcome.code, outcome.out) == (2, "")
    assert complaint in outcome.err


def test_the_document_has_the_shape_that_other_programs_rely_on(validated):
    _, document, _ = validated
    assert set(document["overall"]) == {"ttft", "tpot"}
    for figures in document["overall"].values():
        assert set(figures) == {"median_ape", "mean_ape", "p90_ape", "bias", "rows"}
        assert figures["rows"] == 18
        assert 0 < figures["median_ape"] <= figures["p90_ape"]
    assert document["as_known"] == document["overall"]  # this file says nothing of clients and launches
    by = {tuple(group["by"]) for group in document["groups"]}
    assert {
        ("device",),
        ("device", "model", "engine"),
        ("mode",),
        ("batch_region",),
        ("length_region",),
        ("region",),
    } <= by
    devices = {group["device"]: group["rows"] for group in document["groups"] if group["by"] == ["device"] and
               group["metric"] == "ttft"}  # fmt: skip
    assert devices == {"h100_sxm": 16, "h200_sxm": 2}
    assert document["ranking"]["groups"] == 4  # a model, device, engine and length with its four plans and batches


def test_the_peer_is_compared_over_the_rows_both_predict(validated):
    _, document, _ = validated
    peer = document["peer"]
    # 16 rows carry a TTFT of the peer, those 8 on one device a TPOT.
    errors = [peer_ttft / measured - 1 for *_, measured, _, peer_ttft, _ in rows()[:16]]
    assert peer["ttft"]["rows"] == peer["ttft"]["ours"]["rows"] == 16
    assert peer["ttft"]["median_ape"] == pytest.approx(100 * statistics.median(map(abs, errors)))
    assert peer["ttft"]["bias"] == pytest.approx(100 * statistics.median(errors))
    assert peer["tpot"]["rows"] == 8
    assert peer["coverage"] == 100.0


def test_sql_has_the_same_errors(validated):
    url, document, _ = validated
    answer = asked(url, """
        SELECT metric, count(*) AS rows, 100 * median(abs(signed_error)) AS median_ape, 100 * median(signed_error) AS bias,
            100 * quantile_cont(abs(signed_error), 0.9) AS p90_ape, 100 * avg(abs(signed_error)) AS mean_ape
        FROM validation GROUP BY metric ORDER BY metric""")  # fmt: skip
    assert [row.pop("metric") for row in answer] == ["tpot_exclusive_ms", "ttft_ms"]
    assert answer[0] == pytest.approx(document["overall"]["tpot"])
    assert answer[1] == pytest.approx(document["overall"]["ttft"])
    regions = asked(url, """
        SELECT region, 100 * median(abs(signed_error)) AS median_ape FROM validation WHERE metric = 'ttft_ms'
        GROUP BY region ORDER BY region""")  # fmt: skip
    assert regions == [
        {"region": group["region"], "median_ape": pytest.approx(group["median_ape"])}
        for group in document["groups"]
        if group["by"] == ["region"] and group["metric"] == "ttft"
    ]
    assert "h100_sxm, dense, sglang, aggregated, batch 1-8, input < 2k" in {row["region"] for row in regions}


def test_measured_values_join_their_measurement_and_keep_its_label(validated):
    url, _, _ = validated
    answer = asked(url, """
        SELECT m.family, v.metric, count(*) AS rows, bool_and(v.measured = CASE v.metric WHEN 'ttft_ms' THEN m.ttft_ms
            ELSE m.tpot_exclusive_ms END) AS equal
        FROM validation v JOIN measurement m ON m.key = v.measurement GROUP BY ALL ORDER BY v.metric""")  # fmt: skip
    assert answer == [
        {"family": "measured", "metric": "tpot_exclusive_ms", "rows": 18, "equal": True},
        {"family": "measured", "metric": "ttft_ms", "rows": 18, "equal": True},
    ]
    families = asked(url, "SELECT DISTINCT family FROM probe")
    assert families == [{"family": "calibrated"}]


def test_every_kept_prediction_is_the_number_of_its_probe(validated):
    url, document, said = validated
    # Dense: 2 engines x 2 plans x 2 lengths; MoE: one. More stages than layers are left out by a rule.
    assert asked(url, "SELECT serving_model, status, count(*) AS n FROM scenario GROUP BY ALL ORDER BY ALL") == [
        {"serving_model": "sglang", "status": "ok", "n": 4},
        {"serving_model": "trtllm", "status": "ok", "n": 1},
        {"serving_model": "vllm", "status": "ok", "n": 4},
    ]
    assert "36 errors stored, of 9 scenarios (18 probes new)" in said
    assert document["excluded"] == [{"rule": "plan not legal", "rows": 2}]
    found = asked(url, """
        SELECT count(*) AS n, count(*) FILTER (v.predicted = CASE v.metric WHEN 'ttft_ms' THEN p.ttft_ms
            ELSE p.tpot_exclusive_ms END) AS equal
        FROM validation v JOIN probe p USING (probe)""")  # fmt: skip
    assert found == [{"n": 36, "equal": 36}]


def test_a_client_that_is_known_gives_a_scenario_of_its_own(tmp_path, sqlite_url):
    """The source of this id draws lengths in 0.8-1 of nominal: as asked they are their means."""
    path = tmp_path / "recipe.csv"
    path.write_text(
        "id,model,device,engine,engine_version,precision,input_length,output_length,concurrency,tp,ttft_ms,"
        "tpot_exclusive_ms\n"
        f"gptoss_1,{MODEL},h100_sxm,vllm,0.12.0,bf16,1000,200,8,1,60,7\n"
    )
    outcome = sweepdb(f"validate --measurements {path} --format json", sqlite_url)
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert document["overall"]["ttft"]["rows"] == document["as_known"]["ttft"]["rows"] == 1
    assert document["overall"]["ttft"]["bias"] != document["as_known"]["ttft"]["bias"]
    found = asked(sqlite_url, """
        SELECT v.knowledge, s.input_length, s.output_length, s.shortest_length, count(*) AS n,
            bool_and(v.predicted = CASE v.metric WHEN 'ttft_ms' THEN p.ttft_ms ELSE p.tpot_exclusive_ms END) AS equal
        FROM validation v JOIN probe p USING (probe) JOIN scenario s ON s.scenario = v.scenario
        GROUP BY ALL ORDER BY s.input_length""")  # fmt: skip
    assert found == [
        {
            "knowledge": "asked",
            "input_length": 900,
            "output_length": 180.0,
            "shortest_length": 0.99,
            "n": 2,
            "equal": True,
        },
        {
            "knowledge": "known",
            "input_length": 1000,
            "output_length": 200.0,
            "shortest_length": 0.8,
            "n": 2,
            "equal": True,
        },
    ]


def test_the_probe_is_what_evaluate_would_store(validated):
    """The same scenario: evaluating it afterwards finds it known."""
    url, _, _ = validated
    outcome = sweepdb(
        f"evaluate {MODEL} --device h100_sxm --num-devices 1 --input-length 1024 --output-length 128 --mode aggregated"
        " --serving-model vllm --quantization BF16 --batch-range 4 4 --format json",
        url,
    )
    assert outcome.code == 0, outcome.err
    (report,) = json.loads(outcome.out)
    assert (report["probes_stored"], report["probes_known"]) == (0, 1)


def test_validating_stored_points_again_says_the_same_and_adds_nothing(mine, sqlite_url):
    first = sweepdb(f"validate --measurements {mine} --against aic --format json", sqlite_url)
    again = sweepdb("validate --against aic --format json", sqlite_url)
    assert (first.code, again.code) == (0, 0)
    assert again.out == first.out
    assert "(0 probes new" in again.err
    assert asked(sqlite_url, "SELECT count(*) AS n FROM raw.validation") == [{"n": 36}]
    assert asked(sqlite_url, "SELECT label, status, probes_stored FROM sweep ORDER BY id") == [
        {"label": "validation", "status": "finished", "probes_stored": 18},
        {"label": "validation", "status": "finished", "probes_stored": 0},
    ]
    assert sweepdb("db check", sqlite_url).code == 0


def test_a_point_that_a_rule_takes_out_later_leaves_the_ledger(tmp_path, sqlite_url):
    """Of two equal points the one with the last name of the alphabet stays: it was not known at first."""
    lines = rows()[:2]
    few = write(tmp_path / "b.csv", lines)
    assert sweepdb(f"validate --measurements {few}", sqlite_url).code == 0
    lines[0][0] = "meta-llama/Llama-3.1-8B-Instruct"  # the same values of the same device
    both = f"validate --measurements {few} {write(tmp_path / 'a.csv', lines[:1])} --format json"
    document = json.loads(sweepdb(both, sqlite_url).out)
    assert [one["rule"].partition(":")[0] for one in document["excluded"]] == ["duplicate"]
    answer = asked(sqlite_url, "SELECT model, count(*) AS n FROM validation WHERE metric = 'ttft_ms' GROUP BY ALL")
    assert sorted((row["model"], row["n"]) for row in answer) == [(MODEL, 1), ("meta-llama/Llama-3.1-8B-Instruct", 1)]


def test_sides_that_are_apart_have_a_scenario_each(tmp_path, sqlite_url):
    path = tmp_path / "apart.csv"
    path.write_text(
        "model,device,engine,mode,precision,input_length,output_length,concurrency,prefill_instances,prefill_tp,"
        "decode_instances,decode_tp,ttft_ms,tpot_exclusive_ms\n"
        f"{MODEL},h100_sxm,vllm,disaggregated,bf16,2048,128,16,2,1,1,2,120,9\n"
    )
    outcome = sweepdb(f"validate --measurements {path}", sqlite_url)
    assert outcome.code == 0, outcome.err
    assert asked(sqlite_url, "SELECT metric, mode, phase, tp, batch_size FROM validation ORDER BY metric") == [
        {"metric": "tpot_exclusive_ms", "mode": "disaggregated", "phase": "decode", "tp": 2, "batch_size": 11},
        {"metric": "ttft_ms", "mode": "disaggregated", "phase": "prefill", "tp": 1, "batch_size": 1},
    ]


def test_the_ledger_lives_in_postgresql_too(tmp_path, postgresql_url):
    few = write(tmp_path / "few.csv", rows()[:2])
    outcome = sweepdb(f"validate --measurements {few} --format json", postgresql_url)
    assert outcome.code == 0, outcome.err
    answer = asked(
        postgresql_url, "SELECT 100 * median(abs(signed_error)) AS m FROM validation WHERE metric = 'ttft_ms'"
    )
    assert answer[0]["m"] == pytest.approx(json.loads(outcome.out)["overall"]["ttft"]["median_ape"])


def test_what_a_voided_scenario_predicted_is_hidden(validated, tmp_path, sqlite_url):
    few = write(tmp_path / "few.csv", rows()[:2])
    sweepdb(f"validate --measurements {few}", sqlite_url)
    (scenario, *_) = asked(sqlite_url, "SELECT DISTINCT left(scenario, 12) AS s FROM scenario ORDER BY s")
    assert sweepdb(["void", scenario["s"], "--reason", "wrong"], sqlite_url).code == 0
    assert asked(sqlite_url, "SELECT count(*) AS n FROM validation")[0]["n"] == 2
    assert asked(sqlite_url, "SELECT count(*) AS n FROM raw.validation")[0]["n"] == 4


def test_an_engine_of_ones_own_is_compared_and_not_kept(mine, tmp_path, sqlite_url):
    profile = tmp_path / "slow.yaml"
    profile.write_text(as_yaml(fitted_engine("vllm")).replace("name: vllm", "name: slow").replace(
        "request_ms: ", "request_ms: 9"))  # fmt: skip
    shipped = json.loads(sweepdb(f"validate --measurements {mine} --format json", sqlite_url).out)
    outcome = sweepdb(f"validate --measurements {mine} --engine {profile} --format json", sqlite_url)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["overall"]["ttft"]["bias"] > shipped["overall"]["ttft"]["bias"]
    assert "nothing was stored" in outcome.err
    by_label = label_of_engine(fitted_engine("vllm").profile)  # kept in the store with what it predicted
    outcome = sweepdb(f"validate --engine {by_label} --format json", sqlite_url)
    assert (outcome.code, "nothing was stored" in outcome.err) == (0, True), outcome.err
    assert sweepdb("validate --engine vllm@ffffffff", sqlite_url).code == 2
    assert asked(sqlite_url, "SELECT count(*) AS n FROM raw.validation") == [{"n": 36}]


def test_rules_take_points_out_and_are_counted(tmp_path, sqlite_url):
    lines = rows()[:6]
    lines[0][0] = "nobody/knows-this"
    lines[1][1] = "abacus"
    lines[2][4] = "long"
    path = write(tmp_path / "odd.csv", lines)
    outcome = sweepdb(f"validate --measurements {path} --format json", sqlite_url)
    assert outcome.code == 0
    assert outcome.err.startswith("odd.csv:4: input_length: 'long' is not a number\n")
    excluded = {one["rule"]: one["rows"] for one in json.loads(outcome.out)["excluded"]}
    assert (excluded.pop("line could not be read"), excluded.pop("device not covered")) == (1, 1)
    ((rule, count),) = excluded.items()
    assert (rule.startswith("model not"), count) == (True, 1)


def test_the_table_shows_figures_groups_the_peer_and_the_ranking(validated):
    url, document, _ = validated
    text = sweepdb("validate --against aic", url).out
    (whole,) = [line for line in text.splitlines() if line.startswith("tpot ") and " 18 " in line]
    assert f"{document['overall']['tpot']['median_ape']:.2f}" in whole
    assert "rows that aic predicts too (of those that no rule takes out we predict 100.0%)" in text
    assert f"h100_sxm, {MODEL}, sglang" in text
    assert "batch 33-128" in text
    assert f"mean Kendall tau {document['ranking']['kendall_tau_mean']:.2f}" in text
    standings = document["peer"]["standings"]
    assert {one["by"] for one in standings} == {"all", "device", "engine", "kind"}
    whole = next(one for one in standings if one["by"] == "all")
    assert whole["ours"]["rows"] == whole["peer"]["rows"] == 8  # the peer has both latencies of these alone
    assert whole["peer"]["choices"] is None  # groups of two points
    assert f"{whole['peer']['e2e']['median_ape']:.2f}" in text
    assert "end to end over the same rows" in text
    assert "aic" not in sweepdb("validate", url).out


def test_csv_rows_are_the_groups(validated):
    url, document, _ = validated
    found = list(csv.DictReader(sweepdb("validate --against aic --format csv", url).out.splitlines()))
    assert len(found) == 2 + 2 + len(document["groups"])  # the whole as asked and as known
    assert float(found[0]["median_ape"]) == pytest.approx(document["overall"]["ttft"]["median_ape"])
    assert float(found[0]["median_ape_of_peer"]) == pytest.approx(document["peer"]["ttft"]["median_ape"])
    assert found[-1]["by"] == "region"


def test_what_the_document_shows_works(tmp_path, sqlite_url):
    howto = Path(__file__).parents[2] / "docs" / "howto"
    text = (howto / "validate-against-measurements.md").read_text()
    (shown,) = re.findall(r"```csv\n(.*?)```", (howto / "import-measurements.md").read_text(), re.DOTALL)
    path = tmp_path / "shown.csv"
    path.write_text(shown)
    outcome = sweepdb(f"validate --measurements {path} --format json", sqlite_url)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["overall"]["ttft"]["rows"] == 2
    statements = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert [len(asked(sqlite_url, sql)) for sql in statements] == [2, 4]
    commands = re.findall(r"^    sweepdb (measurements|validate)\b(.*?)(?:  #.*)?$", text, re.MULTILINE)
    known = {
        "measurements": "--set --model --device --source --format",
        "validate": "--measurements --against --format --output --engine --workers",
    }
    for command, arguments in commands:
        assert set(re.findall(r"--\w+", arguments)) <= set(known[command].split())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_it_is_and_a_file_does_not():
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with ProgressLine(stream) as line:
            line.show(1, 3, "points")
    assert terminal.getvalue() == "\r\x1b[K1/3 points\r\x1b[K"
    assert file.getvalue() == ""


class Page(HTMLParser):
    """Counts what a page holds and remembers what it refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value or "" for name, value in attributes if name in {"src", "href", "xlink:href", "data"}]


def test_the_page_is_whole_by_itself(validated, tmp_path):
    url, _, _ = validated
    path = tmp_path / "ledger.html"
    outcome = sweepdb(f"validate --format html --output {path}", url)
    assert (outcome.code, outcome.out) == (0, "")
    text = path.read_text()
    page = Page()
    page.feed(text)
    assert page.outside == []
    assert "http" not in text
    assert "@import" not in text
    assert (page.tags.count("svg"), page.tags.count("circle"), page.tags.count("script")) == (2, 36, 0)
    assert text.count("<title>") == 37  # its own, and one for each dot
    assert text.count('stroke-dasharray="4 3"') == 4  # +-30 % in both panels
    assert f"{MODEL} on 1 x h100_sxm (tp1pp1dp1), sglang, aggregated" in text
    assert "not covered" not in text


@pytest.mark.survival
def test_the_shared_table_and_its_errors_in_sql(tmp_path, sqlite_url):
    source = shared_data("e2e", "serving.csv")
    lines = source.read_text().splitlines()
    few = tmp_path / "serving.csv"
    few.write_text("\n".join([lines[0], *lines[1::25]]) + "\n")
    outcome = sweepdb(f"validate --measurements {few} --against aic --format json", sqlite_url)
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    records = read_measurements(few).records
    direct = compare(records)
    assert document["overall"]["tpot"]["rows"] == direct.figures_of("tpot").rows > 20
    assert document["overall"]["tpot"]["median_ape"] == pytest.approx(direct.figures_of("tpot").median_ape)
    out = sum(one["rows"] for one in document["excluded"])
    assert out + len(direct.points) == len(records) == len(lines[1::25])
    answer = asked(sqlite_url, """
        SELECT metric, count(*) AS rows, 100 * median(abs(signed_error)) AS median_ape FROM validation
        WHERE metric IN ('ttft_ms', 'tpot_exclusive_ms') AND knowledge IN ('asked', 'both')
        GROUP BY metric ORDER BY metric""")  # fmt: skip
    for row, name in zip(answer, ("tpot", "ttft"), strict=True):
        assert row["rows"] == document["overall"][name]["rows"]
        assert row["median_ape"] == pytest.approx(document["overall"][name]["median_ape"])
    assert document["peer"]["tpot"]["rows"] == document["peer"]["tpot"]["ours"]["rows"]


def test_the_picture_has_the_same_points_and_is_drawn(validated, tmp_path):
    url, _, _ = validated
    spec = json.loads(sweepdb("validate --format vl", url).out)
    points = spec["data"]["values"]
    assert len(points) == 36
    assert all(one["error_percent"] == pytest.approx(100 * (one["predicted"] / one["measured"] - 1)) for one in points)
    assert sweepdb("validate --format png", url).code == 2
    pytest.importorskip("vl_convert", reason="pictures need vl-convert, which is not installed")
    path = tmp_path / "errors.svg"
    assert sweepdb(f"validate --format svg --output {path}", url).code == 0
    assert "predicted" in path.read_text()


def test_points_of_an_open_loop_are_compared_with_loads_at_their_rate(tmp_path):
    """Means lie on the line between the rates around. A rate that was never played is simulated, and so are medians."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    evaluate_loads(url, mode="aggregated", requests=1_000, rates=(2.0, 6.0))
    loads = asked(url, "SELECT ttft_mean_ms AS ttft, load_tpot_mean_ms AS tpot FROM load ORDER BY arrivals_per_s")
    head = "model,device,engine,precision,tp,input_length,output_length,request_rate,ttft_ms,tpot_exclusive_ms"
    lines = [f"Qwen/Qwen3-0.6B,a100_sxm,vllm,bf16,1,500,60,{rate},20.0,5.0" for rate in (2, 3, 60)]
    (tmp_path / "open.csv").write_text("\n".join([head, *lines]) + "\n")
    medians = head.replace("ttft_ms,tpot_exclusive_ms", "ttft_ms_p50,tpot_exclusive_ms_p50")
    (tmp_path / "medians.csv").write_text(f"{medians}\nQwen/Qwen3-0.6B,a100_sxm,vllm,bf16,1,500,60,6,20.0,5.0\n")
    sweepdb(f"measurements import {tmp_path}/medians.csv", url)
    simulated = json.loads(sweepdb(f"validate --measurements {tmp_path}/medians.csv --format json", url).out)[
        "at_rates"
    ]
    # The median of a lightly loaded server is near the mean of its load, which was played with other requests.
    assert [one["knowledge"] for one in simulated] == ["simulated", "simulated"]
    assert simulated[0]["predicted"] == pytest.approx(loads[1]["ttft"], rel=0.2)
    assert simulated[1]["predicted"] == pytest.approx(loads[1]["tpot"], rel=0.2)
    document = json.loads(sweepdb(f"validate --measurements {tmp_path}/open.csv --format json", url).out)
    found = {(one["requests_per_s"], one["metric"]): one for one in document["at_rates"]}
    for rate, way in ((2.0, 0.0), (3.0, 0.25)):
        for metric, measured in (("ttft", 20.0), ("tpot", 5.0)):
            expected = loads[0][metric] + way * (loads[1][metric] - loads[0][metric])
            assert found[rate, metric]["predicted"] == pytest.approx(expected)
            assert found[rate, metric]["error"] == pytest.approx(expected / measured - 1)
    assert {rate for rate, _ in found} == {2.0, 3.0, 60.0}
    assert found[60.0, "tpot"]["knowledge"] == "simulated"
    assert found[60.0, "tpot"]["predicted"] > loads[1]["tpot"]  # ten times as many are in flight
    assert document["excluded"] == []
    done = sweepdb("validate", url)
    told, title, heads, *_ = done.out.splitlines()
    assert (told, title) == (
        "",
        "points that state a rate of requests, beside stored loads at that rate, or simulated: ms",
    )
    assert heads.split() == ["point", "requests/s", "metric", "measured", "predicted", "difference", "how"]
    assert "FROM validation" not in done.err  # no error was stored to look at
