"""Whatever is altered in a proof is noticed, though its hash was made right again: every place of it, in turn.

What is no lie is not noticed, and stands in `NO_LIE` with its reason."""

import json
import shutil
from collections import Counter
from itertools import islice

import pytest
from altered_documents import alterations, places, with_a_key_twice
from conftest_cli import sweepdb
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from examples import examples
from generator import MODELS, PLANS
from hypothesis import given, settings
from hypothesis import strategies as st
from queries_stores import mission_records, write_sweep

from queries.proofs import verify_proof, verifying, write_proof
from queries.proofs.document import question_from, sealed, spelled
from queries.session import Session
from store.errors import SweepdbError
from store.location import parse_url

# Places that may be altered without a word, since what the proof then says is true.
NO_LIE = {
    "question": "the proof is then, byte for byte, that of another question, which has the same answer",
    "moment": "the proof is then, byte for byte, that of an earlier moment, at which the answer was the same",
    "signature": "only the public key tells whose it is: with `--signed-by` it is noticed",
}
QUESTIONS = (
    "best --tpot-limit 60 --top 2",
    "pd-ratio --tpot-limit 60 --num-devices 8 --top 2",
    "best --tpot-limit 1e-9",
)
INPUTS = ("question", "scenarios", "moment", "store")  # what asking again depends on


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("altered")


@pytest.fixture(scope="module")
def location(folder):
    url = f"sqlite:///{folder}/store.sqlite"
    write_sweep(url, mission_records(models=(MODELS[4],), plans=PLANS[:2]), key="a", sizes=4)
    return parse_url(url)


@pytest.fixture(scope="module")
def keys(folder):
    key = Ed25519PrivateKey.generate()
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pub").write_bytes(public)
    return folder / "key.pem", folder / "key.pub"


@pytest.fixture(scope="module")
def proven(folder, location, keys):
    """Signed proofs as they were written, and what is said of them."""
    made = {}
    for number, question in enumerate(QUESTIONS):
        path = folder / f"{number}.json"
        outcome = sweepdb(f"query {question} --proof {path} --sign {keys[0]}", str(location.path))
        assert outcome.code == 0, outcome.err
        made[question] = json.loads(path.read_text()), unhashed(verify_proof(path, location))
    return made


def unhashed(outcome):
    """What is said of a proof, but for its hash, which a forger makes right."""
    first, _, hashed = outcome.partition(", hash ")
    return first, hashed[12:]


def forged(document):
    """The text of a document with its hash made right."""
    return spelled(sealed(document) if isinstance(document, dict) and "sha256" in document else document)


def said_of(text, location, path, **more):
    """The error or the outcome of verifying a text."""
    path.write_text(text)
    try:
        return unhashed(verify_proof(path, location, **more))
    except SweepdbError as caught:
        error = caught
    assert error.exit_code in {2, 3}, error
    assert "\n" not in error.message
    return error


def would_be_written(document, location, path):
    """The proof of a document's question as it would be written today, but for its signature."""
    with Session(location) as session:
        answer = session.ask(question_from(document["question"]))
        write_proof(answer, path, location, session.pinned())
    return {**json.loads(path.read_text()), "signature": document.get("signature")}


def noticed_or_true(changed, what, base, location, path):
    """Noticed, or no lie; returns which."""
    document, genuine = base
    text = forged(changed)
    assert text != spelled(document), what
    if said_of(text, location, path) != genuine:
        return "noticed"
    allowed = what[0][0]
    assert allowed in NO_LIE, what
    if allowed == "question":
        assert spelled(would_be_written(changed, location, path)) == text, what
    return allowed


@pytest.fixture
def asked_once(proven, monkeypatch):
    """Asking again gives what it gave for the same question, scenarios, moment and store: each is asked once."""
    kept, real = {}, verifying.asked_again

    def asked_again(location, proof):
        key = spelled({name: proof.document.get(name) for name in (*INPUTS, "scope")})
        if proof.document["store"] == proven[QUESTIONS[0]][0]["store"]:
            key = spelled({name: proof.document.get(name) for name in INPUTS})
        if key not in kept:
            kept[key] = real(location, proof)
        return kept[key]

    monkeypatch.setattr(verifying, "asked_again", asked_again)


def walked(document, *, every):
    """Every alteration at every place, and one of each kind of place among the many of a list."""
    for path in places(document, every=every):
        if path != ("sha256",):  # it is made right
            for done, changed in alterations(document, path):
                yield (path, done), changed


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.usefixtures("asked_once")
def test_whatever_is_altered_in_a_proof_is_noticed(proven, location, folder, question, every):
    document = proven[question][0]
    found, asked = Counter(), 0
    step = 1 if every or question == QUESTIONS[0] else 7
    for what, changed in islice(walked(document, every=every), 0, None, step):
        if what[0][:1] == ("question",) and " for " in what[1]:  # most are asked anew
            asked += 1
            if not every and asked % 50:
                continue
        found[noticed_or_true(changed, what, proven[question], location, folder / "altered.json")] += 1
    assert found["noticed"] > (1000 if every else 300 // step)
    assert set(found) <= {"noticed", *NO_LIE}


@settings(max_examples=examples(24), deadline=None)
@given(data=st.data())
def test_an_alteration_is_noticed_by_who_asks_anew(proven, location, folder, data):
    question = data.draw(st.sampled_from(QUESTIONS))
    document = proven[question][0]
    path = data.draw(st.sampled_from([place for place in places(document) if place != ("sha256",)]))
    done, changed = data.draw(st.sampled_from([*alterations(document, path)]))
    noticed_or_true(changed, (path or ("",), done), proven[question], location, folder / "drawn.json")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_key_twice_or_another_spelling_is_refused_signed_or_not(proven, location, folder, keys, question):
    text = spelled(proven[question][0])
    found = [(key, other) for key, other in with_a_key_twice(text) if key]
    found += [("a space", f"{text} "), ("one line", json.dumps(json.loads(text))), ("no end", text.removesuffix("\n"))]
    found += [("another order", json.dumps(dict(reversed(json.loads(text).items())), indent=1) + "\n")]
    found += [("an escape", text.replace('"rows"', '"\\u0072ows"')), ("CRLF", text.replace("\n", "\r\n"))]
    assert len(found) > 150
    for what, other in found:
        (folder / "twice.json").write_bytes(other.encode())
        for public in (None, keys[1]):
            with pytest.raises(SweepdbError) as caught:
                verify_proof(folder / "twice.json", location, public_file=public)
            assert caught.value.exit_code == 2, what


@pytest.mark.usefixtures("asked_once")
def test_under_a_signature_nothing_at_all_may_change(proven, location, folder, keys):
    document = proven[QUESTIONS[0]][0]
    count = 0
    for what, changed in walked(document, every=False):
        error = said_of(forged(changed), location, folder / "signed.json", public_file=keys[1])
        assert isinstance(error, SweepdbError), what
        assert error.exit_code == 2, what
        count += 1
    assert count > 400


def test_a_moment_may_be_moved_to_where_the_proof_would_have_been_the_same(location, folder):
    grown = f"sqlite:///{folder}/grown.sqlite"
    shutil.copy(location.path, folder / "grown.sqlite")
    question = "best --model llama-3.1-8b --tpot-limit 60"
    assert sweepdb(f"query {question} --all --proof {folder}/before.json", grown).code == 0
    before = json.loads((folder / "before.json").read_text())
    write_sweep(grown, mission_records(models=(MODELS[6],), plans=PLANS[:1]), key="b", sizes=2)
    assert sweepdb(f"query {question} --all --proof {folder}/after.json", grown).code == 0
    after = json.loads((folder / "after.json").read_text())
    assert after["moment"] != before["moment"]
    moved = forged({**after, "moment": before["moment"]})
    assert moved == (folder / "before.json").read_text()
    assert unhashed(said_of(moved, parse_url(grown), folder / "moved.json")[0])
