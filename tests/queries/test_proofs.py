"""A proof is of everything it shows: whatever is altered, in the proof, the answer or the store, is noticed."""

import copy
import csv
import io
import json
import sqlite3
from contextlib import closing

import pytest
from conftest_cli import sweepdb
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from generator import MODELS, PLANS
from queries_stores import mission_records, write_sweep

from queries.asking.options import Limits, ReportOptions
from queries.asking.question import Question
from queries.proofs import verify_proof
from queries.proofs.canonical import spelled
from queries.proofs.document import hash_of
from queries.session import open_session
from store.errors import SweepdbError
from store.location import parse_url

QUESTIONS = ("best --tpot-limits 60 --top 2", "pd-ratio --tpot-limits 60 --num-devices 8 --top 2")


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
    for name in UNSEEN:
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
    assert "are not those of the proof" in outcome.err


def test_voiding_is_noticed_and_growth_is_told(proven, stored, tmp_path):
    with (
        closing(sqlite3.connect(stored.removeprefix("sqlite:///"))) as original,
        closing(sqlite3.connect(tmp_path / "copy.sqlite")) as changed,
    ):
        original.backup(changed)
    url, document = f"sqlite:///{tmp_path}/copy.sqlite", proven[QUESTIONS[0]]
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:5]), key="b", sizes=20)
    assert "would look at 4 more scenarios" in verdict(document, url, tmp_path).err
    assert sweepdb(["void", document["scenarios"][0][0][:16], "--reason", "a mistake"], url).code == 0
    assert verdict(document, url, tmp_path).code == 3
