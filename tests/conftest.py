"""Fixtures shared by all tests: stores on SQLite and PostgreSQL, and a server that is started once when it is needed."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from examples import MOST, PROFILE, examples
from hypothesis import settings
from page_port import alone_at_port
from postgresql_server import Server, running_server, why_not
from quick import LATER, STALE, begun_first, listed, quick

# No example has a deadline: a slow or busy machine takes longer, and that is no error. Examples are the same in every
# run, so that a check is red by the change that it checks; `make long` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, database=None, max_examples=examples(MOST))
settings.register_profile("new", deadline=None, max_examples=examples(MOST))
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(config, items):
    whole = not any("::" in argument for argument in config.args)
    found = {item.nodeid for item in items}
    files = {one.partition("::")[0] for one in found}
    without = tuple(
        one.partition("[")[0] + "[" for one in found if "[NOTSET" in one
    )  # their cases are files that are not here
    config.stash[STALE] = []
    for name, mark in LATER.items():
        later = listed(name)
        missing = [one for one in later - found if one.partition("::")[0] in files and not one.startswith(without)]
        config.stash[STALE] += missing if whole else []
        for item in items:
            if item.nodeid in later:
                item.add_marker(mark)


class LongestFirst:
    """Files whose tests take minutes begin, so that no core waits at the end for one of them."""

    @pytest.hookimpl(trylast=True)  # after files were put in an order by chance
    def pytest_collection_modifyitems(self, items):
        items.sort(key=begun_first)


def pytest_configure(config):
    """Where the user's cache cannot be written, tests have one of their own; workers inherit it."""
    config.pluginmanager.register(LongestFirst())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if not os.access(cache, os.W_OK | os.X_OK):
        own = tempfile.TemporaryDirectory(prefix="sweepdb-cache-")
        config.add_cleanup(own.cleanup)
        os.environ["XDG_CACHE_HOME"] = own.name


@pytest.fixture
def page_port():
    with alone_at_port():
        yield


@pytest.fixture(autouse=True, scope="session")
def copied_empty_stores(tmp_path_factory):
    """The revisions lay down the first SQLite store of a process; the next are copies with an identity of their own,
    which takes a tenth of a second less for each."""
    from store import migrating

    lay_down, template = migrating._initialise_file, tmp_path_factory.mktemp("empty") / "store.sqlite"

    def copy(path):
        if not template.exists():
            lay_down(template)
        shutil.copyfile(template, path)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE store_identity SET store_id = ?, created_at = ?", (secrets.token_hex(16), moment)
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrating, "_initialise_file", copy)
        yield


@pytest.fixture(scope="session")
def postgresql_server():
    if reason := why_not():
        pytest.skip(reason)
    with running_server() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: Server):
    url = postgresql_server.new_database()
    yield url
    postgresql_server.drop(url)


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store.sqlite"


DATABASES = quick(["sqlite", "postgresql"], rest=pytest.mark.survival)  # a few tests ask for both with `make test`


@pytest.fixture(params=DATABASES)
def store_url(request):
    """The address of a store that is not there yet, once on each database."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(scope="session")
def postgresql_shared_url(postgresql_server: Server):
    """The address of one store for many tests: emptying it takes milliseconds, a new database half a second."""
    from store.opening import open_store

    url = postgresql_server.new_database()
    open_store(url, create=True).close()
    return url


@pytest.fixture
def postgresql_store_url(postgresql_shared_url: str):
    """The address of an empty PostgreSQL store with an identity of its own."""
    import psycopg

    from store.revision import HEAD_REVISION

    with psycopg.connect(postgresql_shared_url) as connection:
        connection.execute("SET session_replication_role = replica")  # no triggers, no references, only this once
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            if table not in {"alembic_version", "store_identity"}:
                connection.execute(f"DELETE FROM {table}")
        connection.execute("SELECT setval(seqrelid, 1, false) FROM pg_sequence")
        connection.execute("UPDATE store_identity SET store_id = %s", (secrets.token_hex(16),))
        connection.execute("UPDATE alembic_version SET version_num = %s", (HEAD_REVISION,))
    return postgresql_shared_url


@pytest.fixture(params=DATABASES)
def store(request):
    """An empty opened store, once on each database; for tests that leave the schema as it is."""
    from store.opening import open_store

    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgresql_store_url")
    with open_store(url, create=True) as opened:
        yield opened


@pytest.fixture
def fresh_store(store_url):
    """An empty opened store, once on each database; for tests that change the schema."""
    from store.opening import open_store

    with open_store(store_url, create=True) as opened:
        yield opened
