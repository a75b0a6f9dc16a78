"""The document of a proof: what it holds, one hash over all of it, and reading it back.

Not here: making one (queries.proofs.proving), comparing one with a store (queries.proofs.verifying)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from queries.asking.options import Definitions, Limits, PairOptions, ReportOptions, Scope
from queries.asking.question import Answer, Question
from store.errors import InputError

FORMAT = 2
SIGNIFICANT_DIGITS = 12
_SEALED_BY = ("sha256", "signature")  # what is made of all the rest
_HELD = frozenset(
    {"format", "program_version", "store", "question", "scope", "versions", "counts", "scenarios", "sql", "parameters",
     "columns", "rows", *_SEALED_BY}
)  # fmt: skip
_NOT_ONE = "write one with: sweepdb query ... `proof=FILE`"


def hash_of(document: Mapping[str, Any]) -> str:
    """sha256 of everything that a proof says, in canonical JSON."""
    said = {name: value for name, value in document.items() if name not in _SEALED_BY}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def read_proof(path: Path) -> Mapping[str, Any]:
    """A proof from its file: whole, and as it was written."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a proof: {error}", hint=_NOT_ONE) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        said = f"format {found}, this program reads {FORMAT}" if isinstance(found, int) else "no JSON object of ours"
        raise InputError(f"{path}: not a proof of format {FORMAT}: {said}", hint=_NOT_ONE)
    if set(document) | {"signature"} != _HELD:
        odd = min(map(str, (set(document) | {"signature"}) ^ _HELD))
        raise InputError(f"{path}: was changed after it was written: {odd!r} is missing, or is too much")
    if hash_of(document) != document["sha256"]:
        raise InputError(
            f"{path}: was changed after it was written: its sha256 is of something else",
            hint="take the file that was written, or write one anew",
        )
    return document


def question_from(data: Mapping[str, Any]) -> Question:
    """The question of a proof; raises TypeError, KeyError or ValueError where it is none."""
    return Question(
        report=data["report"],
        scope=Scope(**_tuples(data["scope"])),
        limits=Limits(**data["limits"]),
        definitions=Definitions(**data["definitions"]),
        pairs=PairOptions(**_tuples(data["pairs"])),
        options=ReportOptions(**_tuples(data["options"])),
    )


def stable_columns(answer: Answer) -> Sequence[str]:
    """Columns that are the same in every copy of a store and under every program: not when and by which sweep a row
    was stored, nor what the errors that ship today say of it."""
    return [name for name in answer.columns if not is_local(name)]


def is_local(column: str) -> bool:
    """Whether a column is of one copy of a store, or of one program."""
    return column.endswith(("stored_at", "first_sweep", "scenario_id", "block_id", "holds"))


def digests_of(answer: Answer) -> list[list[object]]:
    """Each row as the probes it names and a digest of its stable columns, floats to twelve significant digits."""
    indices = [answer.columns.index(name) for name in stable_columns(answer)]
    return [[_probes(answer, row), _digest([stable(row[index]) for index in indices])] for row in answer.rows]


def probes_of(answer: Answer) -> list[str]:
    """The probe references among the rows."""
    return [probe for row in answer.rows for probe in _probes(answer, row)]


def stable(value: object) -> object:
    """A value without the digits that the order of adding decides."""
    if isinstance(value, float):
        return f"{value:.{SIGNIFICANT_DIGITS}g}" if math.isfinite(value) else None
    return value


def plain(value: object) -> Any:  # noqa: ANN401  as JSON gives it back
    """A value as JSON gives it back."""
    return json.loads(json.dumps(value, default=str))


def _probes(answer: Answer, row: Sequence[object]) -> list[str]:
    indices = [index for index, name in enumerate(answer.columns) if name in {"probe", "prefill_probe", "decode_probe"}]
    return [str(row[index]) for index in indices if row[index] is not None]


def _digest(cells: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(cells, default=str).encode()).hexdigest()[:32]


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuple(value) for name, value in data.items()}


def _tuple(value: object) -> object:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
