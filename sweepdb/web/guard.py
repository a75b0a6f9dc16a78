"""Who may ask: own names, reading alone, no other site's pages, a token beyond this machine.

Another site's page can give this machine's address a name; only a list of names refuses that."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "sweepdb_token"
API = "/api/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}
_ENTERED = '<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>sweepdb</title>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Status, and an error's two sentences."""

    status: int
    error: str
    hint: str


def host_name(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")


class Guard:
    """Around an ASGI application."""

    def __init__(
        self, app: ASGIApp, *, names: frozenset[str], token: str | None = None, posts: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._names = names
        self._token = token
        self._posts = posts  # paths that take a body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a handshake of a WebSocket ends here

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if str(scope["path"]).startswith(API):
                    headers["cache-control"] = "no-store"
            await send(message)

        refused = self.refusal(scope)
        if refused is not None:
            response: Response = JSONResponse({"error": refused.error, "hint": refused.hint}, refused.status)
            if refused.status == 405:
                response.headers["allow"] = "GET, HEAD"
            await response(scope, receive, guarded)
        elif self._token is not None and self._is_entering(scope):
            await self._entered()(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def refusal(self, scope: Scope) -> Refusal | None:
        """None: let in."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._names:
            return Refusal(
                status=421,
                error="this server does not answer under that name",
                hint="name it with `allow_host` where it is yours",
            )
        if scope["method"] not in {"GET", "HEAD"} and not (scope["method"] == "POST" and scope["path"] in self._posts):
            return Refusal(status=405, error="this server only reads", hint="ask with GET")
        if not _is_own(headers, str(scope["path"]), str(scope["method"])):
            return Refusal(status=403, error="a page of another site asked", hint="open the address by itself")
        if self._token is not None and not self._is_entering(scope) and not self._has_token(headers):
            return Refusal(
                status=401,
                error="a token is needed",
                hint="open /?token=TOKEN once in a browser, or send it as Authorization: Bearer TOKEN",
            )
        return None

    def _has_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_entering(self, scope: Scope) -> bool:
        """The front page with the token in its address, as a person opens it once."""
        if scope["path"] != "/":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and self._is_token(given[0])

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _entered(self) -> Response:
        response = HTMLResponse(_ENTERED)
        response.set_cookie(COOKIE, str(self._token), httponly=True, samesite="strict", path="/")
        return response


def _is_own(headers: Headers, path: str, method: str) -> bool:
    """A link from another site may open a page: it reads nothing."""
    site = headers.get("sec-fetch-site", "none")
    if site in {"none", "same-origin"}:
        return True
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return method == "GET" and opened and not path.startswith(API)
