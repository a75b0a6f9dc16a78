"""Two examples a command; a test runs them through the parser."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path


def _command(line: str) -> str:
    first, second, *_ = f"{line} ".split(" ")
    return second if first == "db" else first


EXAMPLES: Mapping[str, tuple[str, ...]] = {
    command: tuple(lines)
    for command, lines in groupby(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines(), _command)
}
