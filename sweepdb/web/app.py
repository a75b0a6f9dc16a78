"""Pages, files and REST behind the guard.

Vega comes from the installed vl-convert: nothing is downloaded."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from queries.scope_list import SHOWN_FIRST, stored_scopes
from store.errors import SweepdbError
from sweepdb.reporting import vega_script
from sweepdb.web.asked import question_of_parameters
from sweepdb.web.documents import limits_module
from sweepdb.web.endpoints import Endpoints
from sweepdb.web.guard import Guard
from sweepdb.web.pool import SessionPool, UnknownPathError, status_of, told

STATIC = Path(__file__).parent / "static"
PAGES = (
    "",
    "decide",
    "pd",
    "goodput",
    "sensitivity",
    "curves",
    "why",
    "explain",
    "coverage",
    "diff",
    "measured",
    "sweeps",
)
_BUSY_S = "1"
_REFUSALS = frozenset({400, 404})
_EVENLY = 6  # of gzip, once a process


def build_web(pool: SessionPool, *, names: frozenset[str], token: str | None = None, sql: bool = False) -> ASGIApp:
    """`names` are those it is asked under."""

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm(pool))
        yield
        warming.cancel()
        await asyncio.to_thread(pool.close)

    pages = [Route(f"/{name}", _page) for name in PAGES]
    files = [
        Route("/vega.js", _vega),
        Route("/favicon.ico", _icon),
        Route("/static/limits.js", _limits),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    inner = Starlette(
        routes=[*pages, *Endpoints(pool, sql=sql).routes(), *files],
        lifespan=life,
        middleware=[Middleware(GZipMiddleware, minimum_size=2_000, compresslevel=1)],
        exception_handlers={SweepdbError: _told, HTTPException: _not_found, ClientDisconnect: _gone},
    )
    return Guard(inner, names=names, token=token, posts=frozenset({"/api/v1/sql"} if sql else ()))


async def _warm(pool: SessionPool) -> None:
    """Asks the page's first question while a browser opens; an empty store is no fault."""
    bundling = asyncio.create_task(asyncio.to_thread(_bundle))
    with suppress(SweepdbError):
        newest = next(iter(await pool.run(lambda: stored_scopes(pool.location))), None)
        if newest is not None:
            scope = [(name, str(getattr(newest, name))) for name in SHOWN_FIRST]
            for report in ("pareto", "best"):
                await pool.ask(question_of_parameters(report, scope))
    with suppress(SweepdbError):
        await bundling


async def _page(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


async def _icon(_: Request) -> Response:
    return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")


async def _limits(_: Request) -> Response:
    return Response(limits_module(), media_type="text/javascript")


@cache
def _bundle() -> bytes:
    return gzip.compress(vega_script().encode(), _EVENLY)


async def _vega(request: Request) -> Response:
    packed = await asyncio.to_thread(_bundle)
    headers = {"cache-control": "max-age=86400", "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
    else:
        packed = gzip.decompress(packed)
    return Response(packed, media_type="text/javascript", headers=headers)


async def _told(request: Request, error: Exception) -> Response:
    """Says what is wrong and what to do next.

    Our pages ask for refusals as 200: browsers log other statuses as faults."""
    if not isinstance(error, SweepdbError):
        raise error
    status = status_of(error)
    if status in _REFUSALS and request.headers.get("x-refusals") == "told":
        return JSONResponse({"refused": status, **told(error)})
    headers = {"retry-after": _BUSY_S} if status == 503 else None
    return JSONResponse(told(error), status, headers)


async def _gone(_: Request, __: Exception) -> Response:
    """Left in the middle of a request: nothing to log."""
    return Response(status_code=400)


async def _not_found(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code != 404:
        return JSONResponse({"error": error.detail, "hint": None}, error.status_code)
    return await _told(request, UnknownPathError(f"there is nothing at {request.url.path}", hint="/ is the page"))
