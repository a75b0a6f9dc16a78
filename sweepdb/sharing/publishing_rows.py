"""`publish` as a function: a store's public views as tables that other programs read."""

from __future__ import annotations

import os

from queries.publishing import Publication
from queries.publishing import publish as published
from store.location import parse_url


def publish(to: str | os.PathLike[str], *, store: str | None = None) -> Publication:
    """Lay the public views of a store down at `to`, or bring what lies there up to date.

    `to` is FILE.duckdb, FILE.sqlite, FOLDER.parquet or postgresql://...; blocks that lie there stay."""
    return published(parse_url(store), os.fspath(to))
