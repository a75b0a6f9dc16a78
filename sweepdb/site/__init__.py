"""A store as files: the page Explore over DuckDB for browsers, for any file host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.site.engine import find_engine, packed
    from sweepdb.site.site_folder import publish_site

__getattr__, __dir__ = lazy_face(__name__)
