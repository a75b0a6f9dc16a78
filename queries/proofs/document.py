"""A proof's document, hashed as a whole. Every field of an answer is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from queries.asking.limits import Limits
from queries.asking.options import Definitions, PairOptions, ReportOptions, Scope
from queries.asking.question import Answer, Question
from queries.proofs.canonical import SIGNIFICANT_DIGITS, digest_of, plain, spelled, strict_json
from store.errors import InputError
from store.location import Moment

FORMAT = 7
_SEALED_BY = ("sha256", "signature")  # what is made of all the rest
_NEW_ONE = "write a new one: sweepdb query {} ... `proof=FILE`"
NOT_ONE = _NEW_ONE.format("REPORT")
_TAKE = "take the file that was written, or " + NOT_ONE


class LookedAt(NamedTuple):
    """A scenario's rows in a batch interval, their group, and digest."""

    scenario: str
    first: int
    last: int
    group: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Store, moment, program, and rows looked at."""

    store: str
    moment: Moment
    measured: str  # the state of what errors are known from
    scenarios: Sequence[LookedAt]
    points: Sequence[tuple[str, str]] = ()  # measured ones that it read, by content key, with digests
    program_version: str = metadata.version("sweepdb")


def document_of(answer: Answer, circumstances: Circumstances) -> dict[str, Any]:
    """Without the seal. Makers and checkers both call this."""
    beside = {item.name: getattr(circumstances, item.name) for item in fields(Circumstances)}
    of_answer = {
        item.name: _OTHERWISE[item.name](answer)
        if item.name in _OTHERWISE
        else plain(getattr(answer, item.name), digits=SIGNIFICANT_DIGITS)
        for item in fields(Answer)
    }
    points = {"points": beside.pop("points")} if circumstances.points else {}  # proofs of predictions have none
    return {"format": FORMAT, **plain(beside | points), **of_answer, "shown": _shown(answer)}


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "sha256": hash_of(document)}


def hash_of(document: Mapping[str, Any]) -> str:
    return digest_of({name: value for name, value in document.items() if name not in _SEALED_BY})


def read_proof(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        document = strict_json(raw.decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a proof: {error}", hint=NOT_ONE) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _other_format(path, document)
    try:
        as_written = spelled(document).encode() == raw
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a proof: {error}", hint=NOT_ONE) from error
    if not as_written:
        raise InputError(f"{path}: was changed after it was written: it is spelled otherwise", hint=_TAKE)
    if document.get("sha256") != hash_of(document):
        raise InputError(f"{path}: was changed after it was written: its sha256 is of something else", hint=_TAKE)
    return document


def _other_format(path: Path, document: object) -> InputError:
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(found, int) or isinstance(found, bool):
        return InputError(f"{path}: not a proof of format {FORMAT}: no JSON object of ours", hint=NOT_ONE)
    question = document.get("question")
    report = question.get("report") if isinstance(question, dict) else None
    said = f"{path}: is a proof of format {found}, this program reads {FORMAT}"
    if found < FORMAT:
        said += ": formats of before did not cover everything that a proof says"
    return InputError(said, hint=_NEW_ONE.format(report if isinstance(report, str) else "REPORT"))


def question_from(data: Mapping[str, Any]) -> Question:
    return Question(
        report=data["report"],
        scope=Scope(**_tuples(data["scope"])),
        limits=Limits(**data["limits"]),
        definitions=Definitions(**data["definitions"]),
        pairs=PairOptions(**_tuples(data["pairs"])),
        options=ReportOptions(**_tuples(data["options"])),
    )


def is_local(column: str) -> bool:
    """Of one copy of a store, or of errors known today."""
    return column.endswith(("stored_at", "first_sweep", "scenario_id", "block_id", "holds"))


def probes_of(answer: Answer) -> list[str]:
    return [probe for row in answer.rows for probe in _probes(answer.columns, row)]


def shown_digest(columns: Sequence[str], row: Sequence[object]) -> str:
    """The same in every kind of file."""
    return digest_of([[name, in_one_form(cell)] for name, cell in zip(columns, row, strict=True)])[:32]


def in_one_form(value: object) -> object:
    """As every kind of file keeps it."""
    if value is None or value == "":
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{float(value):.{SIGNIFICANT_DIGITS}g}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return in_one_form(str(plain(value)))
    text = value.isoformat() if isinstance(value, date) else str(value)
    try:
        return f"{float(text):.{SIGNIFICANT_DIGITS}g}"
    except ValueError:
        return text.lower() if text.lower() in {"true", "false"} else text


def _digests(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[list[object]]:
    places = [index for index, name in enumerate(columns) if not is_local(name)]
    return [
        [_probes(columns, row), digest_of(plain([row[index] for index in places], digits=SIGNIFICANT_DIGITS))[:32]]
        for row in rows
    ]


def _shown(answer: Answer) -> dict[str, list[str]]:
    """Digests of rows with local cells."""
    return {
        "rows": [shown_digest(answer.columns, row) for row in answer.rows],
        "nearest": [shown_digest(answer.nearest_columns, row) for row in answer.nearest],
    }


# Fields of an answer of which a proof holds something shorter, or more exact, than they are.
_OTHERWISE: Mapping[str, Callable[[Answer], object]] = {
    "question": lambda answer: plain(asdict(answer.question)),
    "rows": lambda answer: _digests(answer.columns, answer.rows),
    "nearest": lambda answer: _digests(answer.nearest_columns, answer.nearest),
}


def _probes(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    places = [index for index, name in enumerate(columns) if name in {"probe", "prefill_probe", "decode_probe"}]
    return [str(row[index]) for index in places if row[index] is not None]


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuple(value) for name, value in data.items()}


def _tuple(value: object) -> object:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value
