"""A store goes into a bundle and out of it into another store, unchanged, once however often it is brought in."""

from __future__ import annotations

import pytest
from generator import DEVICES, MODELS, PLANS, PRECISIONS, WORKLOADS, scenario
from queries_stores import mission_records, read_rows, write_sweep

import queries
from cli.flows.bundle import import_bundle
from queries.bundle import export_bundle
from store.errors import InputError
from store.location import parse_url
from store.opening import open_store


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_a_bundle_brings_every_row_over_once(tmp_path, format_):
    url, copy = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("first", "second"))
    mixed = scenario(MODELS[4], WORKLOADS[5], DEVICES[0], precision=PRECISIONS[0], plan=PLANS[1], phase="decode")
    write_sweep(url, mission_records(models=MODELS[4:5], plans=PLANS[:3]), key="1", sizes=3)
    write_sweep(url, [*mission_records(models=MODELS[9:10], plans=PLANS[:2]), mixed], key="2", sizes=5)
    summary = export_bundle(parse_url(url), tmp_path / "bundle", format_=format_)
    with open_store(copy, create=True) as store:
        brought = import_bundle(store, tmp_path / "bundle")
        assert (brought.sweeps, brought.probes) == (2, summary.probes)
        assert import_bundle(store, tmp_path / "bundle").probes == 0

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
        assert import_bundle(store, tmp_path / "bundle").probes == 12


def test_what_is_no_bundle_is_refused(tmp_path):
    with (
        pytest.raises(InputError, match="no bundle"),
        open_store(f"sqlite:///{tmp_path}/s.sqlite", create=True) as store,
    ):
        import_bundle(store, tmp_path)
