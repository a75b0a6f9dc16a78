"""A store goes into a bundle and out of it into another store, unchanged, once however often it is brought in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import changed, mission_records, read_rows, write_sweep

import queries
from queries.bundles import Bundle, export_bundle
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store
from sweepdb.sharing.adding import add_bundle


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_bundle_brings_every_row_over_once(tmp_path, format_):
    url, copy = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second"))
    mixed = scenario(MODELS[4], WORKLOADS[5], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[1], phase="decode")
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:3]), key="1", sizes=3)
    write_sweep(url, [*mission_records(models=MODELS[9:10], plans=PLANS[:2]), mixed], key="2", sizes=5)
    summary = export_bundle(parse_url(url), tmp_path / "bundle", format_=format_)
    with open_store(copy, create=True) as store:
        brought = add_bundle(store, Bundle(tmp_path / "bundle"))
        assert (brought.sweeps, brought.probes) == (2, summary.probes)
        assert add_bundle(store, Bundle(tmp_path / "bundle")).probes == 0

    def comparable(address):
        local = ("scenario_id", "block_id", "stored_at")
        rows = [{name: value for name, value in row.items() if name not in local} for row in read_rows(address)]
        return sorted(rows, key=lambda row: (row["scenario"], row["batch_size"]))

    before, after = comparable(url), comparable(copy)
    assert len(before) == summary.probes
    assert [row["scenario"] for row in before] == [row["scenario"] for row in after]
    for one, other in zip(before, after, strict=True):
        assert one == other
    first, second = (queries.open(address).report("coverage").dicts() for address in (url, copy))
    assert first == second


def test_one_sweep_is_a_bundle_of_what_it_asked_for(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:3]), key="1", sizes=3)
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:1]), key="2", sizes=2)
    summary = export_bundle(parse_url(url), tmp_path / "bundle", sweep="2" * 32)
    # one plan, two devices, three phases, two batch sizes
    assert (summary.sweeps, summary.probes) == (1, 12)
    with open_store(f"sqlite:///{tmp_path}/copy.sqlite", create=True) as store:
        assert add_bundle(store, Bundle(tmp_path / "bundle")).probes == 12


def test_what_is_no_bundle_is_refused(tmp_path):
    with (
        pytest.raises(InputError, match="no bundle"),
        open_store(f"sqlite:///{tmp_path}/s.sqlite", create=True) as store,
    ):
        add_bundle(store, Bundle(tmp_path))


def kinds(url):
    with open_store(url) as store, store.reading() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT kind FROM sweep ORDER BY id")]


def test_an_imported_request_is_an_import_and_a_comparison_stays_one(tmp_path):
    url, copy, again = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second", "third"))
    records = mission_records(models=MODELS[4:5], plans=PLANS[:1])
    for key, kind in (("1", "request"), ("2", "validation"), ("3", "import")):
        write_sweep(url, records, key=key, sizes=2, kind=kind)
    export_bundle(parse_url(url), tmp_path / "bundle")
    with open_store(copy, create=True) as store:
        add_bundle(store, Bundle(tmp_path / "bundle"))
    assert kinds(copy) == ["import", "validation", "import"]
    export_bundle(parse_url(copy), tmp_path / "bundle of bundle")
    with open_store(again, create=True) as store:
        add_bundle(store, Bundle(tmp_path / "bundle of bundle"))
    assert kinds(again) == kinds(copy)


CLIENT = {"shortest_length": 0.8, "prompts_per_user": 10, "poll_steps": 2, "seats": 256, "wait_steps": 40}


def test_what_a_subject_states_of_its_client_and_who_can_launch_it_travels(tmp_path):
    url, copy = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second"))
    records = mission_records(models=MODELS[4:5], plans=PLANS[:1], devices=DEVICES[:1])
    stated = [replace(changed(one, **CLIENT, routing="power_law_1.2"), launchable_by="vllm,sglang") for one in records]
    write_sweep(url, stated, key="1", sizes=2)
    export_bundle(parse_url(url), tmp_path / "bundle", format_="csv")
    with open_store(copy, create=True) as store:
        add_bundle(store, Bundle(tmp_path / "bundle"))
    rows = read_rows(copy)
    assert len(rows) == 6  # three phases of two batch sizes
    for row in rows:
        assert {name: row[name] for name in CLIENT} == CLIENT
        assert (row["routing"], row["launchable"]) == ("power_law_1.2", "vllm,sglang")


def test_a_bundle_of_another_format_is_refused(tmp_path):
    url, copy = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second"))
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:2]), key="1", sizes=3)
    folder = tmp_path / "bundle"
    export_bundle(parse_url(url), folder)
    described = json.loads((folder / "bundle.json").read_text())
    (folder / "bundle.json").write_text(json.dumps({**described, "format": 6}))
    with pytest.raises(InputError, match=r"format 6 .* reads format 5"), open_store(copy, create=True) as store:
        add_bundle(store, Bundle(folder))
