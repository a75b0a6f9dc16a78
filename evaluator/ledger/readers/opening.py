"""Documents of a result file: JSON, JSON lines, YAML, or CSV; anything else is a problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from evaluator.inputs.yaml_file import parse_yaml
from evaluator.ledger.readers.building import Problem
from evaluator.ledger.readers.clients.aiperf import document_of_csv, is_aiperf_csv
from evaluator.ledger.readers.clients.guidellm_csv import documents_of_guidellm_csv, is_guidellm_csv
from evaluator.ledger.readers.packed import opened_text, plain_suffix
from store.errors import InputError

MOST_VALUES = 20_000_000  # of one document of JSON
LARGEST_YAML_BYTES = 1 << 24


def documents_of(path: Path) -> Iterator[tuple[str, object]]:
    """With places. Appending clients write one a line; a bad line leaves the others."""
    suffix = plain_suffix(path)
    text = opened_text(path)
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    if suffix in {".yaml", ".yml"}:
        yield path.name, _of_yaml(path, text)
    elif is_aiperf_csv(text):
        yield path.name, document_of_csv(text)
    elif is_guidellm_csv(text):
        for line, document in documents_of_guidellm_csv(text):
            where = f"{path.name}:{line}"
            yield where, document or Problem(where=where, what="more or fewer fields than the header has")
    else:
        yield from _of_json(path, text)


def _of_yaml(path: Path, text: str) -> object:
    if len(text) > LARGEST_YAML_BYTES:
        return Problem(where=path.name, what=f"more than {LARGEST_YAML_BYTES} characters of YAML; write it as JSON")
    try:
        return parse_yaml(text, path.name)
    except InputError as error:
        return Problem(where=path.name, what=error.message.removeprefix(f"{path.name}: "))


def _of_json(path: Path, text: str) -> Iterator[tuple[str, object]]:
    try:
        content = _loaded(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if not all(line.lstrip().startswith("{") for _, line in lines) or len(lines) < 2:
            line = getattr(error, "lineno", 1)
            yield path.name, Problem(where=f"{path.name}:{line}", what=_why(error))
            return
        for number, line in lines:
            yield f"{path.name}:{number}", _parsed(line, f"{path.name}:{number}")
        return
    if content == []:
        yield path.name, Problem(where=path.name, what="it holds no result")
    for index, document in enumerate(content if isinstance(content, list) else [content]):
        yield f"{path.name}[{index}]" if isinstance(content, list) else path.name, document


def _parsed(line: str, where: str) -> object:
    try:
        return _loaded(line)
    except (ValueError, RecursionError) as error:
        return Problem(where=where, what=_why(error))


class _TooManyError(ValueError):
    """Its values would fill the memory."""


def _loaded(text: str) -> object:
    """A value takes some hundred bytes, however few in the file."""
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise _TooManyError
    return json.loads(text)


def _why(error: Exception) -> str:
    if isinstance(error, _TooManyError):
        return f"more than {MOST_VALUES:,} values: import parts of it"
    if isinstance(error, RecursionError):
        return "not JSON that can be read: nested too deeply"
    cut = isinstance(error, json.JSONDecodeError) and (
        error.pos >= len(error.doc.rstrip()) - 1 or error.msg.startswith("Unterminated string")
    )
    return "not JSON: the file is cut off" if cut else "not JSON"
