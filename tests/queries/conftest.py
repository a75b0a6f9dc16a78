"""A store that an engine serves, and any module's own `stored`, open for questions."""

import pytest
from served_store import write_served

import queries


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two devices, three plans and every phase, as an engine serves them."""
    url = f"sqlite:///{tmp_path_factory.mktemp('served')}/store.sqlite"
    write_served(url)
    return url


@pytest.fixture(scope="module")
def notebook(stored):
    opened = queries.open(stored if isinstance(stored, str) else stored[0])
    yield opened
    opened.close()
