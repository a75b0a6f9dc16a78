"""Pages of the site beside the documents: the changelog, how to contribute, a list of decisions. Run by mkdocs.

Not here: the documents themselves (docs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md")


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401  of mkdocs, which the program does not need
    """Add the pages, with their links as from the folder of documents."""
    from mkdocs.structure.files import File

    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    titles = ((path, path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")) for path in decisions)
    listed = "".join(f"* [{title}]({path.name})\n" for path, title in titles)
    files.append(File.generated(config, "decisions/index.md", content=f"# Decisions\n\n{listed}"))
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Documents name these pages by their place in the repository, one folder further up."""
    for name in BESIDE:
        markdown = markdown.replace(f"](../../{name}", f"](../{name}")
    return markdown.replace("](decisions/)", "](decisions/index.md)")
