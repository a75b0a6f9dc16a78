"""The commands that a page of the documents shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FENCED = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^    (?:.*)\n)+", re.MULTILINE)


def commands_of(page: Path) -> list[str]:
    """The commands of a page's blocks, continued lines joined, prompts and comments left out."""
    text = page.read_text(encoding="utf-8")
    blocks = FENCED.findall(text)
    blocks += [block for block in INDENTED.findall(FENCED.sub("", text)) if block.strip().startswith("sweepdb ")]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    stripped = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in stripped if line.startswith("sweepdb ")]
