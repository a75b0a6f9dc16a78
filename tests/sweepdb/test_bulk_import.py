"""Large imports go to the database in columns: the same rows as one point after another."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.canonical import content_key
from evaluator.ledger.readers import read_measurements, rows
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.schema.sql_tables import MEASUREMENT
from store.writing import PointTable, point_table, put_measurements
from store.writing.point_rows import SELECT_POINTS
from store.writing.point_table import in_order_of_keys
from sweepdb.measuring import import_measurements
from tests.examples import examples

SOMETIMES = {  # columns that a table may have, and what a line may say there
    "engine": ("vllm", "sglang", ""), "engine_version": ("0.8", "'0.10", ""), "precision": ("fp8", "bf16", "null"),
    "tp": ("1", "8", "0", ""), "prefill_tp": ("2", ""), "decode_batch_size": ("16", ""), "mode": ("disaggregated", ""),
    "concurrency": ("1", "1.5", "64", ""), "request_rate": ("0.25", ""), "tags": ("nightly,b", "b,a", ""),
    "measured_at": ("2026-02-03", "2026-02-03T04:05:06+01:00", ""), "failed_requests": ("3", ""),
    "completed_requests": ("200", "1"), "id": ("a1", "ä"), "note": ("{x}", "{}", 'says "so"', "\u2028", ""),
    "ttft_ms_p99": ("900", "1e3", ""), "itl_ms_std": ("2.5", "-"), "requests_per_s": ("0.001", ""),
}  # fmt: skip
LINES = 300  # of which more can be read than go one by one


def a_table(path, draws):
    columns = sorted(draws.sample(sorted(SOMETIMES), draws.randrange(len(SOMETIMES) + 1)))
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["model", "device", "input_length", "output_length", "ttft_ms", *columns])
        for _ in range(LINES):
            fixed = [draws.choice(("Qwen/Qwen3-8B", "own {model}")), "h100_sxm", 1024, 128, draws.uniform(300, 400)]
            lines.writerow([*fixed, *(draws.choice(SOMETIMES[name]) for name in columns)])
    return path


def stored(url):
    with open_store(url) as store, store.reading() as connection:
        rows = connection.execute(SELECT_POINTS.order_by(MEASUREMENT.c.key)).mappings()
        return [{name: row[name] for name in row if name not in {"id", "imported_at"}} for row in rows]


BROKEN = (  # cells that make a line a problem, or another point than it seems
    "", "x", "nan", "inf", "-1", "0", "1e400", "1e17", "9007199254740993", "4.0", " 5 ", "1_0", "'=7", "'7", "0.01", "4e5",
    "\udce4", "\x00", "a\nb", "a\rb", 'a"b', "2026-02-03", "next week", "\u2028", "-", "n/a", "h100_sxm", "true",
)  # fmt: skip
COLUMNS = ("model", "device", "input_length", "output_length", "ttft_ms", "tpot_exclusive_ms", "e2e_ms_mean", "concurrency",
           "requests_per_s", "output_tokens_per_s", "measured_at", "completed_requests", "id", "note")  # fmt: skip
USUAL = (
    "Qwen/Qwen3-8B",
    "h100_sxm",
    "1024",
    "128",
    "95.5",
    "8",
    "1111.5",
    "16",
    "14.3",
    "1830",
    "2026-02-03",
    "99",
    "a",
    "n",
)


@st.composite
def lines(draw):
    """A line that is as usual but for a few cells, or has a cell too many or too few."""
    cells = list(USUAL)
    for place in draw(st.lists(st.integers(0, len(cells) - 1), max_size=3)):
        cells[place] = draw(st.sampled_from(BROKEN))
    return draw(st.sampled_from((cells, cells, cells, cells, cells[:-1], [*cells, "1"], [])))


def read(path, monkeypatch, *, least, at_once):
    monkeypatch.setattr(rows, "LARGE_CHARACTERS", least)
    monkeypatch.setattr(rows, "LINES_AT_ONCE", at_once)
    monkeypatch.setattr(rows, "CHARACTERS_AT_ONCE", 40 * at_once)
    return read_measurements(path)


WRITTEN = st.fixed_dictionaries({
    "ends": st.sampled_from(("\n", "\r\n", "\r")), "quoted": st.booleans(), "at_once": st.integers(1, 50),
    "more": st.sampled_from(("", '"', "x" * 140_000)),  # a quote that nobody closes, a cell that no reader takes
})  # fmt: skip


@given(table=st.lists(lines(), max_size=40), how=WRITTEN)
@settings(max_examples=examples(150), deadline=None)
def test_lines_by_columns_are_the_points_and_problems_that_they_are_one_by_one(tmp_path_factory, table, how):
    path = tmp_path_factory.mktemp("tables") / "runs.csv"
    quoting = csv.QUOTE_MINIMAL if how["quoted"] else csv.QUOTE_NONE
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file, lineterminator=how["ends"], quoting=quoting, escapechar="\\")
        writer.writerows([COLUMNS, *table])
        file.write(how["more"])
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            apart = read(path, monkeypatch, least=1 << 40, at_once=7)
        except InputError as refused:
            with pytest.raises(InputError, match=re.escape(refused.message)):
                read(path, monkeypatch, least=-1, at_once=how["at_once"])
            return
        together = read(path, monkeypatch, least=-1, at_once=how["at_once"])
    assert [*together.records] == [*apart.records]
    assert (together.problems, together.whole, together.files) == (apart.problems, apart.whole, apart.files)


def test_a_large_table_is_read_by_columns_and_a_column_twice_is_not(tmp_path):
    line = ",".join(USUAL)
    path = tmp_path / "runs.csv"
    path.write_text("\n".join([",".join(COLUMNS), *[line] * 14_000]), encoding="utf-8")
    found = read_measurements(path)
    assert isinstance(found.records, PointTable)
    assert len(found.records) == 14_000
    assert len(found.records.shared) == 1  # every line says the same
    path.write_text("\n".join([f"{','.join(COLUMNS)},ttft_ms_mean", *[f"{line},1"] * 14_000]), encoding="utf-8")
    assert not isinstance(read_measurements(path).records, PointTable)  # ttft_ms is a mean, too


@pytest.mark.parametrize("by_columns", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_stored_as_its_lines_are_one_by_one(tmp_path, monkeypatch, seed, by_columns):
    path = a_table(tmp_path / "runs.csv", random.Random(seed))
    monkeypatch.setattr(rows, "LARGE_CHARACTERS", -1 if by_columns else 1 << 40)
    together, apart = (f"sqlite:///{tmp_path / name}.db" for name in ("together", "apart"))
    records = {one.key: one for one in reversed(read_measurements(path).records)}  # of equal lines the first counts
    assert len(records) > 100, "few enough to go one by one"
    assert import_measurements([path], together).added == len(records)
    create_if_missing(parse_url(apart))
    with open_store(apart) as store:
        for record in records.values():
            tags = record.run.tags and ",".join(sorted(record.run.tags.split(",")))
            put_measurements(store, [replace(record, run=replace(record.run, tags=tags))])
    assert stored(together) == stored(apart)
    assert import_measurements([path], together).added == 0
    assert stored(together) == stored(apart)


@pytest.mark.parametrize("least", [1, 10_000])
def test_points_go_into_the_table_in_the_order_of_their_keys(monkeypatch, least):
    monkeypatch.setattr(point_table, "_MANY", least)
    keys = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(500)]
    places = {key: 3 * place for place, key in enumerate(keys)}
    assert in_order_of_keys(places) == [places[key] for key in sorted(keys)]


@pytest.mark.parametrize("seed", range(4))
def test_the_key_of_a_line_is_the_content_key_of_what_it_says(tmp_path, seed):
    read = read_measurements(a_table(tmp_path / "runs.csv", random.Random(seed)))
    for record in read.records:
        said = {name: value for name, value in json.loads(record.extra).items() if name != "circumstances"}
        extra = json.dumps(said, sort_keys=True, ensure_ascii=False)
        at = record.measured_at and record.measured_at.isoformat()
        assert record.key == content_key(replace(record, key="", source="", extra=extra, measured_at=at))
