"""Writes a proof: the question, what it looked at, what it found, and one hash over all of it.

Not here: what a proof holds (queries.proofs.document)."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from queries.asking.question import Answer
from queries.proofs.document import FORMAT, digests_of, hash_of, plain, stable_columns
from queries.proofs.scope_rows import digests_of_scope, require_whole_snapshots
from queries.proofs.signing import signed
from queries.session import Pinned
from store.location import StoreLocation
from store.reading import read_store_id
from store.whole_files import written_whole


def write_proof(
    answer: Answer, path: Path, location: StoreLocation, pinned: Pinned, *, key_file: Path | None = None
) -> None:
    """Write what is needed to repeat an answer and to notice what differs; signed where a key is given."""
    require_whole_snapshots(location, pinned)
    document = {
        "format": FORMAT,
        "program_version": metadata.version("sweepdb"),
        "store": read_store_id(location),
        "question": plain(asdict(answer.question)),
        "scope": list(answer.scope),
        "versions": plain(dict(answer.versions)),
        "counts": [answer.probes_considered, answer.scenarios_considered],
        "scenarios": [list(item) for item in digests_of_scope(location, pinned, answer.question)],
        "sql": answer.sql,
        "parameters": plain(dict(answer.parameters)),
        "columns": list(stable_columns(answer)),
        "rows": digests_of(answer),
    }
    sealed = {**document, "sha256": hash_of(document)}
    if key_file is not None:
        sealed["signature"] = signed(str(sealed["sha256"]), key_file)
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(sealed, indent=1, default=str) + "\n", encoding="utf-8")
