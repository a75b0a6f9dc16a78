"""Asks the question of a proof again, of the rows in the database, and names the first thing that differs.

Not here: what a proof holds (queries.proofs.document)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from queries.asking.question import Answer, Question
from queries.proofs.answer_files import compare_answer
from queries.proofs.document import digests_of, plain, question_from, read_proof, stable_columns
from queries.proofs.scope_rows import LookedAt, digests_of_scope
from queries.proofs.signing import check_signature
from queries.session import Pinned, Session
from store.errors import InputError, StoreError
from store.location import StoreLocation

_SINCE = "rows were voided, evaluated again or changed since; `sweepdb db check` tells whether the store is whole"


def verify_proof(
    path: Path, location: StoreLocation, *, answer_file: Path | None = None, public_file: Path | None = None
) -> str:
    """Compare a proof, and an answer that was kept, with a store; what differs is an error that says how."""
    document = read_proof(path)
    if public_file is not None:
        check_signature(document["sha256"], document.get("signature"), public_file)
    scenarios, question = proven(path, document)
    pinned = [(item.scenario, item.first, item.last, item.group) for item in scenarios]
    now_held = digests_of_scope(location, pinned, question)
    for said, now in zip(scenarios, now_held, strict=True):
        if said.digest != now.digest:
            raise StoreError(
                f"{path}: the rows of scenario {said.scenario[:12]} at batch sizes {said.first} to {said.last} are not"
                " those of the proof",
                hint=_SINCE,
            )
    try:
        with Session(location, unsealed={key for key, *_ in pinned}) as session:
            answer = session.ask(question, pinned=pinned)
    except (TypeError, ValueError, KeyError, AttributeError, duckdb.Error) as error:
        why = str(error).partition("\n")[0][:300]
        raise InputError(f"{path}: its question cannot be asked: {why}", hint=_SINCE) from error
    if (differs := next(_differences(document, answer), None)) is not None:
        raise StoreError(f"{path}: this store answers differently: {differs}", hint=_SINCE)
    if answer_file is not None:
        compare_answer(answer_file, answer)
    told = _verified(document, answer, answer_file, public_file)
    return "; ".join([*told, *_grown(path, location, question, pinned)])


def _grown(path: Path, location: StoreLocation, question: Question, pinned: Pinned) -> Iterator[str]:
    """Tell how much more the question would look at, were it asked of this store today."""
    try:
        with Session(location) as session:
            now = session.scope_of(question)
    except InputError:  # names of then that say nothing here
        return
    keys, before = {key for key, *_ in now}, {key for key, *_ in pinned}
    if keys == before and set(now) != set(map(tuple, pinned)):
        raise StoreError(f"{path}: this store ranks the proof's scenarios in other groups or batch sizes", hint=_SINCE)
    if more := len(keys - before):
        yield f"asked again, the question would look at {more:,} more scenarios of this store"


def proven(path: Path, document: Mapping[str, Any]) -> tuple[list[LookedAt], Question]:
    """The rows that a proof is about, and its question."""
    try:
        scenarios = [
            LookedAt(str(key), int(first), int(last), int(group), str(digest))
            for key, first, last, group, digest in document["scenarios"]
        ]
        return scenarios, question_from(document["question"])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not a proof: {str(error).partition(chr(10))[0][:300]}") from error


def _differences(document: Mapping[str, Any], answer: Answer) -> Iterator[str]:
    """Sentences on what a proof says and a store does not, the first that a reader would look for first."""
    counts = [answer.probes_considered, answer.scenarios_considered]
    if document["counts"] != counts:
        yield f"{document['counts']} {answer.counts} and scenarios were looked at then, {counts} now"
    mine = plain(dict(answer.parameters))
    for name in sorted(set(mine) | set(document["parameters"])):
        if mine.get(name) != document["parameters"].get(name):
            yield f"the parameter {name} was {document['parameters'].get(name)!r}, it is {mine.get(name)!r}"
    if document["columns"] != list(stable_columns(answer)):
        yield "other columns"
    rows = plain(digests_of(answer))
    for number, (said, now) in enumerate(zip(document["rows"], rows, strict=False), start=1):
        if said != now:
            probes = " and ".join(now[0]) or "no probe"
            yield f"row {number} was of {' and '.join(map(str, said[0])) or 'no probe'}, it is of {probes}" + (
                "" if said[0] != now[0] else " with other numbers"
            )
    if len(document["rows"]) != len(rows):
        yield f"{len(document['rows'])} rows then, {len(rows)} now"
    for name in ("formula_version", "family", "serving_model"):
        said, now = document["versions"].get(name), answer.versions.get(name)
        if said != plain(now):
            yield f"{name} was {said}, it is {now}"


def _verified(
    document: Mapping[str, Any], answer: Answer, answer_file: Path | None, public_file: Path | None
) -> list[str]:
    rows = "1 row" if len(answer.rows) == 1 else f"{len(answer.rows):,} rows"
    said = [f"verified: {rows}, {answer.probes_considered:,} {answer.counts} looked at, hash {document['sha256'][:12]}"]
    if answer_file is not None:
        said.append(f"{answer_file} is the answer")
    if public_file is not None:
        said.append(f"signed with the key of {public_file}")
    elif document.get("signature"):
        said.append("signed; `signed_by=PUBLIC.pem` checks by whom")
    if document["sql"] != answer.sql:
        said.append(f"the report's SQL is another since {document['program_version']}, and answers the same")
    return said
