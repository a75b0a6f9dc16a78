"""Writes and signs a proof; asks it again, and names the first difference.

The whole proof is made again. Only what `_BELIEVED` names may differ, and that is said. Signatures are Ed25519 by
cryptography; PEM keys as of `openssl genpkey -algorithm ed25519`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queries.asking.question import Answer, Question
from queries.errors.expected import ExpectedError
from queries.judging.first_tokens import TtftInterval
from queries.learning.own_points import OwnPoints, PointReader, no_points
from queries.measured_rows import AS_STATED, ServerNamer
from queries.proofs.answer_files import KeptAnswer, compare_answer
from queries.proofs.document import (
    NOT_ONE,
    Circumstances,
    LookedAt,
    document_of,
    first_difference,
    plain,
    question_from,
    read_proof,
    sealed,
    spelled,
)
from queries.proofs.looked_at import check_scope_elsewhere, check_scope_here, check_stored, more_today, scope_of
from queries.proofs.scope_rows import digests_of_scope, require_whole_snapshots
from queries.session import Pinned, Session
from store.errors import InputError, StoreError
from store.location import Moment, StoreLocation
from store.reading import duckdb, read_measured, read_moment, read_store_id
from store.texts import counted
from store.whole_files import written_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


_SIGNATURE_BYTES = 64
_INSTALL = 'pip install "sweepdb[sign]"'
_MAKE_KEYS = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"
_MAKE_PUBLIC = "make one with: openssl pkey -in key.pem -pubout -out pub.pem"


def signed(sha256: str, key_file: Path) -> str:
    return base64.b64encode(_private_key(key_file).sign(sha256.encode())).decode()


def check_spelling(path: Path, signature: object) -> None:
    """Base64 in its one spelling, of Ed25519's length."""
    try:
        raw = base64.b64decode(str(signature), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != _SIGNATURE_BYTES or base64.b64encode(raw).decode() != signature:
        raise InputError(f"{path}: was changed after it was written: its signature is none")


def check_signature(sha256: str, signature: object, public_file: Path) -> None:
    from cryptography.exceptions import InvalidSignature

    key = _public_key(public_file)
    if not isinstance(signature, str):
        raise InputError("the proof is not signed", hint="write it with `sign=KEY.pem`")
    try:
        key.verify(base64.b64decode(signature, validate=True), sha256.encode())
    except (InvalidSignature, ValueError) as error:
        raise InputError(f"the proof was not signed with the key of {public_file}") from error


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise InputError("signing needs the package cryptography", hint=_INSTALL) from error
    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: not a private key that is not encrypted", hint=_MAKE_KEYS) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path}: not an Ed25519 key", hint=_MAKE_KEYS)
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise InputError("checking a signature needs the package cryptography", hint=_INSTALL) from error
    try:
        key = load_pem_public_key(_read(path))
    except ValueError as error:
        raise InputError(f"{path}: not a public key", hint=_MAKE_PUBLIC) from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path}: not an Ed25519 key", hint=_MAKE_PUBLIC)
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def write_proof(
    answer: Answer,
    path: Path,
    location: StoreLocation,
    pinned: Pinned,
    *,
    points: Points = (),
    key_file: Path | None = None,
) -> None:
    """`pinned` rows and `points` are as the answering session calls them."""
    moment = read_moment(location)
    then = replace(location, moment=moment)
    if scope_of(then, answer.question) != list(pinned):
        raise StoreError("rows were stored while the question was asked", hint="ask it again with `proof`")
    require_whole_snapshots(location, pinned)
    circumstances = Circumstances(
        store=read_store_id(location),
        moment=moment,
        measured=read_measured(location),
        scenarios=digests_of_scope(then, pinned, answer.question),
        points=points,
    )
    document = sealed(document_of(answer, circumstances))
    if key_file is not None:
        document["signature"] = signed(str(document["sha256"]), key_file)
    with written_whole(path) as temporary:
        temporary.write_text(spelled(document), encoding="utf-8")


_SINCE = (
    "the proof was altered, or rows were voided, evaluated again or changed since; `sweepdb db check` tells whether the"
    " store is whole"
)
_SINCE_MEASURED = "measured points were imported, corrected or deleted since, or the proof was altered"
Path_ = tuple[str, ...]
Points = Sequence[tuple[str, str]]
_BY_ERRORS: tuple[Path_, ...] = (("shown",), ("expected_error",), ("verdict",), ("notes",), ("ttft_intervals",))
# What a proof may say otherwise than the store does now: where what it depends on is another.
_BELIEVED: Mapping[str, tuple[Path_, ...]] = {
    "store": (("store",), ("moment",), ("shown",), ("scope",), ("left_out",), ("versions", "older_formula_versions")),
    "program": (("program_version",), ("sql",), *_BY_ERRORS),
    "measured": (("measured",), *_BY_ERRORS),
}


_OTHERS = {"store": "store", "program": "program_version", "measured": "measured"}  # where a proof says them


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    document: Mapping[str, Any]
    question: Question
    scenarios: Sequence[LookedAt]
    moment: Moment
    points: Points

    @property
    def pinned(self) -> list[tuple[str, int, int, int]]:
        return [(item.scenario, item.first, item.last, item.group) for item in self.scenarios]


def verify_proof(
    path: Path,
    location: StoreLocation,
    *,
    kept: KeptAnswer | None = None,
    public_file: Path | None = None,
    own_points: PointReader = no_points,
    named: ServerNamer = AS_STATED,
) -> str:
    """A difference is an error that says how.

    Reads only points that the proof names. `named` is as for a session."""
    document = read_proof(path)
    if "signature" in document:
        check_spelling(path, document["signature"])
    if public_file is not None:
        check_signature(document["sha256"], document.get("signature"), public_file)
    proof = proven(path, document)
    try:
        answer, now = asked_again(location, proof, own_points, named)
    except (StoreError, InputError) as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, duckdb.Error) as error:
        why = str(error).partition("\n")[0][:300]
        raise InputError(f"{path}: its question cannot be asked: {why}", hint=_SINCE) from error
    document_now = document_of(answer, now)
    others = [name for name, place in _OTHERS.items() if document[place] != document_now[place]]
    _compare(path, document, document_now, others)
    if kept is not None:
        compare_answer(kept, _as_then(path, answer, document, others), document["shown"])
    told = _verified(document, answer, kept, public_file)
    return "; ".join([*told, *_told(location, proof, others)])


def asked_again(
    location: StoreLocation, proof: Proof, own_points: PointReader = no_points, named: ServerNamer = AS_STATED
) -> tuple[Answer, Circumstances]:
    """As of its moment, or its rows in another store."""
    store, pinned = read_store_id(location), proof.pinned
    here = proof.document["store"] == store
    seen = replace(location, moment=proof.moment) if here else location
    check_stored(location, pinned)
    if here:
        check_scope_here(seen, proof.question, pinned)
    else:
        check_scope_elsewhere(location, proof.question, pinned, proof.document["scope"])
    for said, now in zip(proof.scenarios, digests_of_scope(seen, pinned, proof.question), strict=True):
        if said.digest != now.digest:
            raise StoreError(
                f"the rows of scenario {said.scenario[:12]} at batch sizes {said.first} to {said.last} are not"
                " those of the proof",
                hint=_SINCE,
            )
    points_of = partial(_named_points, proof, own_points)
    unsealed = {item.scenario for item in proof.scenarios}
    with Session(seen, unsealed=unsealed, own_points=points_of, named=named) as session:
        answer = session.ask(proof.question, pinned=None if here else pinned)
        looked_at, points = _digested(proof, session.pinned()), session.points()
    _check_points(proof.points, points)
    measured = read_measured(location)
    return answer, Circumstances(
        store=store, moment=proof.moment, measured=measured, scenarios=looked_at, points=points
    )


def _check_points(said: Points, now: Points) -> None:
    """Raises where the points differ."""
    then, today = dict(said), dict(now)
    for key in sorted(then.keys() | today.keys()):
        if then.get(key) == today.get(key):
            continue
        why = "is not as the proof has it" if key in then and key in today else (
            "was added since, and its question reads it" if key in today else
            "is no more in this store, or its question does not read it")  # fmt: skip
        raise StoreError(f"the measured point {key[:12]} {why}", hint=_SINCE_MEASURED)


def _named_points(
    proof: Proof, own_points: PointReader, location: StoreLocation, scenarios: Collection[int]
) -> OwnPoints:
    named = set((proof.document["own_runs"] or {}).get("points", ()))
    found = own_points(location, scenarios) if named else OwnPoints()
    if missing := sorted(named - {one.key for one in found.points}):
        said = f"the measured point {missing[0][:12]} is no more in this store, or corrects no answer"
        raise StoreError(said, hint=_SINCE)
    return OwnPoints(points=tuple(one for one in found.points if one.key in named))


def _digested(proof: Proof, pinned: Pinned) -> list[LookedAt]:
    digests = {item[:3]: item.digest for item in proof.scenarios}
    return [LookedAt(*one, digests.get(one[:3], "")) for one in pinned]


def _compare(path: Path, said: Mapping[str, Any], now: dict[str, Any], others: Collection[str]) -> None:
    """Raises at the first difference that nothing excuses."""
    believed = {place for other in others for place in _BELIEVED[other]}
    plain_said = {name: value for name, value in said.items() if name not in {"sha256", "signature"}}
    for name, *below in sorted(believed):
        if not below:
            now[name] = plain_said.get(name)
        elif isinstance(plain_said.get(name), dict):
            now[name] = {**now[name], below[0]: plain_said[name].get(below[0])}
    found = first_difference(plain_said, now)
    if found is not None:
        place, then, today = found
        raise StoreError(
            f"{path}: this store answers differently: {place} was {then!r:.100}, it is {today!r:.100}", hint=_SINCE
        )


def _told(location: StoreLocation, proof: Proof, others: Collection[str]) -> Iterator[str]:
    """Beliefs, and scenarios that the question would add today."""
    document = proof.document
    more = more_today(location, proof.question, proof.pinned)
    if "store" in others:
        yield (
            f"of another store ({document['store']:.12}): when its rows were stored and first asked for, titles of"
            " groups without rows, and what it left out, are believed"
        )
        if more:
            yield (
                f"its question would look at {more:,} more scenarios of this store, which were added later or left out"
                " of the proof"
            )
    elif more:
        yield f"asked again, the question would look at {more:,} more scenarios of this store, stored since"
    if "store" not in others and any(
        getattr(proof.moment, name) > newest for name, newest in plain(read_moment(location)).items()
    ):
        yield "of a moment that this store has not reached: a copy from before, or its newest rows were removed"
    if "program" in others:
        yield (
            f"written by sweepdb {document['program_version']:.40}, this is {metadata.version('sweepdb')}:"
            " its SQL was not run, and what it says of errors is believed"
        )
    elif "measured" in others:
        yield "measurements here are others than in the proof: what it says of errors is believed"


def proven(path: Path, document: Mapping[str, Any]) -> Proof:
    try:
        proof = Proof(
            document=document,
            question=question_from(document["question"]),
            scenarios=[LookedAt(*item) for item in document["scenarios"]],
            moment=Moment(**document["moment"]),
            points=[(str(key), str(digest)) for key, digest in document.get("points", ())],
        )
        said = {name: document[name] for name in ("question", "scenarios", "moment")}
        read = plain({name: getattr(proof, name) for name in said})
        missing = [name for name in (*_OTHERS.values(), "scope", "shown") if name not in document]
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: not a proof: {str(error).partition(chr(10))[0][:300]}") from error
    odd = (missing[0], None, None) if missing else first_difference(said, read)
    if odd is not None:
        raise InputError(f"{path}: not a proof: {odd[0]} is not as this program writes it", hint=NOT_ONE)
    return proof


def _as_then(path: Path, answer: Answer, document: Mapping[str, Any], others: Collection[str]) -> Answer:
    believed = {place[0] for other in others for place in _BELIEVED[other]}
    made: dict[str, Callable[[Any], object]] = {
        "scope": tuple,
        "left_out": lambda value: value,
        "versions": dict,
        "verdict": tuple,
        "notes": tuple,
        "expected_error": lambda value: tuple(ExpectedError(**one) for one in value),
        "ttft_intervals": lambda value: tuple(TtftInterval(**one) for one in value),
    }
    try:
        return replace(answer, **{name: make(document[name]) for name, make in made.items() if name in believed})  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a proof: {str(error).partition(chr(10))[0][:300]}") from error


def _verified(
    document: Mapping[str, Any], answer: Answer, kept: KeptAnswer | None, public_file: Path | None
) -> Iterator[str]:
    rows = counted(len(answer.rows), "row")
    yield f"verified: {rows}, {answer.probes_considered:,} {answer.counts} looked at, hash {document['sha256'][:12]}"
    if kept is not None:
        yield f"{kept.path} is the answer"
    if public_file is not None:
        yield f"signed with the key of {public_file}"
    elif document.get("signature"):
        yield "signed; `signed_by=PUBLIC.pem` checks by whom"
