"""Catalogue ids alone, quick enough for completion in a shell."""

from __future__ import annotations

from importlib import resources


def catalogue_ids() -> tuple[str, ...]:
    """Reads the lines that begin entries; parsing takes a hundred times as long."""
    folder = resources.files("evaluator") / "inputs" / "catalogue"
    texts = (item.read_text(encoding="utf-8") for item in folder.iterdir() if item.name.endswith(".yaml"))
    return tuple(
        line.partition(":")[0] for text in texts for line in text.splitlines() if line[:1] not in {"", " ", "#", "-"}
    )
