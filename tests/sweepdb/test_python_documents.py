"""The Python that documents show runs as it stands, in the order of its page, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sweepdb

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "ask-a-store.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks_of(page):
    return BLOCK.findall(page.read_text(encoding="utf-8").partition("## Other tools\n")[0])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which the how-to was followed, and the names it left."""
    folder, names = tmp_path_factory.mktemp("followed"), {}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.delenv("SWEEPDB_STORE", raising=False)
        for block in blocks_of(PAGE):
            exec(compile(block, PAGE.name, "exec"), names)
    return folder, names


def test_the_how_to_runs(ran, capsys):
    folder, names = ran
    assert {"sweepdb.sqlite", "copy.sqlite", "bundle"} <= {path.name for path in folder.iterdir()}
    assert capsys.readouterr() == ("", "")
    shown = dict(re.findall(r"^(done|best) +# (<.*>)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert re.sub(r"Evaluation \w+", "", shown["done"]) == re.sub(r"Evaluation \w+", "", repr(names["done"]))
    assert shown["best"] == repr(names["best"])


def test_the_how_to_names_every_public_function():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in sweepdb.__all__ if name[0].islower() and f"sweepdb.{name}" not in text] == []


def test_the_readme_runs_over_that_store(ran, monkeypatch):
    monkeypatch.chdir(ran[0])
    monkeypatch.delenv("SWEEPDB_STORE", raising=False)
    (block,) = blocks_of(ROOT / "README.md")
    exec(compile(block, "README.md", "exec"), {})
