"""A proof's document, hashed as a whole. Every field of an answer is in it.

Its JSON has one spelling, so that content decides every byte."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from queries.asking.limits import Limits
from queries.asking.options import Definitions, PairOptions, ReportOptions, Scope
from queries.asking.question import Answer, Question
from store.errors import InputError
from store.location import Moment

SIGNIFICANT_DIGITS = 12  # DuckDB adds floats up in parallel, in an order of its own


def spelled(value: object) -> str:
    """Of a value from `plain`."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def digest_of(value: object) -> str:
    return hashlib.sha256(spelled(value).encode()).hexdigest()


def strict_json(text: str) -> Any:  # noqa: ANN401  whatever it holds
    """ValueError for repeated keys and non-numbers."""
    return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)


def plain(value: object, *, digits: int | None = None) -> Any:  # noqa: ANN401  as JSON gives it back
    """As JSON gives it back, floats to `digits`."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value), digits=digits)
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits=digits) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item, digits=digits) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def first_difference(said: object, now: object, place: str = "") -> tuple[str, object, object] | None:
    if spelled(said) == spelled(now):
        return None
    if isinstance(said, dict) and isinstance(now, dict):
        for name in sorted(set(said) | set(now)):
            if name not in said or name not in now:
                return _at(place, name), said.get(name, "nothing"), now.get(name, "nothing")
            if (found := first_difference(said[name], now[name], _at(place, name))) is not None:
                return found
    if isinstance(said, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip(said, now, strict=False), start=1):
            if (found := first_difference(one, other, _at(place, number))) is not None:
                return found
        return place, f"{len(said)} items", f"{len(now)} items"
    return place, said, now


def _at(place: str, name: object) -> str:
    return f"{place} {name}".strip()


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    return made


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")


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
