"""The reference pages, made when the site is built.

`python -m tools.reference_pages FOLDER` writes them without a site."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from queries.dictionary import schema_markdown
from sweepdb.evaluating import sweep_schema
from tools.command_reference import command_page
from tools.ledger_page import ledger_page
from tools.report_reference import reference_page
from tools.support_page import support_page
from tools.sweep_file_page import sweep_page

REFERENCE_PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": command_page,
    "queries.md": reference_page,
    "schema.md": schema_markdown,
    "sweep-files.md": sweep_page,
    "sweep-file.schema.json": sweep_schema,
    "support.md": support_page,
    "expected-errors.md": ledger_page,
}


def write_pages(folder: Path) -> None:
    for name, text in REFERENCE_PAGES.items():
        (folder / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
