"""A store that the command itself filled."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from conftest_cli import EXAMPLE, sweepdb


@pytest.fixture(scope="session")
def example_store(tmp_path_factory) -> str:
    """One model on eight of a made-up device, evaluated once a test session."""
    url = f"sqlite:///{tmp_path_factory.mktemp('example')}/sweepdb.sqlite"
    outcome = sweepdb(EXAMPLE, url)
    assert outcome.code == 0, outcome.err
    return url


@pytest.fixture
def example_copy(example_store, tmp_path) -> str:
    """The example in a store of the test's own, for tests that write."""
    with (
        closing(sqlite3.connect(example_store.removeprefix("sqlite:///"))) as original,
        closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy,
    ):
        original.backup(copy)
    return f"sqlite:///{tmp_path}/copy.sqlite"
