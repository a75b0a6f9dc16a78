"""The drawing script is bundled once, kept under its digest, and never taken from a file that is something else."""

from __future__ import annotations

import pytest

from sweepdb.reporting import drawing, vega_script


class Engine:
    """In place of the package that draws: counts how often it bundles."""

    def __init__(self):
        self.bundled = 0

    def javascript_bundle(self):
        self.bundled += 1
        return "window.vega = 'ä';\r\n"


@pytest.fixture
def engine(monkeypatch, tmp_path):
    made = Engine()
    monkeypatch.setattr(drawing, "drawing_engine", lambda: made)
    monkeypatch.setattr(drawing, "version", lambda _: "1.2.3")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield made
    vega_script.cache_clear()  # what it bundled is none


def anew():
    """As a new process has it."""
    vega_script.cache_clear()
    return vega_script()


def test_the_second_process_reads_what_the_first_bundled(engine, tmp_path):
    first = anew()
    assert (anew(), engine.bundled) == (first, 1)
    (kept,) = (tmp_path / "cache" / "sweepdb").iterdir()
    assert kept.name.startswith("vega-1.2.3-")


def test_a_file_that_is_not_of_its_digest_is_none(engine, tmp_path):
    first = anew()
    (kept,) = (tmp_path / "cache" / "sweepdb").iterdir()
    kept.write_text("alert(1)")
    assert (anew(), engine.bundled) == (first, 2)
    assert (anew(), engine.bundled) == (first, 2)


def test_a_file_of_somebody_else_is_none(engine, monkeypatch):
    first = anew()
    monkeypatch.setattr(drawing.os, "getuid", lambda: -1)
    assert (anew(), engine.bundled) == (first, 2)


def test_a_home_that_takes_no_file_costs_the_bundling_alone(engine, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert anew() == anew()
    assert engine.bundled == 2
