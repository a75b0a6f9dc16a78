"""Own points are matched once and kept beside the store; many runs of one setting are read as one."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from cli.main import run
from store.location import parse_url
from store.records import MeasurementRecord, SideRecord
from sweepdb.own_runs import reading
from sweepdb.own_runs.reading import KEPT, MOST_APART, own_points, read_own_points, together

HEAD = "model,device,engine,engine_version,precision,mode,tp,concurrency,input_length,output_length,ttft_ms_mean\n"
ROWS = "".join(
    f"Qwen/Qwen3-8B,h100_sxm,vllm,0.19.1,bf16,aggregated,1,{users},1024,128,{50 + users}\n" for users in (4, 8)
)


@pytest.fixture
def location(tmp_path):
    """A store of two measured points, beside which a folder for what is kept stands."""
    (tmp_path / "own.csv").write_text(HEAD + ROWS, encoding="utf-8")
    url = f"sqlite:///{tmp_path}/store.sqlite"
    assert run(["measurements", "import", f"{tmp_path}/own.csv", "--store", url]) == 0
    (tmp_path / "store.sqlite.snapshots").mkdir(exist_ok=True)
    return parse_url(url)


def kept_file(location):
    return location.path.with_name("store.sqlite.snapshots") / KEPT


def never(_):
    raise AssertionError("read again")


def test_what_was_read_once_is_kept_as_it_was(location, monkeypatch):
    first = own_points(location)
    assert first == read_own_points(location)
    assert [one.batch_size for one in first.points] in ([4, 8], [8, 4])
    monkeypatch.setattr(reading, "read_own_points", never)
    assert own_points(location) == first


def test_a_point_that_is_left_out_is_left_out_at_once(location):
    first = own_points(location)
    told = ["measurements", "set", first.points[0].key[:12], "--no-learn", "--store", location.url]
    assert run(told) == 0
    assert [one.key for one in own_points(location).points] == [first.points[1].key]


@pytest.mark.parametrize("damage", ["", "{", '{"digest": 1}', "kept of others"])
def test_a_damaged_file_is_read_anew(location, damage):
    first = own_points(location)
    told = json.loads(kept_file(location).read_text(encoding="utf-8"))
    text = json.dumps({**told, "points": [{"key": 1}]}) if damage == "kept of others" else damage
    kept_file(location).write_text(text, encoding="utf-8")
    assert own_points(location) == first


def test_a_store_whose_folder_takes_no_file_answers_all_the_same(location, monkeypatch):
    def full(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reading, "written_whole", full)
    assert len(own_points(location).points) == 2
    assert not kept_file(location).exists()


def record(place, *, users, ttft, night):
    return MeasurementRecord(
        key=f"{place:064d}", source=f"a.csv:{place}", source_format="sweepdb_csv", model="m", device="h100_sxm",
        engine="vllm", engine_version="1", mode="aggregated", precision="bf16", kv_precision=None, num_devices=1,
        input_length=1.0, output_length=1.0, concurrency=users, request_rate=None, prefill=SideRecord(tp=1),
        decode=SideRecord(tp=1), metrics={"ttft_ms_mean": ttft},
        measured_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=night),
    )  # fmt: skip


def test_few_points_stay_as_they_are():
    some = [record(place, users=4, ttft=10.0, night=0) for place in range(MOST_APART)]
    assert [runs for _, runs in together(some)] == [1] * MOST_APART


def test_runs_of_a_setting_become_one_with_their_median_the_newest_setting_last():
    # 4 users: 201 runs of 10 ms and 199 of 40 ms, whose median is 10 ms; 8 users ran last, in night 9.
    some = [record(place, users=4, ttft=(10.0, 40.0)[place % 2 and place > 1], night=place % 7) for place in range(400)]
    last = record(400, users=8, ttft=5.0, night=9)
    (one, runs), (other, alone) = together([last, *some])
    assert (runs, alone) == (400, 1)
    assert one.metrics == {"ttft_ms": 10.0}
    assert one.measured_at.day == 7  # the newest of its runs: the first of January and six days
    assert other == last
