"""Measured points after their import: a table that fits, one point whole, corrected, deleted, replaced by their file."""

from __future__ import annotations

import csv
import json

import pytest
from conftest_cli import sweepdb

from store.opening import open_store
from store.writing import get_measurements
from sweepdb.measuring import (
    PointSelection,
    correct_measurements,
    delete_measurements,
    import_measurements,
    parse_stated,
    shown_measurement,
)

MODEL = "Qwen/Qwen3-8B"
COLUMNS = ("model", "device", "engine", "engine_version", "precision", "input_length", "output_length", "concurrency",
           "tp", "ttft_ms", "tpot_exclusive_ms")  # fmt: skip


def line(users, ttft=50.0, version="0.8", tp=1):
    return [MODEL, "h100_sxm", "vllm", version, "bf16", 1024, 128, users, tp, ttft, 8.0]


def write(path, lines):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *lines])
    return path


@pytest.fixture
def mine(tmp_path):
    return write(tmp_path / "mine.csv", [line(4), line(8), line(16)])


@pytest.fixture
def imported(mine, store_url):
    """(store, file) with three points, on each database."""
    assert sweepdb(f"measurements import {mine}", store_url).code == 0
    return store_url, mine


def stored(url):
    with open_store(url, read_only=True) as store:
        return {record.key: record for record in get_measurements(store)}


def compared(url):
    outcome = sweepdb(["sql", "SELECT DISTINCT measurement FROM validation", "--format", "json"], url)
    assert outcome.code == 0, outcome.err
    return {row["measurement"] for row in json.loads(outcome.out)}


def test_a_file_read_again_replaces_its_points(imported):
    url, mine = imported
    before = stored(url)
    write(mine, [line(4), line(8, ttft=55.0)])
    again = sweepdb(f"measurements import {mine} --format json", url)
    (row,) = json.loads(again.out)
    assert (row["read"], row["new"], row["replaced"]) == (2, 1, 2)
    after = stored(url)
    assert sorted(record.concurrency for record in after.values()) == [4.0, 8.0]
    assert len(before.keys() & after.keys()) == 1


def test_stating_what_a_file_lacks_leaves_no_copy_without_it(tmp_path, store_url):
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("model,device,input_length,output_length,ttft_ms\nM,,10,5,7\n", encoding="utf-8")
    sweepdb(f"measurements import {lacking}", store_url)
    outcome = sweepdb(f"measurements import {lacking} --set device=h100_sxm", store_url)
    assert "1 point replaced" in outcome.err
    assert [record.device for record in stored(store_url).values()] == ["h100_sxm"]


def test_files_of_one_name_are_two_files(tmp_path, store_url):
    for folder, users in (("a", 4), ("b", 8)):
        (tmp_path / folder).mkdir()
        sweepdb(f"measurements import {write(tmp_path / folder / 'result.csv', [line(users)])}", store_url)
    assert len(stored(store_url)) == 2
    write(tmp_path / "b" / "result.csv", [line(9)])
    sweepdb(f"measurements import {tmp_path}/b/result.csv", store_url)
    assert sorted(record.concurrency for record in stored(store_url).values()) == [4.0, 9.0]


def test_a_file_with_an_unreadable_line_replaces_nothing(imported):
    url, mine = imported
    write(mine, [line(4), line("many")])
    outcome = sweepdb(f"measurements import {mine}", url)
    assert (outcome.code, "mine.csv:3: concurrency" in outcome.err) == (4, True)
    assert len(stored(url)) == 3


def test_a_correction_changes_the_point_and_survives_its_file(imported):
    url, mine = imported
    key = min(stored(url))
    outcome = sweepdb(f"measurements set {key[:8]} --set engine_version=0.9.1 --set tp=2", url)
    assert (outcome.code, outcome.out) == (0, "")
    after = stored(url)
    (made,) = after.keys() - {key} - {other for other, record in after.items() if record.engine_version == "0.8"}
    record = after[made]
    assert (record.engine_version, record.prefill.tp, record.decode.tp, len(after)) == ("0.9.1", 2, 2, 3)
    extra = json.loads(record.extra)
    assert extra["corrected"] == {"engine_version": "0.8", "prefill_tp": 1, "decode_tp": 1}
    assert record.read_as == key
    again = sweepdb(f"measurements import {mine}", url)
    assert "0 new of 3 points" in again.err
    assert "1 point left as corrected" in again.err
    assert stored(url) == after


def test_a_second_correction_keeps_what_the_file_said(imported):
    url, mine = imported
    (first,) = correct_measurements(PointSelection(points=(min(stored(url)),)), parse_stated(["tp=2"]), url)
    (second,) = correct_measurements(PointSelection(points=(first,)), parse_stated(["tp=4", "device=h200_sxm"]), url)
    extra = json.loads(stored(url)[second].extra)
    assert extra["corrected"] == {"prefill_tp": 1, "decode_tp": 1, "device": "h100_sxm"}
    import_measurements([mine], url)
    assert (second in stored(url), len(stored(url))) == (True, 3)
    write(mine, [line(99)])  # the file says other things now: what was corrected of it is gone
    import_measurements([mine], url)
    assert [record.concurrency for record in stored(url).values()] == [99.0]


def test_deleting_takes_comparisons_along(imported):
    url, _ = imported
    assert sweepdb("validate", url).code == 0
    keys = sorted(stored(url))
    assert compared(url) == set(keys)
    outcome = sweepdb(f"measurements delete {keys[0][:10]}", url)
    assert outcome.err == "1 point deleted, and what was compared with it\n"
    assert (set(stored(url)), compared(url)) == (set(keys[1:]), set(keys[1:]))
    corrected = sweepdb(f"measurements set {keys[1][:10]} --set tp=2", url)
    assert corrected.code == 0
    assert compared(url) == {keys[2]}  # what was compared was another plan
    everything = sweepdb("measurements delete --source mine.csv", url)
    assert everything.err.startswith("2 points deleted")
    assert (stored(url), compared(url)) == ({}, set())


def test_one_point_is_shown_whole(imported):
    url, _ = imported
    assert sweepdb("validate", url).code == 0
    key = min(stored(url))
    text = sweepdb(f"measurements show {key[:8]}", url).out
    told = dict(line.split(None, 1) for line in text.split("\n\n")[0].splitlines() if not line.startswith("definition"))
    assert (told["measurement"], told["model"], told["decode_tp"]) == (key, MODEL, "1")
    assert "definition of ttft_ms_mean" in text
    assert "signed_error_" in text
    (row,) = json.loads(sweepdb(f"measurements show {key[:8]} --format json", url).out)
    assert (row["measurement"], row["ttft_ms_mean"], row["tpot_exclusive_ms_mean"]) == (key, 50.0, 8.0)
    assert {one.metric for one in shown_measurement(key, url).comparisons} == {"ttft_ms", "tpot_exclusive_ms"}


def test_the_list_fits_a_terminal(tmp_path, sqlite_url):
    long = tmp_path / "long.csv"
    names = [f"somebody/{'A-Very-Long-Name-Of-A-Model-' * 3}{index}" for index in range(3)]
    rows = [[name, "a_device_with_a_name_that_is_long", "an_engine_with_a_long_name", "1", "bf16", 131072, 16384, 12345, 1, 5.0, 8.0]
            for name in names]  # fmt: skip
    sweepdb(f"measurements import {write(long, [*rows, line(4)])}", sqlite_url)
    shown = sweepdb("measurements list", sqlite_url).out.splitlines()
    assert len(shown) == 6
    assert max(map(len, shown)) <= 80
    assert all("131072/16384" in row for row in shown[2:5] if "…" in row)
    assert MODEL in sweepdb("measurements list --format csv", sqlite_url).out
    assert "Qwen3-8B" in "".join(shown)
    for row in json.loads(sweepdb("measurements list --format json", sqlite_url).out):
        assert sweepdb(f"measurements show {row['measurement'][:8]}", sqlite_url).code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("show", "is not one of: import FILE..., export, list, runs, show POINT"),
        ("show zzz", "There is no measured point 'zzz'"),
        ("delete", "No measured point is named"),
        ("delete --model nothing", "No stored point fits"),
        ("set --model qwen", "Nothing is given to correct"),
        ("set --model qwen --set colour=red", "not NAME=VALUE"),
        ("set --model qwen --set tp=0", "must be above 0"),
        ("set --model qwen --set engine_version=" + "x" * 65, "more than 64 characters"),
        ("delete abc --model qwen", "named or filtered, not both"),
        ("list --set tp=1", "--set belongs to measurements import and set"),
        ("rename x", "is not one of"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(mine, sqlite_url, arguments, told):
    assert sweepdb(f"measurements import {mine}", sqlite_url).code == 0
    before = stored(sqlite_url)
    outcome = sweepdb(f"measurements {arguments}", sqlite_url)
    assert (outcome.code, told in outcome.err, outcome.out) == (2, True, ""), outcome.err
    assert stored(sqlite_url) == before


def test_deleting_from_python_names_what_is_gone(imported):
    url, _ = imported
    keys = sorted(stored(url))
    assert delete_measurements(PointSelection(points=(keys[0],)), url) == (keys[0],)
    assert sorted(stored(url)) == keys[1:]


LACKING = "model,device,input_length,output_length,ttft_ms,tpot_exclusive_ms\nM,,1000,101,{ttft},8\n"


def test_what_was_stated_stays_when_its_file_is_read_without_it(tmp_path, store_url):
    lacking = tmp_path / "lacking.csv"
    lacking.write_text(LACKING.format(ttft=70), encoding="utf-8")
    sweepdb(f"measurements import {lacking} --set device=h100_sxm --tag nightly", store_url)
    again = sweepdb(f"measurements import {lacking} --tag second", store_url)
    assert (again.code, "1 point left as corrected or stated before" in again.err) == (0, True)
    (record,) = stored(store_url).values()
    assert record.device == "h100_sxm"


def test_a_misspelt_device_is_refused_and_a_correction_outlives_a_changed_file(tmp_path, store_url):
    lacking = tmp_path / "lacking.csv"
    lacking.write_text(LACKING.format(ttft=70), encoding="utf-8")
    sweepdb(f"measurements import {lacking}", store_url)
    (key,) = stored(store_url)
    assert sweepdb(f"measurements set {key[:8]} --set device=h200 --set host=node7", store_url).code == 0
    refused = sweepdb(f"measurements import {lacking} --set device=h100_xsm", store_url)
    assert (refused.code, "h100_sxm" in refused.err) == (2, True)
    lacking.write_text(LACKING.format(ttft=71), encoding="utf-8")
    assert sweepdb(f"measurements import {lacking}", store_url).code == 0
    (record,) = stored(store_url).values()
    assert (record.metrics["ttft_ms_mean"], record.device, record.run.host) == (71.0, "h200_sxm", "node7")
    assert json.loads(record.extra)["corrected"] == {"device": None, "host": None}


def test_runs_of_a_setting_are_kept_and_shown_by_median_and_spread(tmp_path, store_url):
    """Three nights: 48, 50 and 52 ms are 50 in the middle with a standard deviation of 2, 4 % of their mean."""
    for night, ttft in enumerate((48.0, 50.0, 52.0), start=1):
        path = write(tmp_path / f"night{night}.csv", [line(4, ttft=ttft)])
        at = f"measured_at=2026-02-0{night}T03:00:00Z"
        assert (
            sweepdb(f"measurements import {path} --tag nightly --set {at} --set measured_by=ada", store_url).code == 0
        )
    write(tmp_path / "other.csv", [line(8)])
    sweepdb(f"measurements import {tmp_path}/other.csv", store_url)
    rows = json.loads(sweepdb("measurements runs --format json", store_url).out)
    assert [(row["concurrency"], row["runs"], row["ttft_ms"]) for row in rows] == [(4.0, 3, 50.0), (8.0, 1, 50.0)]
    assert (rows[0]["ttft_spread"], rows[1]["ttft_spread"]) == (pytest.approx(0.04), None)
    assert str(rows[0]["last_measured_at"]).startswith("2026-02-03")
    assert "50 +-4.0 %" in sweepdb("measurements runs", store_url).out
    assert len(json.loads(sweepdb("measurements list --tag nightly --format json", store_url).out)) == 3
    assert {record.run.measured_by for record in stored(store_url).values()} == {"ada", None}
    again = sweepdb(f"measurements import {tmp_path}/night1.csv --tag kept", store_url)
    assert again.code == 0
    assert len(json.loads(sweepdb("measurements list --tag kept --format json", store_url).out)) == 1
    assert len(stored(store_url)) == 4
    assert sweepdb("measurements show --tag x 1", store_url).code == 2


def test_tags_are_added_to_a_point_that_is_there(imported):
    url, mine = imported
    for tag in ("b", "a,c"):
        assert sweepdb(["measurements", "import", str(mine), "--tag", tag], url).code == 0
    assert {record.run.tags for record in stored(url).values()} == {"a,b,c"}


def test_an_import_says_of_each_file_what_is_missing_and_what_failed(tmp_path, store_url):
    folder = tmp_path / "runs" / "day1"
    folder.mkdir(parents=True)
    run = {"backend": "openai", "model_id": MODEL, "completed": 60, "failed": 4, "total_input_tokens": 60_000,
           "total_output_tokens": 6_000, "max_concurrency": 4, "request_throughput": 4.0, "mean_ttft_ms": 60.0,
           "mean_tpot_ms": 9.5, "device": "h100_xsm"}  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (folder / "notes.yaml").write_text("a: 1\n", encoding="utf-8")
    lines = sweepdb(f"measurements import {tmp_path}/runs", store_url).err.splitlines()
    assert f"{tmp_path}/runs/day1/notes.yaml: not read: settings, no result" in lines
    (said,) = [one for one in lines if "run.json: " in one]
    assert "1 point of vllm_bench. missing: engine, engine_version, sizes (tp, or num_devices)" in said
    assert "4 of 64 requests failed: values are of the others" in said
    assert "unknown device 'h100_xsm' (nearest known: h100_sxm" in said
    # 4 requests/s of 60 + 99 x 9.5 ms each keep 4 x 1.0005 = 4.0 in flight: nothing contradicts itself.
    assert "in flight" not in said
    assert "1 point corrects no answers: engine not stated" in said


def test_an_import_says_what_formats_it_takes_where_no_file_says(tmp_path, store_url):
    run = {"backend": "vllm", "request_throughput": 4.0, "completed": 60, "total_input_tokens": 60_000,
           "total_output_tokens": 6_000, "max_concurrency": 4, "mean_ttft_ms": 60.0, "mean_tpot_ms": 9.5}  # fmt: skip
    for model, told in (("Qwen/Qwen3-32B-FP8", True), ("Qwen/Qwen3-32B", False)):
        (tmp_path / "run.json").write_text(json.dumps({**run, "model_id": model}), encoding="utf-8")
        said = sweepdb(f"measurements import {tmp_path}/run.json", store_url).err
        assert (f"weights taken as FP8_BLOCK, as {model} is published" in said) is told
        stated = sweepdb(f"measurements import {tmp_path}/run.json --set precision=fp8", store_url).err
        assert "weights taken" not in stated


def test_an_import_says_that_first_prompts_waited_for_one_another(tmp_path, store_url):
    """100 requests of 64 users: two each, and half of them come at once."""
    run = {"backend": "vllm", "engine_version": "0.19.1", "model_id": MODEL, "tp": 1, "device": "h100_sxm", "precision": "bf16",
           "completed": 100, "total_input_tokens": 100_000, "total_output_tokens": 10_000, "max_concurrency": 64,
           "request_throughput": 16.0, "mean_ttft_ms": 2500.0, "mean_tpot_ms": 14.0}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    said = sweepdb(f"measurements import {tmp_path}/run.json", store_url).err
    assert "1 point corrects TPOT alone: users asked fewer than 5 times each" in said


def test_files_that_say_the_same_share_a_line_and_a_few_do_not(tmp_path, store_url):
    for count in (4, 3):
        (tmp_path / f"{count}").mkdir()
        for number in range(count):
            (tmp_path / f"{count}" / f"{number}.yaml").write_text("a: 1\n", encoding="utf-8")
        write(tmp_path / f"{count}" / "run.csv", [line(count)])
    said = [sweepdb(f"measurements import {tmp_path}/{count}", store_url).err.splitlines() for count in (4, 3)]
    assert [[one for one in lines if "not read" in one] for lines in said] == [
        [f"{tmp_path}/4/0.yaml and 3 files more, each: not read: settings, no result"],
        [f"{tmp_path}/3/{number}.yaml: not read: settings, no result" for number in range(3)],
    ]


@pytest.mark.parametrize(("rate", "running", "why"), [
    (1.0, "1", "few prompts a user, or a limited rate"), (40.0, "40", "wrong units, or other lengths"),
])  # fmt: skip
def test_a_rate_that_contradicts_its_own_times_is_named(tmp_path, store_url, rate, running, why):
    run = {"backend": "vllm", "model_id": MODEL, "completed": 60, "total_input_tokens": 60_000,
           "total_output_tokens": 6_000, "max_concurrency": 4, "request_throughput": rate, "mean_ttft_ms": 60.0,
           "mean_tpot_ms": 9.5, "device": "h100_sxm"}  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    said = sweepdb(f"measurements import {tmp_path}/run.json", store_url).err
    assert f"rate x time = {running} requests in flight, but concurrency is 4 ({why}?)" in said
