"""Public views as tables of DuckDB, SQLite, PostgreSQL or Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.publishing.refreshing import Publication, publish

__getattr__, __dir__ = lazy_face(__name__)
