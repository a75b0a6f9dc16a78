"""Pictures of answers: every field is a column of its report, every picture can be drawn, and files hold what they say."""

from __future__ import annotations

import json
import re

import pytest
from conftest_cli import sweepdb
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

import queries
from queries.asking import picture_of, report_pictures, reports
from queries.asking.pictures import _fields
from store.errors import InputError
from store.location import parse_url
from sweepdb.web.listings import explained_listing

MADE = {
    "side",
    "ms",
    "first probe",
    "second probe",
    "group",
    "named",
    "place",
    "budgets",
    "least",
    "most",
    "rows",  # of answers that measured rows are among
}  # by a picture itself


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A store of one model on two devices."""
    address = f"sqlite:///{tmp_path_factory.mktemp('pictures')}/store.sqlite"
    write_sweep(address, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=6)
    return address


@pytest.mark.parametrize("name", report_pictures())
def test_a_picture_reads_columns_of_its_report(name):
    spec = report_pictures()[name]
    assert spec["description"].endswith(".")
    assert set(_fields(spec)) - MADE <= {column.name for column in reports()[name].columns} | _stored(name)


def _stored(name):
    """Columns that reports of instances take from the view of probes."""
    views = {"device", "plan", "batch_size", "concurrency", "ttft_ms", "probe"}
    return views if name in {"best", "prefill", "decode", "deployments"} else set()


def test_an_answer_is_drawn_with_its_rows(url):
    with queries.open(url) as store:
        answer = store.pareto(tpot_limit=60)
        picture = picture_of(answer)
        assert len(picture["data"]["values"]) == len(answer.rows)
        assert {row["probe"] for row in picture["data"]["values"]} == set(answer.df()["probe"])
        assert picture["title"]["subtitle"][-1] == "TPOT <= 60 ms"
        assert answer._repr_mimebundle_()["application/vnd.vegalite.v5+json"] == picture
        with pytest.raises(InputError, match="pd-ratio has no picture"):
            picture_of(store.pd_ratio())
        with pytest.raises(InputError, match="nothing to draw"):
            picture_of(store.best(tpot_limit=1e-6))


def test_the_command_writes_pictures(url, tmp_path):
    file = tmp_path / "frontier.json"
    assert sweepdb(f"query pareto --format vl --output {file}", url).code == 0
    assert json.loads(file.read_text())["layer"][0]["mark"]["interpolate"] == "step-before"
    refused = sweepdb("query pareto --format png", url)
    assert refused.code == 2
    assert "needs --output" in refused.err


@pytest.mark.parametrize("format_", ["svg", "png", "pdf", "html"])
def test_pictures_are_drawn_without_a_network(url, tmp_path, format_):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert, which is not installed")
    file = tmp_path / f"best.{format_}"
    assert sweepdb(f"query best --format {format_} --output {file}", url).code == 0
    drawn = file.read_bytes()
    begins = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!DOCTYPE html>"}[format_]
    assert drawn.lstrip()[: len(begins)].lower() == begins.lower()
    assert len(drawn) < 2_000_000
    assert not re.findall(rb"<script[^>]+src=|<link[^>]+href=", drawn)


def test_explained_steps_are_bars_that_sum_to_the_stored_time(example_store, tmp_path):
    probe = json.loads(sweepdb("query best --top 1 --format json", example_store).out)[0]["probe"]
    spec = json.loads(sweepdb(f"explain {probe} --format vl", example_store).out)
    rows = json.loads(sweepdb(f"explain {probe} --format json", example_store).out)
    drawn = {(row["of"], row["operator"]): row["time_ms"] for row in spec["data"]["values"]}
    assert drawn == {(f"{probe} {row['step']}", row["operator"]): pytest.approx(row["time_ms"]) for row in rows}
    assert {"kind", "operator", "time_ms", "of"} <= set(_fields(spec)) <= {*spec["data"]["values"][0], "place"}
    pytest.importorskip("vl_convert", reason="pictures need vl-convert, which is not installed")
    file = tmp_path / "step.svg"
    assert sweepdb(f"explain {probe} --format svg --output {file}", example_store).code == 0
    assert "kind of operator" in file.read_text()


def test_a_chart_of_characters_stands_below_the_table(url):
    pytest.importorskip("plotext", reason="charts in a terminal need plotext, which is not installed")
    outcome = sweepdb("query pareto --plot", url)
    assert outcome.code == 0, outcome.err
    assert "tokens/s of one user" in outcome.out.rpartition("tokens/s of one device")[2]
    assert outcome.out.count("•") > 6
    assert sweepdb("query pareto --plot --format csv", url).code == 2
    assert "\x1b[" not in outcome.out
    refused = sweepdb("query best --plot", url)
    assert refused.code == 2
    assert "no two axes of numbers" in refused.err


def test_operators_on_a_page_come_with_their_statement_their_command_and_their_picture(example_store):
    best = json.loads(sweepdb("query best --top 2 --format json", example_store).out)
    first, second = (one["probe"] for one in best)
    alone = explained_listing(parse_url(example_store), first)
    assert alone.command == f"sweepdb explain {first}"
    (row,) = json.loads(sweepdb(["sql", alone.sql, "--format", "json"], example_store).out)
    assert f"{row['scenario'][:8]}:{row['batch_size']}" == first
    typed = json.loads(sweepdb(f"explain {first} --top 1000 --format json", example_store).out)
    assert [dict(zip(alone.columns, row, strict=True)) for row in alone.rows] == typed
    both = explained_listing(parse_url(example_store), f"{first},{second}")
    assert {one["of"].partition(" ")[0] for one in both.picture["data"]["values"]} == {first, second}
    assert "difference_ms" in both.columns


def test_axes_name_the_limits_that_are_varied(url):
    with queries.open(url) as store:
        one = picture_of(store.sensitivity(vary="tpot"))
        two = picture_of(store.sensitivity(vary="memory,ttft"))
    assert "TPOT at most, ms" in json.dumps(one)
    titles = {axis: two["encoding"][axis]["title"] for axis in "xy"}
    assert titles == {"x": "memory kept free, GiB", "y": "TTFT at most, ms"}
    assert not re.search(r"\{(first|second)\}", json.dumps([one, two]))
