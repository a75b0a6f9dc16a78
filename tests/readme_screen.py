"""Makes the README's screen anew: runs its commands and writes what they print.

    PYTHONPATH=. python tests/readme_screen.py README.md

The references of its third question are those of the two best rows. Run by `make docs`."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from conftest_cli import sweepdb
from conftest_terminal import on_terminal

WIDTH = 120  # of the terminal that the screen is of
SCREEN = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
REFERENCE = re.compile(r"\b[0-9a-f]{8}:\d+\b")


def commands_of(page: str) -> list[str]:
    return [line.removeprefix("$ ") for line in SCREEN.findall(page)[0].splitlines() if line.startswith("$ ")]


def printed(command: str) -> str:
    """What a command shows on a terminal, without the redrawn line of its progress."""
    words = shlex.split(command)[1:]
    if words[0] != "evaluate":
        return f"$ {command}\n{shown(words)}"
    outcome = sweepdb(words)
    if outcome.code:
        raise SystemExit(f"{command}\n{outcome.err}")
    return f"$ {command}\n{outcome.err}"


def shown(words: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in on_terminal(words, WIDTH).splitlines())


def remade(page: str) -> str:
    """The page with its screen, and the two references that its commands name, as they are now."""
    screen = "\n".join(printed(command) for command in commands_of(page))
    best = list(dict.fromkeys(REFERENCE.findall(screen)))[:2]
    rest = page.replace(SCREEN.findall(page)[0], "<screen>")
    for old, new in zip(dict.fromkeys(REFERENCE.findall(rest)), best, strict=True):
        rest = rest.replace(old, new)
    return rest.replace("<screen>", screen)


def main(path: Path) -> None:
    """Rewrite a page in place, over a store that is thrown away."""
    page = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SWEEPDB_STORE"] = f"sqlite:///{folder}/sweepdb.sqlite"
        path.write_text(remade(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
