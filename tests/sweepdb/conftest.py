"""Fixtures of tests about workers."""

import os
import sys

import pytest
from working_cases import request_of, rows

from evaluator.sweep import run_sweep
from store.opening import open_store


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """The rows that one process stores: tp 1, 2, 4 x three phases x two workloads x batch sizes 1 to 6."""
    url = f"sqlite:///{tmp_path_factory.mktemp('rows')}/store.sqlite"
    with open_store(url, create=True) as store:
        run_sweep(store, request_of())
    return rows(url)


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Caches and parts of the test alone, and this process's paths for those it starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SWEEPDB_PARTS", str(tmp_path / "parts"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
