"""A proof is of everything it shows: whatever is altered, in the proof, the answer or the store, is noticed."""

import copy
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from generator import MODELS, PLANS, put, sweep_record
from queries_stores import mission_records, write_sweep

from queries.proofs.document import hash_of, sealed, spelled
from store.opening import open_store
from store.writing import begin_sweep, finish_sweep, put_scenarios

QUESTIONS = ("best --tpot-limit 60 --top 2", "pd-ratio --tpot-limit 60 --num-devices 8 --top 2")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('proofs')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:4]), key="a", sizes=20)
    return url


@pytest.fixture(scope="module")
def proven(stored, tmp_path_factory):
    """A proof by question, as it was written."""
    folder, made = tmp_path_factory.mktemp("written"), {}
    for number, question in enumerate(QUESTIONS):
        path = folder / f"{number}.json"
        outcome = sweepdb(f"query {question} --proof {path}", stored)
        assert outcome.code == 0, outcome.err
        made[question] = json.loads(path.read_text())
    return made


def verdict(document, url, tmp_path, more=""):
    path = tmp_path / "altered.json"
    path.write_text(spelled(document))
    return sweepdb(f"verify {path} {more}", url)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_proof_itself_holds(proven, stored, tmp_path, question):
    outcome = verdict(proven[question], stored, tmp_path)
    assert outcome.code == 0, outcome.err
    assert outcome.err.startswith("verified: ")
    assert "more scenarios" not in outcome.err


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "another"):
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(pem)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / f"{name}.pub").write_bytes(public)
    return folder


def test_a_signature_tells_who_wrote_a_proof(stored, tmp_path, keys):
    path = tmp_path / "proof.json"
    assert sweepdb(f"query {QUESTIONS[0]} --proof {path} --sign {keys}/mine.pem", stored).code == 0
    assert "signed with the key of" in sweepdb(f"verify {path} --signed-by {keys}/mine.pub", stored).err
    assert sweepdb(f"verify {path} --signed-by {keys}/another.pub", stored).code == 2
    document = json.loads(path.read_text())
    for name in ("program_version", "store", "scope", "sql"):
        changed = {**document, name: document[name][:-1]}
        changed["sha256"] = hash_of(changed)
        assert verdict(changed, stored, tmp_path, f"--signed-by {keys}/mine.pub").code == 2
    del document["signature"]
    assert "is not signed" in verdict(document, stored, tmp_path, f"--signed-by {keys}/mine.pub").err
    for wrong in (f"{keys}/mine.pub", f"{keys}/none.pem", str(path)):
        outcome = sweepdb(f"query best --proof {tmp_path}/other.json --sign {wrong}", stored)
        assert outcome.code == 2
        assert not (tmp_path / "other.json").exists()


@pytest.mark.parametrize("format_", ["csv", "json", "jsonl", "json-full", "parquet"])
def test_an_answer_that_was_kept_is_compared_cell_by_cell(proven, stored, tmp_path, format_):
    proof, kept = tmp_path / "proof.json", tmp_path / "answer"
    proof.write_text(spelled(proven[QUESTIONS[0]]))
    assert sweepdb(f"query {QUESTIONS[0]} --format {format_} --output {kept}", stored).code == 0
    outcome = sweepdb(f"verify {proof} {kept}", stored)
    assert outcome.code == 0, outcome.err
    assert "is the answer" in outcome.err


LOSING = "batch_size = 7"  # of no best row
STORES = {
    "a losing row altered": f"UPDATE probe SET e2e_ms = e2e_ms * 1.0000001 WHERE {LOSING} AND e2e_ms IS NOT NULL",
    "a winning row altered": "UPDATE probe SET weight_bytes = weight_bytes + 1",
    "a losing row deleted": f"DELETE FROM probe WHERE {LOSING}",
    "a block deleted": "DELETE FROM probe WHERE scenario_id = (SELECT MIN(scenario_id) FROM probe)",
    "rows renumbered": "UPDATE probe SET batch_size = batch_size + 1000 WHERE batch_size = 20",
}


@pytest.mark.parametrize("what", STORES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_altered_behind_an_intact_snapshot_are_noticed(proven, stored, tmp_path, what, question):
    with (
        closing(sqlite3.connect(stored.removeprefix("sqlite:///"))) as original,
        closing(sqlite3.connect(tmp_path / "copy.sqlite")) as changed,
    ):
        original.backup(changed)
        for (name,) in changed.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            changed.execute(f"DROP TRIGGER {name}")
        assert changed.execute(STORES[what]).rowcount > 0
        changed.commit()
    outcome = verdict(proven[question], f"sqlite:///{tmp_path}/copy.sqlite", tmp_path)
    assert outcome.code == 3, outcome.err
    assert re.search("are not those (of the proof|that were committed)", outcome.err)


def copy_of(stored, folder):
    with (
        closing(sqlite3.connect(stored.removeprefix("sqlite:///"))) as original,
        closing(sqlite3.connect(folder / "copy.sqlite")) as changed,
    ):
        original.backup(changed)
    return f"sqlite:///{folder}/copy.sqlite"


def larger_batches(url):
    """Batch sizes that no scenario has yet, of every scenario."""
    records = mission_records(models=(MODELS[4],), plans=PLANS[:4])
    with open_store(url) as store:
        sweep_id = begin_sweep(store, sweep_record(key="c" * 32))
        for record, ref in zip(records, put_scenarios(store, sweep_id, records), strict=True):
            put(store, sweep_id, record, ref, first=21, last=24)
        finish_sweep(store, sweep_id, "finished")


GROWTH = {  # without a filter, a question is about the newest request
    "plans": lambda url: write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:5]), key="b", sizes=20),
    "larger batches": larger_batches,
    "another model": lambda url: write_sweep(url, mission_records(models=(MODELS[6],)), key="b", sizes=3),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("what", GROWTH)
def test_a_proof_holds_when_its_store_has_grown(proven, stored, tmp_path, what, question):
    url, document = copy_of(stored, tmp_path), proven[question]
    GROWTH[what](url)
    outcome = verdict(document, url, tmp_path)
    assert outcome.code == 0, outcome.err
    assert sweepdb(f"query {question} --proof {tmp_path}/now.json", url).code == 0
    now = json.loads((tmp_path / "now.json").read_text())
    more = len({key for key, *_ in now["scenarios"]} - {key for key, *_ in document["scenarios"]})
    assert (more == 0) == (what == "larger batches")
    assert (f"would look at {more:,} more scenarios of this store, stored since" in outcome.err) == (more > 0)


def test_on_either_database_growth_is_told_from_rows_left_out(store_url, tmp_path):
    records = mission_records(models=(MODELS[4],), plans=PLANS[:2])
    write_sweep(store_url, records[:-2], key="a", sizes=4)
    assert sweepdb(f"query best --proof {tmp_path}/proof.json", store_url).code == 0
    write_sweep(store_url, records, key="b", sizes=6)
    document = json.loads((tmp_path / "proof.json").read_text())
    outcome = verdict(document, store_url, tmp_path)
    assert outcome.code == 0, outcome.err
    assert "would look at 2 more scenarios of this store, stored since" in outcome.err
    document["scenarios"].pop()
    assert "it leaves out scenario" in verdict(sealed(document), store_url, tmp_path).err


@pytest.mark.parametrize("what", [None, *GROWTH])
def test_what_was_stored_before_a_proof_and_is_not_in_it_is_no_growth(proven, stored, tmp_path, what):
    """A losing scenario taken out, with all that counts and names it made to fit, in a store that has grown or not."""
    url = copy_of(stored, tmp_path)
    if what is not None:
        GROWTH[what](url)
    document = copy.deepcopy(proven[QUESTIONS[0]])
    winners = {probe[:8] for probes, _ in document["rows"] for probe in probes}
    losing = next(item for item in document["scenarios"] if item[0][:8] not in winners)
    document["scenarios"].remove(losing)
    document["scenarios_considered"] -= 1
    document["probes_considered"] -= 20
    outcome = verdict(sealed(document), url, tmp_path)
    assert outcome.code == 3, outcome.err
    assert f"it leaves out scenario {losing[0][:12]}" in outcome.err
    for forge in (lambda item: [*item[:2], 7, *item[3:]], lambda item: [*item[:3], 5, item[4]]):  # batch sizes, groups
        also = {**document, "scenarios": [*map(forge, document["scenarios"])]}
        assert "it leaves out scenario" in verdict(sealed(also), url, tmp_path).err


def test_voiding_is_noticed(proven, stored, tmp_path):
    url, document = copy_of(stored, tmp_path), proven[QUESTIONS[0]]
    assert sweepdb(["void", document["scenarios"][0][0][:16], "--reason", "a mistake"], url).code == 0
    outcome = verdict(document, url, tmp_path)
    assert outcome.code == 3
    assert f"its question does not look at scenario {document['scenarios'][0][0][:12]} that it lists" in outcome.err


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Another store, which holds the same rows among others."""
    url = f"sqlite:///{tmp_path_factory.mktemp('elsewhere')}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[6], MODELS[4]), plans=PLANS[:5]), key="e", sizes=20)
    return url


FORGED = {  # what another store notices, and the words for it
    "a title": (lambda one: one["scope"].__setitem__(0, "deepseek-ai/DeepSeek-V3"), "its scope says"),
    "a filter by model": (lambda one: one["question"]["scope"].update(models=[MODELS[6][0]]), "nothing stored matches"),
    "a filter by device": (lambda one: one["question"]["scope"].update(devices=["H200_SXM"]), "does not look at"),
    "a scenario twice": (lambda one: one["scenarios"].append(one["scenarios"][0]), "twice"),
    "groups": (lambda one: one["scenarios"][0].__setitem__(3, 1), "other groups or batch sizes"),
    "batch sizes": (lambda one: one["scenarios"][0].__setitem__(2, 7), "other groups or batch sizes"),
    "an extra key": (lambda one: one["versions"].update(extra=1), "versions extra"),
    "a version": (lambda one: one["versions"].update(formula_version=[1]), "versions formula_version"),
    "the SQL": (lambda one: one.update(sql="SELECT 1"), "sql was 'SELECT 1'"),
}


@pytest.mark.parametrize("what", FORGED)
def test_another_store_notices_what_its_rows_tell(proven, elsewhere, tmp_path, what):
    document = copy.deepcopy(proven[QUESTIONS[0]])
    forge, words = FORGED[what]
    forge(document)
    outcome = verdict(sealed(document), elsewhere, tmp_path)
    assert outcome.code in {2, 3}, outcome.err
    assert words in outcome.err


@pytest.mark.parametrize("question", QUESTIONS)
def test_another_store_says_what_it_cannot_tell(proven, stored, elsewhere, tmp_path, question):
    document = proven[question]
    outcome = verdict(document, elsewhere, tmp_path)
    assert outcome.code == 0, outcome.err
    assert f"of another store ({document['store'][:12]})" in outcome.err
    forged = sealed({**document, "store": "0" * 32})
    assert "of another store (000000000000)" in verdict(forged, stored, tmp_path).err


def test_sql_of_another_program_is_never_said_to_answer_the_same(proven, stored, tmp_path):
    document = {**proven[QUESTIONS[0]], "sql": "SELECT 1"}
    assert "sql was 'SELECT 1'" in verdict(sealed(document), stored, tmp_path).err
    outcome = verdict(sealed({**document, "program_version": "0.0.9"}), stored, tmp_path)
    assert outcome.code == 0
    assert "written by sweepdb 0.0.9" in outcome.err
    assert "its SQL was not run" in outcome.err
    assert "same" not in outcome.err


@pytest.mark.parametrize("before", [2, 3, 4, 5, 6])
def test_a_proof_of_an_older_format_says_how_to_make_a_new_one(stored, before):
    outcome = sweepdb(f"verify {Path(__file__).parents[1]}/written/proof_{before}.json", stored)
    assert outcome.code == 2
    assert f"is a proof of format {before}, this program reads 7" in outcome.err
    assert "sweepdb query best ... --proof FILE" in outcome.err
