"""Sessions that read the store's own points under our names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from queries.measured_rows import NamedServer, ServerNamer, StatedServer
from queries.session import Session
from store.location import StoreLocation, parse_url
from sweepdb import own_runs
from sweepdb.own_runs import own_points, program_files

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


def server_named(one: StatedServer) -> NamedServer:
    """Reads the catalogue only when asked."""
    return own_runs.server_of(one)


SERVERS = ServerNamer(server_named, decided_by=lambda: repr(program_files()))


def session_at(location: StoreLocation, *, memory_share: float = 1.0) -> Session:
    return Session(location, memory_share=memory_share, own_points=own_points, named=SERVERS)


def open_session(url: str | None = None) -> Session:
    """At `url`, SWEEPDB_STORE, or sweepdb.sqlite here."""
    return session_at(parse_url(url))


@contextmanager
def asked_beside(url: str | None, ask: Callable[[Session], T]) -> Iterator[Future[T]]:
    """Have another thread ask a session of its own meanwhile. DuckDB plans a question on one core, which takes longer
    than to answer it where rows are few. An answer that nobody waited for is given up."""
    from concurrent.futures import ThreadPoolExecutor

    with session_at(parse_url(url), memory_share=0.5) as session, ThreadPoolExecutor(max_workers=1) as thread:
        try:
            yield thread.submit(ask, session)
        finally:
            session.interrupt()
