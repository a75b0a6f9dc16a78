"""A store that the command itself filled."""

from __future__ import annotations

import pytest
from conftest_cli import EXAMPLE, sweepdb


@pytest.fixture(scope="session")
def example_store(tmp_path_factory) -> str:
    """The README's example, evaluated once a test session."""
    url = f"sqlite:///{tmp_path_factory.mktemp('example')}/sweepdb.sqlite"
    outcome = sweepdb(EXAMPLE, url)
    assert outcome.code == 0, outcome.err
    return url
