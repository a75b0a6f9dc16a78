"""Sessions whose answers read the store's own measured points, and know their servers by our names.

Not here: asking (queries.session)."""

from __future__ import annotations

from queries.learning import OwnPoints
from queries.measured_rows import NamedServer, StatedServer
from queries.session import Session
from store.location import StoreLocation, parse_url
from store.reading import read_transaction

_ANY = "SELECT 1 FROM measurement LIMIT 1"


def own_points(location: StoreLocation) -> OwnPoints:
    """The measured points of a store; without any, nothing is imported to read them."""
    with read_transaction(location) as transaction:
        if not list(transaction.values(int, _ANY)):
            return OwnPoints()
    from store.opening import open_store
    from store.writing import get_measurements
    from sweepdb.own_points import points_of_records

    with open_store(location.url, read_only=True) as store:
        return points_of_records(get_measurements(store))


def server_named(one: StatedServer) -> NamedServer:
    """A server of measured settings by the names of stored rows; the catalogue is read when somebody asks of any."""
    from sweepdb.own_points import server_of

    return server_of(one)


def session_at(location: StoreLocation, *, memory_share: float = 1.0) -> Session:
    """A session on a store, corrected by its own runs."""
    return Session(location, memory_share=memory_share, own_points=own_points, named=server_named)


def open_session(url: str | None = None) -> Session:
    """A session on the store at `url`, or at SWEEPDB_STORE, or on sweepdb.sqlite here."""
    return session_at(parse_url(url))
