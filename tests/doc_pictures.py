"""Makes the pictures of the documents anew: runs the commands that stand beside them, over stores that are thrown away.

PYTHONPATH=.:tests python tests/doc_pictures.py"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path

from conftest_cli import sweepdb
from document_commands import ROOT, commands_of

PICTURES = ROOT / "docs" / "pictures"
PAGES = ("howto/look-and-draw.md",)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ["SWEEPDB_STORE"] = f"sqlite:///{folder}/sweepdb.sqlite"
            for command in commands_of(ROOT / "docs" / page):
                outcome = sweepdb(shlex.split(command)[1:])
                if outcome.code:
                    raise SystemExit(f"{command}\n{outcome.err}")
            for file in Path(folder).glob("*.svg"):
                shutil.copy(file, PICTURES / file.name)
            os.chdir(ROOT)


if __name__ == "__main__":
    main()
