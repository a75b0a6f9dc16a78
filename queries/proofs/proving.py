"""Writes a proof: the question, what it looked at, what it found, and one hash over all of it.

Not here: what a proof holds (queries.proofs.document)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from queries.asking.question import Answer
from queries.proofs.canonical import spelled
from queries.proofs.document import Circumstances, document_of, sealed
from queries.proofs.looked_at import scope_of
from queries.proofs.scope_rows import digests_of_scope, require_whole_snapshots
from queries.proofs.signing import signed
from queries.session import Pinned
from store.errors import StoreError
from store.location import StoreLocation
from store.reading import read_measured, read_moment, read_store_id
from store.whole_files import written_whole


def write_proof(
    answer: Answer, path: Path, location: StoreLocation, pinned: Pinned, *, key_file: Path | None = None
) -> None:
    """Write what is needed to repeat an answer and to notice what differs; signed where a key is given."""
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
    )
    document = sealed(document_of(answer, circumstances))
    if key_file is not None:
        document["signature"] = signed(str(document["sha256"]), key_file)
    with written_whole(path) as temporary:
        temporary.write_text(spelled(document), encoding="utf-8")
