"""Points go out in others' formats and come back as the same points; predictions go out marked, and do not come back."""

from __future__ import annotations

import csv
import io
import json

import jsonschema
import pytest
import yaml
from client_files import AIPERF, INFERENCEX, VLLM
from conftest_cli import EXAMPLE, sweepdb
from more_client_files import GUIDELLM_CSV, REPORT, SGLANG, STAGE
from report_schema import REPORT_SCHEMA

from evaluator.ledger import read_measurements
from store.opening import open_store
from store.schema.sql_tables import MEASUREMENT
from store.writing import get_measurements
from store.writing.point_rows import SELECT_POINTS
from sweepdb.measuring import import_measurements, parse_stated

FORMATS = {"benchmark-report": "points.jsonl", "inferencex": "points.json", "guidellm": "points.csv"}
MINE = """\
model,device,engine,engine_version,precision,kv_precision,num_devices,tp,pp,ep,moe_tp,input_length,output_length,request_rate,\
measured_at,measured_by,driver,completed_requests,failed_requests,ttft_ms_mean,ttft_ms_p90,tpot_inclusive_ms_mean,\
itl_ms_mean,requests_per_s,rack
Qwen/Qwen3-8B,h100_sxm,vllm,0.11,fp8,fp8,2,2,1,1,2,1000,100,2.5,2026-02-03T04:05:06.5,ann,570,90,10,95.7,180.25,9.1,\
8.3,2.4,r7
"""
WHERE_IT_STOOD = {"id", "imported_at", "file", "source"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Points of many clients; one has more stated than its file says, and one was corrected."""
    folder = tmp_path_factory.mktemp("points")
    found = f"sqlite:///{folder}/store.db"
    files = {"vllm.json": VLLM, "row.json": INFERENCEX, "aiperf.json": AIPERF, "sglang.json": SGLANG,
             "stage_0_lifecycle_metrics.json": STAGE, "report.json": REPORT}  # fmt: skip
    for name, document in files.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "mine.csv").write_text(MINE)
    import_measurements(
        [folder / name for name in (*files, "mine.csv")], found, parse_stated(["device=h200_sxm"]), ["b,a"]
    )
    assert sweepdb("measurements set --source aiperf.json --set engine=vllm --set tp=2", found).code == 0
    return found


def stored(url):
    with open_store(url) as store, store.reading() as connection:
        rows = connection.execute(SELECT_POINTS.order_by(MEASUREMENT.c.key)).mappings()
        return [{name: row[name] for name in row if name not in WHERE_IT_STOOD} for row in rows]


def exported(url, format_, path, more=""):
    outcome = sweepdb(f"measurements export --format {format_} --output {path} {more}", url)
    assert outcome.code == 0, outcome.err
    return path


@pytest.mark.parametrize("format_", FORMATS)
def test_what_went_out_comes_back_as_the_same_points(url, tmp_path, format_):
    path = exported(url, format_, tmp_path / FORMATS[format_])
    assert import_measurements([path], url).added == 0
    fresh = f"sqlite:///{tmp_path}/fresh.db"
    before = stored(url)
    assert import_measurements([path], fresh).added == len(before) == 7
    assert stored(fresh) == before
    again = exported(fresh, format_, tmp_path / f"again-{FORMATS[format_]}")
    assert sorted(again.read_text().splitlines()) == sorted(path.read_text().splitlines()) or format_ == "inferencex"


def test_a_folder_of_reports_is_read_as_one_and_each_keeps_the_published_rules(url, tmp_path):
    folder = exported(url, "benchmark-report", tmp_path / "reports")
    check = jsonschema.Draft202012Validator(REPORT_SCHEMA, format_checker=jsonschema.FormatChecker())
    reports = [yaml.safe_load(path.read_text()) for path in sorted(folder.iterdir())]
    lines = exported(url, "benchmark-report", tmp_path / "points.jsonl").read_text().splitlines()
    assert len(reports) == len(lines) == 7
    for report in (*reports, *map(json.loads, lines)):
        assert [error.message for error in check.iter_errors(report)] == []
    assert import_measurements([folder], url).added == 0


# Facts that come back without the block, which other programs may drop; the rest of a point is lost with it.
KEPT = {
    "benchmark-report": {
        "model", "device", "engine", "engine_version", "mode", "precision", "kv_precision", "num_devices", "input_length",
        "output_length", "request_rate", "measured_at", "measured_by", "completed_requests", "failed_requests", "tp", "pp", "ep",
        "ttft_ms_mean", "ttft_ms_p90", "itl_ms_mean", "requests_per_s",
    },
    "inferencex": {
        "model", "device", "engine", "engine_version", "mode", "precision", "num_devices", "input_length", "output_length",
        "measured_at", "tp", "ep", "moe_tp", "ttft_ms_mean", "ttft_ms_p90", "itl_ms_mean",
    },
    "guidellm": {
        "model", "mode", "input_length", "output_length", "request_rate", "completed_requests", "failed_requests",
        "ttft_ms_mean", "ttft_ms_p90", "tpot_inclusive_ms_mean", "requests_per_s",
    },
}  # fmt: skip


@pytest.mark.parametrize("format_", FORMATS)
def test_without_the_block_a_format_keeps_what_it_has_a_place_for(url, tmp_path, format_):
    path = exported(url, format_, tmp_path / FORMATS[format_], "--source mine.csv")
    without_block(path)
    (before,) = (one for one in points(url) if one.source.startswith("mine.csv"))
    (after,) = read_measurements(path).records
    said, came = facts(before), facts(after)
    assert {name for name, value in said.items() if came.get(name) == pytest.approx(value)} == KEPT[format_]
    assert after.source_format == {"benchmark-report": "benchmark_report"}.get(format_, format_)


def points(url):
    with open_store(url) as store:
        return get_measurements(store)


def facts(record):
    """Everything that is said of a point, flat."""
    found = {
        name: getattr(record, name)
        for name in type(record).__slots__
        if isinstance(getattr(record, name), str | int | float)
    }
    found |= {name: getattr(record.run, name) for name in type(record.run).__slots__}
    found |= {name: getattr(record.decode, name) for name in type(record.decode).__slots__}
    found |= {"measured_at": record.measured_at and record.measured_at.isoformat()}
    apart = {"key", "source", "source_format", "extra", "file", "read_as", "tags"}
    return {
        name: value for name, value in (found | dict(record.metrics)).items() if value is not None and name not in apart
    }


def without_block(path):
    if path.suffix == ".csv":
        lines = [row[:-1] for row in csv.reader(io.StringIO(path.read_text()))]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        return
    text = path.read_text()
    documents = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    for one in documents:
        one.pop("sweepdb", None)
        one.get("results", {}).pop("profiling", None)
    path.write_text(json.dumps(documents))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_that_was_edited_since_is_a_result_of_its_format(url, tmp_path, format_):
    path = exported(url, format_, tmp_path / FORMATS[format_], "--source mine.csv")
    seconds = path.read_text().replace("0.0957", "0.0958") if format_ != "guidellm" else path.read_text()
    path.write_text(seconds.replace(",95.7,", ",95.8,"))
    (after,) = read_measurements(path).records
    assert after.metrics["ttft_ms_mean"] == pytest.approx(95.8)
    assert after.key not in {one.key for one in points(url)}


def test_rows_of_inferencex_are_in_seconds_and_for_a_device(url, tmp_path):
    path = exported(url, "inferencex", tmp_path / "points.json", "--source row.json")
    (row,) = json.loads(path.read_text())
    same = ("hw", "model", "framework", "precision", "conc", "isl", "osl", "tp", "ep", "disagg", "is_multinode", "num_gpus",
            "mean_ttft", "median_ttft", "p99_ttft", "mean_tpot", "mean_intvty", "mean_e2el", "tput_per_gpu", "output_tput_per_gpu",
            "image")  # fmt: skip
    written = {"hw": "h200_sxm"}  # as we call it
    assert {name: row[name] for name in same} == {name: written.get(name, INFERENCEX[name]) for name in same}
    assert (row["dp_attention"], row["predicted"]) == (True, False)
    report = exported(url, "inferencex", tmp_path / "report.json", "--source report.json")
    (row,) = json.loads(report.read_text())
    # three instances of tp 2 take prompts, one of eight replicas of attention generates: 1300 tokens/s over 14 and over 8
    assert (row["prefill_num_workers"], row["num_prefill_gpu"], row["num_decode_gpu"]) == (3, 6, 8)
    assert (row["decode_tp"], row["decode_dp_attention"], row["prefill_tp"]) == (8, True, 2)
    assert row["output_tput_per_gpu"] == pytest.approx(1300 / 14)
    assert row["output_tput_per_decode_gpu"] == pytest.approx(1300 / 8)


def test_predictions_go_out_marked_and_are_no_measurements(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    assert sweepdb(EXAMPLE.replace("--batch-range 260", "--batch-range 4"), url).code == 0
    (tmp_path / "vllm.json").write_text(json.dumps(VLLM))
    import_measurements([tmp_path / "vllm.json"], url)
    statement = "SELECT probe, ttft_ms FROM fits(10, 'full') WHERE phase = 'aggregated' ORDER BY probe"
    probes = json.loads(sweepdb(["sql", statement, "--format", "json"], url).out)
    for format_, name in FORMATS.items():
        path = exported(url, format_, tmp_path / name, "--rows both")
        result = read_measurements(path)
        assert [one.key for one in result.records] == [one.key for one in points(url)]
        assert (result.problems, result.files[0].predictions) == ((), len(probes))
        assert import_measurements([path], url).added == 0
        without_block(path)
        left = read_measurements(path)
        assert (len(left.records), left.files[0].predictions) == (1, len(probes))
    rows = json.loads(exported(url, "inferencex", tmp_path / "rows.json", "--rows predicted").read_text())
    assert [(row["sweepdb"]["extra"]["probe"], pytest.approx(1e3 * row["mean_ttft"])) for row in rows] == [
        (probe["probe"], probe["ttft_ms"]) for probe in probes
    ]
    assert {(row["predicted"], row["sweepdb"]["rows"]) for row in rows} == {(True, "predicted")}
    report = json.loads(
        sweepdb("measurements export --format benchmark-report --rows predicted", url).out.splitlines()[0]
    )
    assert report["run"]["keywords"] == ["predicted"]
    other = sweepdb("measurements export --format inferencex --rows predicted --sweep ffff", url)
    assert (other.code, "no row to export" in other.err) == (2, True)


def test_what_export_refuses_is_said(url, tmp_path):
    def said(arguments):
        outcome = sweepdb(f"measurements {arguments}", url)
        assert outcome.code == 2
        return outcome.err

    assert "--format table is not one of benchmark-report, inferencex, guidellm" in said("export")
    assert "--rows belongs to measurements export" in said("list --rows both")
    assert "--rows all is not one of measured, predicted, both" in said("export --format guidellm --rows all")
    assert "a report holds one point, not 7" in said(f"export --format benchmark-report --output {tmp_path}/one.yaml")
    one = exported(url, "benchmark-report", tmp_path / "one.yaml", "--source vllm.json")
    assert yaml.safe_load(one.read_text())["version"] == "0.2.1"


def test_the_csv_of_guidellm_itself_is_read(tmp_path):
    path = tmp_path / "benchmarks.csv"
    path.write_text(GUIDELLM_CSV)
    result = read_measurements(path)
    first, second = result.records
    assert (first.source_format, first.model, first.source) == (
        "guidellm",
        "org/model-8B",
        "benchmarks.csv:4 benchmarks[0]",
    )
    assert (first.concurrency, second.concurrency, first.input_length, first.output_length) == (7.9, 15.5, 512.0, 128.0)
    assert first.metrics == {
        "e2e_ms_mean": 1500.0, "e2e_ms_p50": 1450.0, "e2e_ms_std": 120.0, "e2e_ms_p90": 1700.0, "e2e_ms_p99": 1900.0,
        "e2e_ms_p25": 1400.0, "e2e_ms_p75": 1600.0, "e2e_ms_p95": 1800.0, "ttft_ms_mean": 110.0,
        "tpot_exclusive_ms_mean": 10.9, "tpot_inclusive_ms_mean": 11.7, "requests_per_s": 5.2, "output_tokens_per_s": 665.6,
        "total_tokens_per_s": 3328.0,
    }  # fmt: skip
    assert (first.run.completed_requests, first.run.failed_requests) == (300, 2)
