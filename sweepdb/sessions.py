"""Sessions whose answers read the store's own measured points. Not here: asking (queries.session)."""

from __future__ import annotations

from queries.session import Session
from store.location import StoreLocation, parse_url
from sweepdb.own_runs import own_points


def session_at(location: StoreLocation, *, memory_share: float = 1.0) -> Session:
    """A session on a store, corrected by its own runs."""
    return Session(location, memory_share=memory_share, own_points=own_points)


def open_session(url: str | None = None) -> Session:
    """A session on the store at `url`, or at SWEEPDB_STORE, or on sweepdb.sqlite here."""
    return session_at(parse_url(url))
