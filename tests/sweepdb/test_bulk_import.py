"""Large imports go to the database in columns: the same rows as one point after another."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace

import pytest
from sqlalchemy import select

from evaluator.canonical import content_key
from evaluator.ledger.readers import read_measurements
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import open_store
from store.schema.sql_tables import MEASUREMENT
from store.writing import put_measurements
from sweepdb.measuring import import_measurements

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
    kept = [column for column in MEASUREMENT.c if column.name not in {"id", "imported_at"}]
    with open_store(url) as store, store.reading() as connection:
        return [tuple(row) for row in connection.execute(select(*kept).order_by(MEASUREMENT.c.key))]


@pytest.mark.parametrize("seed", range(4))
def test_a_table_is_stored_as_its_lines_are_one_by_one(tmp_path, seed):
    path = a_table(tmp_path / "runs.csv", random.Random(seed))
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


@pytest.mark.parametrize("seed", range(4))
def test_the_key_of_a_line_is_the_content_key_of_what_it_says(tmp_path, seed):
    read = read_measurements(a_table(tmp_path / "runs.csv", random.Random(seed)))
    for record in read.records:
        said = {name: value for name, value in json.loads(record.extra).items() if name != "circumstances"}
        extra = json.dumps(said, sort_keys=True, ensure_ascii=False)
        at = record.measured_at and record.measured_at.isoformat()
        assert record.key == content_key(replace(record, key="", source="", extra=extra, measured_at=at))
