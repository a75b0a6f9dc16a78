"""Fixtures shared by all tests: stores on SQLite and PostgreSQL, and a server that is started once when it is needed."""

from __future__ import annotations

import secrets

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


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: Server):
    """The name of a database that holds an empty store: copying it is five times faster than creating one."""
    from store.opening import open_store

    url = postgresql_server.new_database()
    open_store(url, create=True).close()
    return url.rpartition("/")[2]


@pytest.fixture
def postgresql_store_url(postgresql_server: Server, postgresql_template: str):
    """The address of an empty PostgreSQL store with an identity of its own."""
    import psycopg

    url = postgresql_server.new_database(postgresql_template)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE store_identity SET store_id = %s", (secrets.token_hex(16),))
    yield url
    postgresql_server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request):
    """An empty opened store, once on each database."""
    from store.opening import open_store

    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgresql_store_url")
    with open_store(url, create=True) as opened:
        yield opened
