"""How answers show their expected error on the command line: a line of the table, a key of JSON, stderr for the rest."""

from __future__ import annotations

import json

import pytest
from conftest_cli import sweepdb

from cli.render.expected_error import expected_error_lines
from queries.errors.expected import ExpectedError

HEAD = "expected error: "


def error(metric="tpot_exclusive_ms", median=9.0, bias=0.0, points=212, region="h100, dense", **others):
    values = {"subject": "h100", "note": None, "pairs": 5, "agreeing": 5, "servers": "own", **others}
    return ExpectedError(
        metric=metric, median_ape_percent=median, p90_ape_percent=3 * median, bias_percent=bias, points=points,
        region=region, quantiles=(), **values,
    )  # fmt: skip


OF_PAIRS = "points of 5 pairs: h100, dense"


def lines(*errors):
    """Lines without whose servers these are, where all are the user's own."""
    return [line.removeprefix("on your own servers: ") for line in expected_error_lines(errors)]


def test_a_line_says_both_kinds_of_servers_and_whose_the_points_are():
    tuned = [error(servers="tuned", median=7.0), error("ttft_ms", 21.0, servers="tuned")]
    about = {"servers": "others", "pairs": None, "sources": 5, "agreeing": 4, "points": 64}
    others = [error(median=48.0, bias=-37.0, **about), error("ttft_ms", 68.0, bias=9.0, **about)]
    assert lines(*tuned, *others) == [
        (
            f"on servers tuned like the benchmarks': TPOT +-7 %, TTFT +-21 %, 212 {OF_PAIRS}; on others': TPOT +-48 % (mostly"
            " too low), TTFT +-68 %, 64 points of 5 sources"
        )
    ]
    # three of five sources err to that side: nothing is said of a side
    split = error(median=48.0, bias=-37.0, **{**about, "agreeing": 3})
    assert lines(split) == ["on others': TPOT +-48 %, 64 points of 5 sources"]
    assert list(expected_error_lines([error()])) == [f"on your own servers: TPOT +-9 %, 212 {OF_PAIRS}"]


def test_a_line_names_metrics_points_and_region():
    assert lines(error()) == [f"TPOT +-9 %, 212 {OF_PAIRS}"]
    assert lines(error(), error("ttft_ms", 31.4, points=200)) == [f"TPOT +-9 %, TTFT +-31 %, 200-212 {OF_PAIRS}"]
    assert lines(error(note="by another")) == [f"TPOT +-9 %, 212 {OF_PAIRS} (by another)"]
    assert lines(error(pairs=1), error("ttft_ms", 31.4, pairs=3)) == [
        "TPOT +-9 %, TTFT +-31 %, 212 points of 1-3 pairs: h100, dense"
    ]
    assert lines(error(pairs=1)) == ["TPOT +-9 %, 212 points of 1 pair: h100, dense"]


@pytest.mark.parametrize(
    ("bias", "said"),
    [(0.0, ""), (9.9, ""), (-15.0, " (mostly too low)"), (15.0, " (mostly too high)")],
)
def test_a_bias_is_said_from_ten_percent_and_half_of_the_error(bias, said):
    assert lines(error(median=20.0, bias=bias)) == [f"TPOT +-20 %{said}, 212 {OF_PAIRS}"]
    assert lines(error(median=40.0, bias=bias)) == [f"TPOT +-40 %, 212 {OF_PAIRS}"]


@pytest.mark.parametrize(("pairs", "agreeing", "said"), [(3, 3, True), (2, 2, False), (4, 3, False), (1, 1, False)])
def test_a_bias_is_said_only_where_three_pairs_or_more_all_agree(pairs, agreeing, said):
    (line,) = lines(error(median=20.0, bias=-15.0, pairs=pairs, agreeing=agreeing))
    assert ("mostly too low" in line) == said


def test_metrics_of_several_regions_share_the_line_of_what_they_are_about():
    far = error("ttft_ms", 50.0, points=7, region="h200, dense")
    assert lines(error(), far) == [f"TPOT +-9 %, 212 {OF_PAIRS}; TTFT +-50 %, 7 points of 5 pairs: h200, dense"]


def test_three_lines_are_shown_and_the_others_counted():
    many = [error(subject=name, region=name) for name in "abcde"]
    shown = lines(*many)
    assert [line[-1] for line in shown[:3]] == ["a", "b", "c"]
    assert shown[3:] == ["2 more groups: --format json-full"]
    assert len(lines(*many[:3])) == 3


def test_a_device_without_measurements_says_so_wherever_rows_go(example_store):
    # the test device was never built
    table = sweepdb("query best --tpot-limit 50", example_store)
    said = "every measured server (no measurements near this; its device's rates are those of its data sheet)"
    assert said in " ".join(table.out.split())
    for format_ in ("csv", "json", "jsonl"):
        outcome = sweepdb(f"query best --tpot-limit 50 --format {format_}", example_store)
        assert HEAD not in outcome.out
        assert f"{said}; on others': TPOT" in " ".join(outcome.err.split())
    full = json.loads(sweepdb("query best --tpot-limit 50 --format json-full", example_store).out)
    metrics = ["tpot_inclusive_ms", "ttft_ms", "output_tokens_per_s"]
    assert [one["metric"] for one in full["expected_error"]] == metrics * 2
    assert [one["servers"] for one in full["expected_error"]] == ["tuned"] * 3 + ["others"] * 3
    assert min(one["median_ape_percent"] for one in full["expected_error"]) > 10


@pytest.fixture(scope="module")
def measured_store(tmp_path_factory):
    """A model on a device that the shipped summary knows."""
    url = f"sqlite:///{tmp_path_factory.mktemp('measured')}/sweepdb.sqlite"
    asked = "evaluate Qwen/Qwen3-32B --device h100_sxm --num-devices 4 --input-length 1024 --output-length 256"
    for serving_model in ("waves", "vllm_sync"):
        outcome = sweepdb(f"{asked} --search tp --batch-range 8 --serving-model {serving_model}", url)
        assert outcome.code == 0, outcome.err
    return url


@pytest.mark.parametrize(("serving_model", "region"), [("waves", "waves"), ("vllm_sync", "vllm_sync")])
def test_a_measured_device_shows_the_figures_of_the_shipped_summary(measured_store, serving_model, region):
    from queries.errors.spreads import SUMMARY

    asked = f"query best --serving-model {serving_model} --tpot-definition exclusive"
    full = json.loads(sweepdb(f"{asked} --format json-full", measured_store).out)
    found = {one["metric"]: one for one in full["expected_error"] if one["servers"] == "tuned"}
    engine = "any" if serving_model == "waves" else serving_model
    model = "waves" if serving_model == "waves" else "engine"
    start = f"calibrated,physical,{model},asked,device,h100_sxm,dense,aggregated,{engine},tpot_exclusive"
    (row,) = [line for line in SUMMARY.read_text().splitlines() if line.startswith(start)]
    _, points, pairs, _, median, p90, bias, _, _ = row.rsplit(",", 8)
    one = found["tpot_exclusive_ms"]
    assert [one["points"], one["pairs"]] == [int(points), int(pairs)]
    assert [one["median_ape_percent"], one["p90_ape_percent"], one["bias_percent"]] == [
        float(median), float(p90), float(bias)
    ]  # fmt: skip
    assert one["region"] == f"h100_sxm, dense, aggregated, {region}"
    text = " ".join(sweepdb(asked, measured_store).out.split())
    assert f"{HEAD}on servers tuned like the benchmarks': TPOT +-{float(median):.0f} %" in text


def test_limits_of_pairs_are_read_with_a_confidence_too(measured_store):
    asked = (
        "query pd-ratio --serving-model vllm_sync --num-devices 8 --reserved-memory-gb 0 --tpot-limit 60 --format json"
        " --tuned-servers"
    )
    plain = json.loads(sweepdb(f"{asked} --ttft-limit 4000", measured_store).out)
    sure = json.loads(sweepdb(f"{asked} --ttft-limit 4000 --confidence 0.9", measured_store).out)
    assert plain
    assert sure
    assert {row["prefill_holds"] for row in sure} == {"yes"}
    assert {row["decode_holds"] for row in sure} == {"yes"}
    assert max(row["system_requests_per_s"] for row in sure) <= max(row["system_requests_per_s"] for row in plain)
    # A limit that no measured value keeps so surely leaves no pair.
    least = min(row["ttft_ms"] for row in plain)
    assert json.loads(sweepdb(f"{asked} --ttft-limit {least} --confidence 0.95", measured_store).out) == []


@pytest.mark.parametrize("confidence", ["0.8", "1.2", "often"])
def test_a_confidence_on_the_command_line(measured_store, confidence):
    asked = f"query best --serving-model vllm_sync --tpot-limit 40 --confidence {confidence}"
    outcome = sweepdb(asked, measured_store)
    if confidence != "0.8":
        assert outcome.code == 2
        return
    assert "limits: tpot <= 40 ms, each kept by measured values on others' servers with 80 %, 10" in outcome.out
    rows = json.loads(sweepdb(f"{asked} --format json", measured_store).out)
    assert {row["holds"] for row in rows} <= {"yes", "likely"}
    full = json.loads(sweepdb(f"{asked} --format json-full", measured_store).out)
    assert full["question"]["limits"]["confidence"] == 0.8


def test_a_notebook_has_it_too(measured_store):
    import queries

    notebook = queries.open(measured_store)
    one, _ = notebook.decode(serving_model="waves").expected_error
    notebook.close()
    assert (one.metric, one.points > 0) == ("tpot_exclusive_ms", True)


def test_points_that_a_user_validated_answer_first(tmp_path):
    url = f"sqlite:///{tmp_path}/own.sqlite"
    head = "model,device,engine,engine_version,precision,num_devices,input_length,output_length,concurrency,tp,"
    lines = [f"Qwen/Qwen3-32B,h100_sxm,vllm,0.16.0,fp8,4,1024,257,{users},4,{90 + users},10" for users in range(1, 7)]
    (tmp_path / "own.csv").write_text("\n".join([head + "ttft_ms_mean,tpot_exclusive_ms_mean", *lines]) + "\n")
    validated = sweepdb(f"validate --measurements {tmp_path}/own.csv --format json", url)
    assert validated.code == 0, validated.err
    asked = "evaluate Qwen/Qwen3-32B --device h100_sxm --num-devices 4 --input-length 2048 --output-length 256"
    assert sweepdb(f"{asked} --search tp --mode aggregated --batch-range 4 --serving-model vllm", url).code == 0
    full = json.loads(sweepdb("query best --tpot-definition exclusive --format json-full", url).out)
    assert {one["region"] for one in full["expected_error"]} == {"this store's own: h100_sxm, dense, aggregated, vllm"}
    found = {one["metric"]: one for one in full["expected_error"]}
    overall = json.loads(validated.out)["overall"]
    for metric, name in (("ttft_ms", "ttft"), ("tpot_exclusive_ms", "tpot")):
        for mine, theirs in (("median_ape_percent", "median_ape"), ("p90_ape_percent", "p90_ape"), ("points", "rows")):
            assert found[metric][mine] == pytest.approx(overall[name][theirs], abs=0.006)
