"""Fixtures shared by all tests: stores on SQLite and PostgreSQL, and a server that is started once when it is needed."""

from __future__ import annotations

import pytest
from postgresql_server import Server, running_server, why_not


@pytest.fixture(scope="session")
def postgresql_server():
    """A PostgreSQL server of this test run."""
    if reason := why_not():
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: Server):
    """The address of an empty PostgreSQL database."""
    url = postgresql_server.new_database()
    yield url
    postgresql_server.drop(url)


@pytest.fixture
def sqlite_url(tmp_path):
    """The address of a SQLite store that is not there yet."""
    return f"sqlite:///{tmp_path}/store.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request):
    """The address of a store that is not there yet, once on each database."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def store(store_url):
    """An empty opened store, once on each database."""
    from store.opening import open_store

    with open_store(store_url, create=True) as opened:
        yield opened
