"""An import takes in what an evaluation stored, all of it or nothing, and believes nothing for being written down."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from bundle_forgery import lines, made_right, with_lines, with_rows
from client_files import OWN
from conftest_cli import sweepdb
from quick import quick

from evaluator.inputs import engine_profile
from evaluator.ledger import read_measurements
from evaluator.serving import keep_engine
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction
from store.records import PriceRecord, ValidationRecord
from store.upkeep import check_store
from store.writing import put_measurements, put_prices, put_validations

EVERYTHING = ("sweep", "scenario", "model", "device", "probe", "block", "operator_set", "calibration", "measurement")


@pytest.fixture(scope="module")
def exported(example_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "bundle"
    assert sweepdb(f"export {folder}", example_store).code == 0
    return folder


@pytest.fixture
def bundle(exported, tmp_path):
    """A copy to change."""
    return shutil.copytree(exported, tmp_path / "bundle")


def counts(url):
    with read_transaction(parse_url(url)) as transaction:
        return {table: next(transaction.values(int, f"SELECT COUNT(*) FROM {table}")) for table in EVERYTHING}


def scenario(key, change):
    """Change the first scenario of a phase or any; `key` names the field that a change is about."""

    def run(items):
        item = next(one for one in items if one["subject"]["phase"] == "aggregated" and one["status"] == "ok")
        change(item)

    return lambda folder: with_lines(folder, "scenarios", run)


def rows(statement):
    return lambda folder: with_rows(folder, statement)


def field(*path, value):
    def change(item):
        for name in path[:-1]:
            item = item[name]
        item[path[-1]] = value

    return scenario(path[-1], change)


def cheaper_operators(folder):
    """Half of the work of every operator: what a later evaluation would price."""

    def halve(items):
        for item in items:
            item["payload"] = re.sub(r"(\d{7,})", lambda found: str(int(found[1]) // 2), item["payload"])

    with_lines(folder, "operator_set", halve)


def in_sweeps(change):
    return lambda folder: with_lines(folder, "sweeps", lambda items: change(items[0]))


FORGERIES = {
    "a negative time": rows("UPDATE probes SET ttft_ms = -ttft_ms WHERE ttft_ms IS NOT NULL"),
    "negative memory": rows("UPDATE probes SET kv_cache_bytes = -1"),
    "NaN": rows("UPDATE probes SET e2e_ms = 'nan' WHERE phase = 'aggregated' AND batch_size = 1"),
    "infinity": rows("UPDATE probes SET e2e_ms = 'inf' WHERE phase = 'aggregated' AND batch_size = 1"),
    "text in a number's column": rows("ALTER TABLE probes ALTER ttft_ms TYPE VARCHAR USING 'fast'"),
    "another concurrency": rows("UPDATE probes SET concurrency = concurrency * 2"),
    "parts that do not add up": rows("UPDATE probes SET decode_step_memory_ms = 0 WHERE decode_step_memory_ms > 0"),
    "a first token after the last": rows("UPDATE probes SET e2e_ms = ttft_ms / 2 WHERE e2e_ms IS NOT NULL"),
    "a required number is missing": rows("UPDATE probes SET weight_bytes = NULL WHERE batch_size = 2"),
    "a gap": rows("DELETE FROM probes WHERE batch_size = 2"),
    "a row twice": rows("INSERT INTO probes SELECT * FROM probes WHERE batch_size = 2"),
    "rows of an unknown scenario": rows("UPDATE probes SET scenario = repeat('0', 64) WHERE batch_size = 1"),
    "tp 0": field("subject", "plan", "tp", value=0),
    "tp as text": field("subject", "plan", "tp", value="4"),
    "an unknown phase": field("subject", "phase", value="warmup"),
    "another phase under the same key": field("subject", "phase", value="decode"),
    "an unknown status": field("status", value="fine"),
    "other memory under the same key": field("device", "memory_bytes", value=1),
    "another bandwidth": field("device", "memory_bandwidth_bytes_per_s", value=1e15),
    "another device's name": field("subject", "device_name", value="H100_SXM"),
    "another key": field("key", value="0" * 64),
    "another version": field("formula_version", value=1),
    "other hyper-parameters": field("subject", "model", "parameters", value=1),
    "another format": field("subject", "precision", "linear_quantization", value="FP8"),
    "another length": field("subject", "workload", "input_length", value=1),
    "a spec of nothing": field("subject", "model", "spec", value="{}"),
    "a spec of something else": field("subject", "model", "spec", value='{"": "Precision", "linear": "BF16"}'),
    "a deep spec": field("device", "spec", value="[" * 100_000),
    "a list where text is expected": field("subject", "model", "name", value=["a"]),
    "a control character": field("subject", "model", "name", value="Qwen\x1b[2J"),
    "a huge integer": field("subject", "model", "parameters", value=10**40),
    "an unknown field": field("believed", value=True),
    "a sweep with a negative interval": in_sweeps(
        lambda item: item["intervals"].append([item["intervals"][0][0], 5, -5])
    ),
    "a sweep of unknown kind": in_sweeps(lambda item: item.update(kind="truth")),
    "a sweep without a time": in_sweeps(lambda item: item.update(started_at="yesterday")),
    "a sweep's label with a control character": in_sweeps(lambda item: item.update(label="\x07")),
    "cheaper operators": cheaper_operators,
    "a sweep of nothing known": in_sweeps(lambda item: item["intervals"].append(["1" * 64, 1, 2])),
}


@pytest.mark.parametrize(
    ("what", "into"),
    [(what, "no store" if number % 6 == 0 else "a store") for number, what in enumerate(FORGERIES)],
)
def test_a_forgery_is_refused_and_leaves_nothing(bundle, tmp_path, what, into):
    url = f"sqlite:///{tmp_path}/other.sqlite"
    if into == "a store":
        assert sweepdb("db init", url).code == 0
    FORGERIES[what](bundle)
    made_right(bundle)
    outcome = sweepdb(f"import {bundle}", url)
    assert outcome.code == 2, outcome.err
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 2, outcome.err  # one sentence, and what to do next
    if into == "no store" and not (tmp_path / "other.sqlite").exists():
        return
    assert set(counts(url).values()) == {0}


@pytest.mark.parametrize(
    "name", ["probes.parquet", "scenarios.jsonl", "blocks.jsonl", "load_blocks.jsonl", "price.jsonl", "bundle.json"]
)
def test_a_flipped_bit_is_found(bundle, tmp_path, name):
    raw = bytearray((bundle / name).read_bytes() or b"\n")
    # Meanings of columns, for people, are nothing that an import reads.
    place = raw.index(b'"sha256": "') + 15 if name == "bundle.json" else len(raw) // 3
    raw[place] ^= 1
    (bundle / name).write_bytes(raw)
    assert sweepdb(f"import {bundle}", f"sqlite:///{tmp_path}/other.sqlite").code == 2


def test_the_bundle_itself_is_taken_in_whole(exported, tmp_path):
    url = f"sqlite:///{tmp_path}/other.sqlite"
    outcome = sweepdb(f"import {exported}", url)
    assert outcome.code == 0, outcome.err
    assert check_store(parse_url(url)).faults == ()
    before = counts(url)
    assert before["probe"] == sum(
        item["last_batch_size"] - item["first_batch_size"] + 1 for item in lines(exported, "blocks")
    )
    assert sweepdb(f"import {exported}", url).code == 0
    assert counts(url) == before


def test_rows_that_are_here_with_other_numbers_are_named(bundle, example_copy):
    with_rows(bundle, "UPDATE probes SET makespan_ms = makespan_ms * 1.01 WHERE makespan_ms IS NOT NULL")
    made_right(bundle)
    before = counts(example_copy)
    outcome = sweepdb(f"import {bundle}", example_copy)
    assert outcome.code == 2
    assert "is stored here with other numbers" in outcome.err
    assert counts(example_copy) == before


def answered(question, url):
    """Rows of an answer but for when and under which number this store keeps them."""
    outcome = sweepdb(f"{question} --all --format csv", url)
    assert outcome.code == 0, outcome.err
    local = ("stored_at", "scenario_id", "block_id")
    rows = csv.DictReader(io.StringIO(outcome.out))
    return [{name: cell for name, cell in row.items() if not name.endswith(local)} for row in rows]


def with_everything(url, folder):
    """Give a store what stands beside rows: measured points, a comparison, a profile of an engine, a price."""
    measured = folder / "mine.csv"
    measured.write_text(OWN)
    points = read_measurements(measured).records
    with open_store(url) as store:
        put_measurements(store, points)
        with store.reading() as connection:
            key = connection.exec_driver_sql("SELECT key FROM scenario WHERE status = 'ok'").scalars().first()
        compared = ValidationRecord(
            measurement_key=points[0].key, metric="tpot_ms_mean", scenario_key=key, batch_size=2, measured=20.5,
            predicted=16.4, device="made up", knowledge="asked",
        )  # fmt: skip
        put_validations(store, [compared])
        keep_engine(store, engine_profile("vllm"), source="a test")
        priced = PriceRecord(
            device_name="TEST_DEVICE", effective_from="2026-01-01", usd_per_device_hour=2.5, watts_per_device=None
        )
        put_prices(store, [priced])


@pytest.mark.parametrize(
    ("kind", "format_"),
    quick(
        [("sqlite", "csv"), ("postgresql", "parquet"), ("sqlite", "parquet"), ("postgresql", "csv")],
        rest=pytest.mark.survival,
    ),
)
def test_what_travels_is_the_same_bit_for_bit(example_copy, tmp_path, request, kind, format_):
    first, second = f"{tmp_path}/first", f"{tmp_path}/second"
    with_everything(example_copy, tmp_path)
    url = request.getfixturevalue("postgresql_url") if kind == "postgresql" else f"sqlite:///{tmp_path}/other.sqlite"
    assert sweepdb(f"export {first} --format {format_}", example_copy).code == 0
    assert sweepdb(f"import {first}", url).code == 0
    assert sweepdb(f"export {second} --format {format_}", url).code == 0
    for name in ("operator_set", "calibration", "price", "measurement", "validation", "name"):
        assert lines(tmp_path / "first", name), name
    for name in ("scenarios", "blocks", "operator_set", "calibration", "price", "measurement", "validation", "name"):
        one, other = (sorted(map(str, lines(tmp_path / side, name))) for side in ("first", "second"))
        assert one == other, name
    questions = ("query best --ttft-limit 2000 --tpot-limit 50", "query pareto", "query pd-ratio --tpot-limit 50")
    for question in questions:
        assert answered(question, example_copy) == answered(question, url)
    best = sweepdb("query best --format jsonl --all", example_copy).out
    probe = json.loads(best.splitlines()[0])["probe"]
    explained = [sweepdb(f"explain {probe}", store) for store in (example_copy, url)]
    assert explained[0].code == explained[1].code == 0
    assert explained[0].out == explained[1].out


def test_a_store_whose_numbers_changed_is_not_exported(example_copy, tmp_path):
    with closing(sqlite3.connect(example_copy.removeprefix("sqlite:///"))) as connection:
        connection.execute("DROP TRIGGER probe_refuses_update")
        connection.execute("UPDATE probe SET weight_bytes = weight_bytes + 1")
        connection.commit()
    outcome = sweepdb(f"export {tmp_path}/bundle", example_copy)
    assert outcome.code == 3
    assert "not those that were committed" in outcome.err
    assert not (tmp_path / "bundle").exists()
    assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".tmp")] == []


def test_operators_of_another_scenario_stay_out(bundle, tmp_path):
    """A later evaluation would find them under its key."""
    url = f"sqlite:///{tmp_path}/other.sqlite"
    genuine = len(lines(bundle, "operator_set"))
    with_lines(bundle, "operator_set", lambda items: items.append({**items[0], "key": "0" * 64}))
    made_right(bundle)
    assert sweepdb(f"import {bundle}", url).code == 0
    assert counts(url)["operator_set"] == genuine


def test_a_measured_point_with_other_values_is_another_point(example_copy, tmp_path):
    """Whoever changes a figure of a point cannot have it stand for the point that was measured."""
    with_everything(example_copy, tmp_path)
    own, url = tmp_path / "own", f"sqlite:///{tmp_path}/other.sqlite"
    assert sweepdb(f"export {own}", example_copy).code == 0
    genuine = {item["key"] for item in lines(own, "measurement")}

    def faster(items):
        for item in items:
            item["metrics"] = json.dumps(dict.fromkeys(json.loads(item["metrics"]), 1.5))

    with_lines(own, "measurement", faster)
    made_right(own)
    assert sweepdb(f"import {own}", url).code == 0
    with read_transaction(parse_url(url)) as transaction:
        taken = set(transaction.values(str, "SELECT key FROM measurement"))
    assert len(taken) == len(genuine)
    assert not taken & genuine
