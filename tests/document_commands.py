"""The commands that a page of the documents shows."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^ *```(sh|console|bash)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
RUN = ("sh", "console")  # blocks of bash need a server, a long time, or files that nobody has
INDENTED = re.compile(r"(?:^    (?:.*)\n)+", re.MULTILINE)


def commands_of(page: Path, languages: Collection[str] = RUN) -> list[str]:
    return commands_in(page.read_text(encoding="utf-8"), languages)


def section(page: Path, heading: str) -> str:
    return page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def commands_in(text: str, languages: Collection[str] = RUN) -> list[str]:
    """The commands of a text's blocks, continued lines joined, prompts and comments left out."""
    blocks = [block for language, block in FENCED.findall(text) if language in languages]
    blocks += [block for block in INDENTED.findall(FENCED.sub("", text)) if block.strip().startswith("sweepdb ")]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    stripped = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in stripped if line.startswith("sweepdb ")]
