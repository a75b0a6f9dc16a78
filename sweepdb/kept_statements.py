"""Statements that a user keeps by name: one .sql file each, in the user's own directory, for any editor."""

from __future__ import annotations

import os
import re
from pathlib import Path

from store.errors import InputError
from store.whole_files import unwritable, written_whole

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def kept_folder() -> Path:
    """The directory of kept statements."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sweepdb" / "statements"


def keep_statement(name: str, text: str) -> Path:
    """Keep a statement under a name, in place of any that has it; return its file."""
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    with written_whole(path) as temporary:
        temporary.write_text(text.strip() + "\n", encoding="utf-8")
    return path


def kept_statement(name: str) -> str:
    """The statement of a name."""
    try:
        return _file(name).read_text(encoding="utf-8")
    except OSError:
        known = (
            ", ".join(sorted(path.stem for path in kept_folder().glob("*.sql"))) or "none yet; `save=NAME` keeps one"
        )
        raise InputError(f"no statement is kept as {name}", hint=f"kept: {known}") from None


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a statement", hint="letters, digits, - and _")
    return kept_folder() / f"{name}.sql"
