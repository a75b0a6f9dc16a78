"""A copy of the program with something added by the edits that one would make; it evaluates, answers, and is counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("store", "migrations", "evaluator", "queries", "sweepdb", "cli")
ASKED = "Qwen/Qwen3-0.6B --num-devices 1 --input-length 100 --output-length 10 --batch-range 8"
_PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from cli.main import run
said = []
for line in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(line.split())
    assert code == 0, (line, out.getvalue(), err.getvalue())
    said.append(out.getvalue())
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Copy:
    """The program in a folder of its own, with a store beside it."""

    folder: Path

    def run(self, program: str, *words: str) -> str:
        store = f"sqlite:///{self.folder}/store.sqlite"
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "SWEEPDB_STORE": store}
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sweepdb(self, *lines: str) -> list[str]:
        return json.loads(self.run(_PROGRAM, json.dumps(lines)))


def copied(folder: Path, edits: Mapping[str, str | tuple[str, str]]) -> Copy:
    """A copy with new files, and with texts that stand once in files that are there: what is put before each.

    A store that was evaluated with the operators of `ASKED` may stand in the folder: no copy then captures them anew."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for place, edit in edits.items():
        path = folder / place
        if isinstance(edit, str):
            assert not path.exists(), place
            path.write_text(edit, encoding="utf-8")
            continue
        before, added = edit
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, (place, before)
        path.write_text(text.replace(before, added + before), encoding="utf-8")
    return Copy(folder)


def changed_files(folder: Path) -> list[str]:
    found = []
    for package in PACKAGES:
        for path in sorted((folder / package).rglob("*")):
            own = ROOT / path.relative_to(folder)
            if (
                path.is_file()
                and path.suffix != ".pyc"
                and not (own.exists() and own.read_bytes() == path.read_bytes())
            ):
                found.append(str(path.relative_to(folder)))
    return found
