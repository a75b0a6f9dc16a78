"""Sessions that read the store's own points under our names."""

from __future__ import annotations

from queries.measured_rows import NamedServer, StatedServer
from queries.session import Session
from store.location import StoreLocation, parse_url
from sweepdb.own_runs import own_points


def server_named(one: StatedServer) -> NamedServer:
    """Reads the catalogue only when asked."""
    from sweepdb.own_runs import server_of

    return server_of(one)


def session_at(location: StoreLocation, *, memory_share: float = 1.0) -> Session:
    return Session(location, memory_share=memory_share, own_points=own_points, named=server_named)


def open_session(url: str | None = None) -> Session:
    """At `url`, SWEEPDB_STORE, or sweepdb.sqlite here."""
    return session_at(parse_url(url))
