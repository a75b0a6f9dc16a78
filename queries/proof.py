"""Proofs: a question's SQL, parameters, scope, probes and hash, written down so that anyone can ask again.

Not here: asking (queries.session)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from queries.asking.options import Definitions, Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Answer, Question
from queries.session import Pinned, Session
from store.errors import InputError, StoreError
from store.location import StoreLocation
from store.whole_files import written_whole

FORMAT = 1
SIGNIFICANT_DIGITS = 12


def write_proof(answer: Answer, path: Path, location: StoreLocation, pinned: Pinned) -> None:
    """Write what is needed to repeat an answer and to notice when it differs."""
    from queries.asking.library import shared_sql

    document = {
        "format": FORMAT,
        "store": location.url if location.path is None else location.path.name,
        "question": asdict(answer.question),
        "scope": list(answer.scope),
        "versions": dict(answer.versions),
        "probes_considered": answer.probes_considered,
        "scenarios": [list(item) for item in pinned],
        "sql": {"shared": shared_sql(), "report": answer.sql},
        "parameters": dict(answer.parameters),
        "columns": list(stable_columns(answer)),
        "probes": probes_of(answer),
        "sha256": answer_hash(answer),
    }
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")


def verify_proof(path: Path, location: StoreLocation) -> str:
    """Ask the question again and compare; an answer that differs is an error that says how."""
    document = _read(path)
    with Session(location) as session:
        pinned = [(str(key), int(first), int(last), int(group)) for key, first, last, group in document["scenarios"]]
        answer = session.ask(_question(document["question"]), pinned=pinned)
    if answer_hash(answer) == document["sha256"]:
        looked_at = f"{answer.probes_considered:,} probes looked at"
        rows = "1 row" if len(answer.rows) == 1 else f"{len(answer.rows):,} rows"
        return f"verified: {rows}, {looked_at}, hash {document['sha256'][:12]}"
    before, now = document["probes"], probes_of(answer)
    gone, new = [p for p in before if p not in now], [p for p in now if p not in before]
    what = f"missing now: {', '.join(gone[:3]) or 'none'}; new: {', '.join(new[:3]) or 'none'}"
    if document["probes_considered"] != answer.probes_considered:
        what += f"; {document['probes_considered']:,} probes were looked at then, {answer.probes_considered:,} now"
    raise StoreError(
        f"{path}: this store answers differently ({what})", hint="rows were voided or evaluated again since"
    )


def stable_columns(answer: Answer) -> Sequence[str]:
    """Columns that are the same in every copy of a store and under every program: not when and by which sweep a row
    was stored, nor what the errors that ship today say of it."""
    local = ("stored_at", "first_sweep", "scenario_id", "block_id", "holds")
    return [name for name in answer.columns if not name.endswith(local)]


def answer_hash(answer: Answer) -> str:
    """sha256 of the rows, floats to twelve significant digits."""
    names = stable_columns(answer)
    indices = [answer.columns.index(name) for name in names]
    rows = [[_stable(row[index]) for index in indices] for row in answer.rows]
    return hashlib.sha256(json.dumps([list(names), rows], default=str).encode()).hexdigest()


def probes_of(answer: Answer) -> list[str]:
    """The probe references among the rows."""
    indices = [index for index, name in enumerate(answer.columns) if name in {"probe", "prefill_probe", "decode_probe"}]
    return [str(row[index]) for row in answer.rows for index in indices if row[index] is not None]


def _stable(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.{SIGNIFICANT_DIGITS}g}" if math.isfinite(value) else None
    return value


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a proof: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f"{path}: not a proof of format {FORMAT}", hint="write one with: sweepdb query ... `proof=FILE`"
        )
    return document


def _question(data: Mapping[str, Any]) -> Question:
    return Question(
        report=data["report"],
        scope=Scope(**_tuples(data["scope"])),
        limits=Limits(**data["limits"]),
        definitions=Definitions(**data["definitions"]),
        pairs=PairOptions(**data["pairs"]),
        options=ReportOptions(**_tuples(data["options"])),
    )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuple(value) for name, value in data.items()}


def _tuple(value: object) -> object:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
