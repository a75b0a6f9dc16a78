"""Running the command in this process, as tests of the command line do."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from cli.main import run
from cli.render import progress

progress.SAID_EVERY_S = 600.0  # what tests read is not decided by how slow a machine is

EXAMPLE = (
    "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500"
    " --quantization W8A8_DYNAMIC --batch-range 260"
)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def words(text: str) -> list[str]:
    """The words of a command line; blanks in the names of the folder of the tests and of temporary files part no words."""
    places = {str(Path(__file__).parents[1]), tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())}
    for place in places:
        text = text.replace(place, place.replace(" ", "\0"))
    return [word.replace("\0", " ") for word in text.split()]


def sweepdb(text: str | list[str], store: str | None = None, stdin: str = "") -> Outcome:
    arguments = words(text) if isinstance(text, str) else list(text)
    if store is not None:
        arguments += ["--store", store]
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(arguments)
    finally:
        sys.stdin = before
    return Outcome(code, out.getvalue(), err.getvalue())
