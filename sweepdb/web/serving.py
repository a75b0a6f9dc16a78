"""Address and token, checked before anything opens, and uvicorn."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from store.errors import InputError
from store.location import StoreLocation
from store.reading import read_store_id
from sweepdb.web.app import build_web
from sweepdb.web.guard import LOOPBACK
from sweepdb.web.pool import SessionPool

_LEAST_TOKEN = 16  # letters
_IDLE_S = 5
_HEADERS_S = 10.0  # that a request may take to say what it wants


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where, under which names, to whom."""

    location: StoreLocation
    host: str = "127.0.0.1"
    port: int = 8787
    allow_host: tuple[str, ...] = ()
    token_file: Path | None = None
    sql: bool = False
    timeout_s: float = 30.0


class PromptProtocol(H11Protocol):
    """Half a request would hold a connection for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waited: asyncio.TimerHandle | None = None
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._waited is not None:
            self._waited.cancel()

    def _wait(self) -> None:
        """After 10 s."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._waited is not None:
                self._waited.cancel()
                self._waited = None
        elif self._waited is None or self._waited.cancelled():
            self._waited = self.loop.call_later(_HEADERS_S, self._close)

    def _close(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bound_socket(served: Served) -> socket.socket:
    """Or the reason why there is none."""
    if not is_loopback(served.host) and served.token_file is None:
        raise InputError(
            f"`host={served.host}` is reached from other machines, so a token is needed",
            hint="write 16 letters or more to a file and name it with `token_file`",
        )
    try:
        family = socket.AF_INET6 if ":" in served.host else socket.AF_INET
        return socket.create_server((served.host, served.port), family=family)
    except (OSError, OverflowError) as error:
        told = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{served.host}:{served.port} cannot be served: {told}", hint="`port=0` takes one that is free"
        ) from error


def serve(served: Served, listening: socket.socket, on_ready: Callable[[str], None]) -> None:
    """`on_ready` gets the page's address once the store can be read."""
    token = _token(served.token_file)
    read_store_id(served.location)
    bound = listening.getsockname()[1]
    pool = SessionPool(served.location, timeout_s=served.timeout_s, threads=os.cpu_count() or 1)
    names = frozenset({*LOOPBACK, *(name.lower() for name in served.allow_host), *_own_name(served.host)})
    app = build_web(pool, names=names, token=token, sql=served.sql)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, timeout_keep_alive=_IDLE_S, lifespan="on",
        timeout_graceful_shutdown=_IDLE_S, http=PromptProtocol,
    )  # fmt: skip
    shown = f"[{served.host}]" if ":" in served.host else served.host
    on_ready(f"http://{shown}:{bound}/")
    uvicorn.Server(config).run(sockets=[listening])


def _own_name(host: str) -> tuple[str, ...]:
    """As browsers write it; all network cards together have none."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104  compared with
        return ()
    return (f"[{host}]" if ":" in host else host.lower(),)


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: no token can be read there: {getattr(error, 'strerror', error)}") from error
    if len(token) < _LEAST_TOKEN or not token.isalnum():
        raise InputError(f"{path}: a token is {_LEAST_TOKEN} letters and digits or more", hint="openssl rand -hex 16")
    return token
