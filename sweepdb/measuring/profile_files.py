"""The file of a fitted profile: always a new one, or a pipe."""

from __future__ import annotations

from pathlib import Path

from store.errors import InputError
from store.whole_files import is_stream, written_whole


def refuse_existing(path: Path) -> None:
    """Refuse the name of a file that is there: no profile is written over."""
    if path.exists() and not is_stream(path):
        raise InputError(f"{path} is there already", hint="name another file: `profile=FILE.yaml`")


def write_profile(path: Path, text: str) -> None:
    """Write a profile."""
    refuse_existing(path)
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
