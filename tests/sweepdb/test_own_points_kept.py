"""Own points are matched once and kept beside the store, by model and device; runs of one setting are read as one."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from cli.main import run
from queries.asking import question_of
from queries.learning import Apart, FailedStart, OwnPoint, OwnPoints, Server, Setting
from queries.session import Session
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.records import MeasurementRecord, RunRecord, SideRecord
from store.writing import get_measurements
from sweepdb.own_runs import reading
from sweepdb.own_runs.kept_points import NAMES, KeptPoints, StatedModel
from sweepdb.own_runs.points import points_of_runs
from sweepdb.own_runs.reading import MOST_APART, own_points, read_own_points, together

HEAD = "model,device,engine,engine_version,precision,mode,tp,concurrency,input_length,output_length,measured_at,ttft_ms_mean\n"
ROW = "{model},{device},vllm,0.19.1,{precision},aggregated,1,{users},{prompt},128,{at},{ttft}\n"
OURS = {"model": "Qwen/Qwen3-8B", "device": "h100_sxm", "precision": "fp8", "prompt": 1024, "at": ""}


def imported(location, name, rows):
    path = location.path.with_name(f"{name}.csv")
    path.write_text(HEAD + "".join(ROW.format(**{**OURS, **row}) for row in rows), encoding="utf-8")
    assert run(["measurements", "import", str(path), "--store", location.url]) == 0


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The bytes of a store with one evaluated server."""
    folder = tmp_path_factory.mktemp("evaluated")
    told = "evaluate Qwen/Qwen3-8B --device h100_sxm --num-devices 1 --input-length 1024 --output-length 128"
    assert run([*told.split(), "--quantization", "fp8", "--store", f"sqlite:///{folder}/store.sqlite"]) == 0
    return (folder / "store.sqlite").read_bytes()


@pytest.fixture
def location(tmp_path, evaluated):
    """A store of one server and two points of it, beside which a folder for what is kept stands."""
    (tmp_path / "store.sqlite").write_bytes(evaluated)
    (tmp_path / "store.sqlite.snapshots").mkdir()
    location = parse_url(f"sqlite:///{tmp_path}/store.sqlite")
    imported(location, "own", [{"users": users, "ttft": 50 + users} for users in (4, 8)])
    return location


def scenarios(location):
    with read_transaction(location) as transaction:
        return list(transaction.values(int, "SELECT id FROM scenario"))


def kept_files(location):
    return sorted(location.path.with_name("store.sqlite.snapshots").glob("own-points*"))


def kept_file(location):
    (found,) = (path for path in kept_files(location) if path.name != NAMES)
    return found


def never(*_, **__):
    raise AssertionError("read again")


def test_what_was_read_once_is_kept_as_it_was(location, monkeypatch):
    ids = scenarios(location)
    first = own_points(location, ids)
    assert first == read_own_points(location, ids)
    assert [one.batch_size for one in first.points] in ([4, 8], [8, 4])
    monkeypatch.setattr(reading, "_from_records", never)
    assert own_points(location, ids) == first
    imported(
        location, "others", [{"device": "h200_sxm", "users": 4, "ttft": 50}, {"model": "m", "users": 4, "ttft": 50}]
    )
    assert own_points(location, ids) == first
    assert len(kept_files(location)) == 2  # names, and points of the one model and device that was asked about


def test_servers_that_failed_and_pools_that_are_apart_are_kept(tmp_path):
    server = Server("k", "h100_sxm", "vllm", "FP8", "FP8", "DISABLED")
    setting = Setting(users=4.0, input_length=8.0, output_length=2.0, num_devices=1.0, dp=1.0, ep=1.0, plan="1 1")
    point = OwnPoint(key="a", source="a.csv:2", server=server, setting=setting, batch_size=4, measured={"ttft_ms": 9.0},
                     prompts=Apart("2 1", 1, 2, 0.5, 80.0), order=(-math.inf, 7))  # fmt: skip
    starts = (FailedStart(point, "out of memory", "2026-03-01"), FailedStart(replace(point, prompts=None), "crashed"))
    told, group = OwnPoints(points=(point,), failed=starts), StatedModel("m", "h100")
    kept = KeptPoints([tmp_path], "program")
    kept.keep(group, "digest", told)
    assert kept.load(group, "digest") == told
    assert kept.load(group, "another") is None


def everything(location):
    with open_store(location.url) as store:
        every = list(enumerate(get_measurements(store)))
    return points_of_runs(together(every, apart=len(every) <= MOST_APART))


def test_points_of_what_is_asked_about_answer_as_all_points_do(location):
    """Two names of the model, points without a day between others, further formats, devices and models."""
    draw = Random(4)
    rows = [
        {
            "model": draw.choice(("Qwen/Qwen3-8B", "qwen3-8b", "Qwen/Qwen3-32B")),
            "device": draw.choice(("h100_sxm", "h200_sxm")),
            "precision": draw.choice(("fp8", "fp8", "bf16")),
            "prompt": draw.choice((1024, 1024, 512)),
            "at": draw.choice(("", "2026-03-01", "2026-05-04")),
            "users": draw.randrange(1, 60),
            "ttft": f"{draw.uniform(30, 300):.2f}",
        }
        for _ in range(MOST_APART + 200)
    ]
    imported(location, "many", rows)
    every = everything(location)
    ids = scenarios(location)
    told = own_points(location, ids)
    assert 100 < len(told.points) < len(every.points) / 2
    question = question_of("best", {"top": 20})
    with Session(location, own_points=lambda *_: every) as session:
        expected = session.ask(question)
    with Session(location, own_points=own_points) as session:
        answer = session.ask(question)
    assert answer == expected
    assert answer.own_runs.corrected
    assert any("correct no row here" in note for note in answer.notes)
    assert any("teach nothing" in note for note in answer.notes)


def test_a_point_that_is_left_out_is_left_out_at_once(location):
    ids = scenarios(location)
    first = own_points(location, ids)
    told = ["measurements", "set", first.points[0].key[:12], "--no-learn", "--store", location.url]
    assert run(told) == 0
    assert [one.key for one in own_points(location, ids).points] == [first.points[1].key]


@pytest.mark.parametrize("damage", ["", "{", '{"digest": 1}', "kept of others"])
def test_damaged_files_are_read_anew(location, damage):
    ids = scenarios(location)
    first = own_points(location, ids)
    for path, name in ((kept_file(location), "points"), (kept_file(location).with_name(NAMES), "names")):
        told = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**told, name: [{"key": 1}]}) if damage == "kept of others" else damage)
        assert own_points(location, ids) == first


def test_a_store_whose_folder_takes_no_file_answers_all_the_same(location, monkeypatch):
    def full(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sweepdb.own_runs.kept_points.written_whole", full)
    assert len(own_points(location, scenarios(location)).points) == 2
    assert not kept_files(location)


def record(place, *, users, ttft, night):
    return MeasurementRecord(
        key=f"{place:064d}", source=f"a.csv:{place}", source_format="sweepdb_csv", model="m", device="h100_sxm",
        engine="vllm", engine_version="1", mode="aggregated", precision="bf16", kv_precision=None, num_devices=1,
        input_length=1.0, output_length=1.0, concurrency=users, request_rate=None, prefill=SideRecord(tp=1),
        decode=SideRecord(tp=1), metrics={"ttft_ms_mean": ttft},
        measured_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night),
    )  # fmt: skip


def numbered(records):
    return list(enumerate(records))


def test_few_points_stay_as_they_are():
    some = [record(place, users=4, ttft=10.0, night=0) for place in range(MOST_APART)]
    assert [ran.runs for ran in together(numbered(some), apart=True)] == [1] * MOST_APART


def test_runs_of_one_round_are_not_joined_with_those_of_users_who_come_back():
    """Their TTFT is the wait of a crowd: the median of both would be nobody's."""
    usual = [record(place, users=4, ttft=10.0, night=0) for place in range(3)]
    crowds = [
        replace(record(place, users=4, ttft=90.0, night=1), run=RunRecord(completed_requests=4))
        for place in range(3, 6)
    ]
    joined = together(numbered([*usual, *crowds]), apart=False)
    assert [(ran.record.metrics["ttft_ms"], ran.runs) for ran in joined] == [(10.0, 3), (90.0, 3)]


def test_runs_of_a_setting_become_one_with_their_median_the_newest_setting_last():
    # 4 users: 201 runs of 10 ms and 199 of 40 ms, whose median is 10 ms; 8 users ran last, in night 9.
    some = [record(place, users=4, ttft=(10.0, 40.0)[place % 2 and place > 1], night=place % 7) for place in range(400)]
    last = record(400, users=8, ttft=5.0, night=9)
    (one, runs, _), (other, alone, _) = together(numbered([last, *some]), apart=False)
    assert (runs, alone) == (400, 1)
    assert one.metrics == {"ttft_ms": 10.0}
    assert one.measured_at.day == 7  # the newest of its runs: the first of January and six days
    assert other == last
