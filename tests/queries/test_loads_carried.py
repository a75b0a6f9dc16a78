"""Loads go into bundles and out of them unchanged, and proofs of answers about them verify; what was altered is noticed."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from conftest_cli import sweepdb
from conftest_loads import evaluate_loads

import sweepdb as package
from store.errors import InputError
from store.loads import KeptRequests, kept_digest, pack_kept, unpack_kept
from store.loads.measured_requests import KEPT_COLUMNS
from store.location import parse_url
from store.opening import open_store
from store.reading import read_transaction, stored_loads
from store.upkeep import check_store
from sweepdb.sharing import export_bundle, import_bundle

QUESTION = "goodput --ttft-limit 200 --tpot-limit 8"
PAIR = "goodput --mode pd --num-devices 4 --ttft-limit 700 --tpot-limit 8"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('carried')}/store.sqlite"
    evaluate_loads(url, requests=1_000, rates=(2.0, 10.0, 40.0, 90.0))
    evaluate_loads(url, requests=1_000, rates=(20.0, 90.0), mode="aggregated", arrivals="gamma:2", reject_ttft=400.0,
                   keep_requests=True)  # fmt: skip
    return url


@pytest.fixture
def bundle(stored, tmp_path):
    export_bundle(tmp_path / "bundle", store=stored)
    return tmp_path / "bundle"


def held(url):
    """Every load with what it is of, without what is of one store."""
    with read_transaction(parse_url(url)) as transaction:
        return sorted(
            (block.scenario, block.arrival, block.settings, sorted(map(repr, block.loads)), block.digest)
            for block in stored_loads(transaction)
        )


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_bundle_brings_every_load_over_once(stored, tmp_path, kind):
    exported = export_bundle(tmp_path / "bundle", store=stored, format=kind)
    copy = f"sqlite:///{tmp_path}/copy.sqlite"
    assert import_bundle(tmp_path / "bundle", store=copy).loads == exported.loads == 4 * 3 + 2
    assert import_bundle(tmp_path / "bundle", store=copy).loads == 0
    assert held(copy) == held(stored)
    assert check_store(parse_url(copy)).faults == ()
    for asked in (QUESTION, PAIR):
        first, second = (json.loads(sweepdb(f"query {asked} --all --format json", url).out) for url in (stored, copy))
        assert first == second != []


def test_one_sweep_takes_its_scenarios_loads_along(stored, tmp_path):
    with package.open(stored) as opened:
        (newest,) = (row["key"] for row in opened.sql("SELECT key FROM sweep ORDER BY id DESC LIMIT 1").dicts())
    summary = export_bundle(tmp_path / "one", store=stored, sweep=newest)
    assert summary.loads == 4 + 2  # of the aggregated scenario, under both streams


def altered(bundle, change):
    """A bundle whose forger made its hash right again."""
    path = bundle / "load_blocks.jsonl"
    items = [json.loads(line) for line in path.read_text().splitlines()]
    change(items)
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    told = json.loads((bundle / "bundle.json").read_text())
    told["contents"][path.name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (bundle / "bundle.json").write_text(json.dumps(told))


def rate(items):
    items[0]["loads"][0]["arrivals_per_s"] *= 2


def cells(items):
    items[0]["loads"][0]["cells"] = items[0]["loads"][1]["cells"]


def no_bytes(items):
    items[0]["loads"][0]["cells"] = base64.b64encode(b"none").decode()


def odd(items):
    items[0]["loads"][0]["hit"] = 1


def text(items):
    items[0]["loads"][0]["rejected"] = "0"


def less(items):
    items[0]["loads"].pop()


def stranger(items):
    items[0]["scenario"] = "f" * 64


def requests(items):
    first, second = (load for item in items for load in item["loads"] if "requests" in load)
    first["requests"] = second["requests"]


def fewer_requests(items):
    load = next(load for item in items for load in item["loads"] if "requests" in load)
    kept = unpack_kept(base64.b64decode(load["requests"]))
    packed = pack_kept(KeptRequests(**{name: getattr(kept, name)[1:] for name in KEPT_COLUMNS}))
    load |= {"requests": base64.b64encode(packed).decode(), "requests_digest": kept_digest(load["key"], packed)}


def stream(items):
    items[0]["arrival"]["seed"] = 7


@pytest.mark.parametrize("change", [rate, cells, no_bytes, odd, text, less, requests, fewer_requests, stranger, stream])
def test_altered_loads_are_refused_whole(bundle, tmp_path, change):
    altered(bundle, change)
    copy = f"sqlite:///{tmp_path}/copy.sqlite"
    with pytest.raises(InputError):
        import_bundle(bundle, store=copy)
    with open_store(copy, create=True) as opened, read_transaction(opened.location) as transaction:
        assert next(transaction.values(int, "SELECT COUNT(*) FROM load")) == 0


def test_a_changed_load_is_not_exported(stored, tmp_path):
    import shutil
    import sqlite3

    copy = tmp_path / "store.sqlite"
    shutil.copy(parse_url(stored).path, copy)
    with sqlite3.connect(copy) as connection:
        connection.execute("DROP TRIGGER load_refuses_update")
        connection.execute("UPDATE load SET in_flight = in_flight + 1 WHERE id = 1")
    outcome = sweepdb(f"export {tmp_path / 'bundle'}", f"sqlite:///{copy}")
    assert outcome.code == 3
    assert "are not those that were committed" in outcome.err
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("asked", [QUESTION, PAIR, "capacity --rate 50 --ttft-limit 700 --tpot-limit 8",
                                   "best --by goodput --tpot-limit 8"])  # fmt: skip
def test_a_proof_of_goodput_verifies_here_and_in_a_copy(stored, bundle, tmp_path, asked):
    proof, copy = tmp_path / "proof.json", f"sqlite:///{tmp_path}/copy.sqlite"
    assert sweepdb(f"query {asked} --all --proof {proof}", stored).code == 0
    import_bundle(bundle, store=copy)
    for url in (stored, copy):
        outcome = sweepdb(f"verify {proof}", url)
        assert outcome.code == 0, outcome.err
        assert "loads looked at" in outcome.err
    with open_store(copy) as opened, opened.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER load_cell_refuses_update")
        connection.exec_driver_sql(
            "UPDATE load_cell SET cells = (SELECT cells FROM load_cell WHERE load_id = 2) WHERE load_id = 3"
        )
    outcome = sweepdb(f"verify {proof}", copy)
    assert outcome.code == 3
    assert "are not those of the proof" in outcome.err.replace("\n", " ")
