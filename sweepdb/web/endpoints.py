"""GET /api/v1/...: questions as addresses, answers as JSON, CSV, SVG or a picture's specification."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from queries.asking import Json, asked_reports, keywords_of, old_name_note, picture_of, report_pictures
from queries.dictionary import dictionary
from queries.scope_list import ScopeEntry, any_measured, stored_scopes
from store.errors import InputError
from store.location import StoreLocation
from store.texts import plain
from sweepdb.deciding import REPORT
from sweepdb.reporting import drawn
from sweepdb.web import documents, listings
from sweepdb.web.asked import question_of_parameters
from sweepdb.web.pool import SessionPool, UnknownPathError
from sweepdb.web.statements_apart import STATEMENT_LETTERS, rows_apart

_OF_DECISIONS = ("budget", "gain", "mode")
_OWN = {"state", "picture"}  # parameters of an address that are no option
_FORMATS = ("csv", "svg", "vl")
_DRAWN = ("sweeps", "measured", "regress", "trend")  # beside answers, what has these forms


class Endpoints:
    def __init__(self, pool: SessionPool, *, sql: bool = False) -> None:
        self._pool = pool
        self._sql = sql

    def routes(self) -> list[Route]:
        found: dict[str, Callable[[Request], object]] = {
            **{path: getattr(self, path.partition("/")[0]) for path in documents.documented_paths()},
            "openapi.json": self.openapi,
            "answer/{name}": self.answer,
            "decide.sh": self.decide,
        }
        found |= {f"{name}.{form}": found[name] for name in _DRAWN for form in _FORMATS}
        routes = [Route(f"/api/v1/{path}", answered) for path, answered in found.items()]
        return [*routes, Route("/api/v1/sql", self.sql, methods=["POST"])] if self._sql else routes

    async def answer(self, request: Request) -> Response:
        return await self._answered(str(request.path_params["name"]), request)

    async def decide(self, request: Request) -> Response:
        """The deployment to choose now, and the runs worth most; decide.sh is the script of the next run."""
        own = {name: request.query_params[name] for name in _OF_DECISIONS if name in request.query_params}
        parameters = [item for item in request.query_params.multi_items() if item[0] not in _OWN | own.keys()]
        question = question_of_parameters(REPORT, parameters)
        if request.url.path.endswith(".sh"):
            script = await self._pool.run(lambda: listings.decision_script(self._pool.location, question, own))
            return PlainTextResponse(script, media_type="text/x-shellscript")
        state = await self._pool.state()
        told = await self._pool.run(lambda: listings.decision_document(self._pool.location, question, own))
        return await _document(lambda: {**told, "state": state})

    async def coverage(self, request: Request) -> Response:
        return await self._answered("coverage", request)

    async def _answered(self, asked: str, request: Request) -> Response:
        name, _, form = asked.partition(".")
        note = old_name_note(name)
        if (note is None and name.replace("-", "_") not in asked_reports()) or (form and form not in _FORMATS):
            raise UnknownPathError(f"there is no report {asked!r}", hint="/api/v1/reports lists them")
        parameters = [item for item in request.query_params.multi_items() if item[0] not in _OWN]
        question = question_of_parameters(name, parameters)
        note = note or old_name_note(name, question.options.rank_by)
        told = await self._pool.ask(question, request.query_params.get("state"))
        if form == "csv":
            lines = await asyncio.to_thread(
                documents.csv_text, told.answer.columns, told.answer.rows[: documents.MOST_LINES]
            )
            return PlainTextResponse(lines, media_type="text/csv")
        if form == "vl":
            return await _document(lambda: picture_of(told.answer))
        if form == "svg":
            return await self._drawn(await asyncio.to_thread(picture_of, told.answer))
        picture = request.query_params.get("picture")
        picture = picture if picture in {"true", documents.PICTURE_SHAPE} else None
        response = await _document(lambda: documents.answer_document(told, picture=picture, note=note))
        response.headers["etag"] = f'"{told.state}"'
        return response

    async def reports(self, _: Request) -> Response:
        return JSONResponse(
            [
                {
                    "name": asked.name,
                    "summary": asked.summary,
                    "picture": asked.name in report_pictures(),
                    "parameters": [documents.parameter_of(one) for one in keywords_of(asked)],
                    "columns": [{"name": one.name, "unit": one.unit, "meaning": one.meaning} for one in asked.columns],
                }
                for asked in asked_reports().values()
            ]
        )

    async def scope(self, _: Request) -> Response:
        """Scopes that can be asked about, the newest first."""
        state = await self._pool.state()
        rows, measured = await self._pool.run(
            lambda: (stored_scopes(self._pool.location), any_measured(self._pool.location))
        )
        document = {**documents.table_document(ScopeEntry._fields, rows), "state": state, "measured": measured}
        return JSONResponse({**document, "store": self._pool.location.display, "sql": self._sql})

    async def state(self, _: Request) -> Response:
        return JSONResponse({"state": await self._pool.state(), "store": self._pool.location.display})

    async def schema(self, _: Request) -> Response:
        return JSONResponse(plain([
            {
                "name": one.name, "kind": one.kind, "meaning": one.meaning,
                "columns": [asdict(column) for column in one.columns],
            }
            for one in dictionary()
        ]))  # fmt: skip

    async def sweeps(self, request: Request) -> Response:
        return await self._listed(request, listings.sweeps_listing)

    async def measured(self, request: Request) -> Response:
        metric = request.query_params.get("metric")
        return await self._listed(request, lambda location: listings.measured_listing(location, metric))

    async def regress(self, request: Request) -> Response:
        """Changes from `baseline` to `against`, the surely worse first."""
        return await self._listed(request, lambda location: listings.regress_listing(location, request.query_params))

    async def trend(self, request: Request) -> Response:
        return await self._listed(request, lambda location: listings.trend_listing(location, request.query_params))

    async def probe(self, request: Request) -> Response:
        reference = _named(request)
        return await self._listed(request, lambda location: listings.probe_listing(location, reference))

    async def explain(self, request: Request) -> Response:
        """The operators of a stored step, the longest first; of two probes, side by side."""
        reference, step = _named(request), request.query_params.get("step")
        return await self._listed(request, lambda location: listings.explained_listing(location, reference, step))

    async def _listed(self, request: Request, listing: Callable[[StoreLocation], listings.Listing]) -> Response:
        state = await self._pool.state()
        found = await self._pool.run(lambda: listing(self._pool.location))
        form = request.url.path.rpartition("/")[2].partition(".")[2]
        if form == "csv":
            lines = await asyncio.to_thread(documents.csv_text, found.columns, found.rows[: documents.MOST_LINES])
            return PlainTextResponse(lines, media_type="text/csv")
        if form in {"vl", "svg"} and found.picture is None:
            raise UnknownPathError(f"there is no picture at {request.url.path}", hint="name a metric with `metric`")
        if form == "vl":
            return await _document(lambda: found.picture)
        if form == "svg":
            return await self._drawn(dict(found.picture or {}))
        if form:
            raise UnknownPathError(f"there is no form {form!r}", hint=f"forms: {', '.join(_FORMATS)}")
        told = {"sql": found.sql, "command": found.command, "headline": list(found.told), "state": state}
        return await _document(lambda: {**documents.table_document(found.columns, found.rows), **told})

    async def _drawn(self, spec: dict[str, Json]) -> Response:
        picture = await self._pool.run(lambda: drawn(spec, "svg"))
        return Response(picture, media_type="image/svg+xml")

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(documents.openapi_document(version("sweepdb"), sql=self._sql))

    async def sql(self, request: Request) -> Response:
        """One read-only statement, run in a process of its own."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > STATEMENT_LETTERS:
                raise InputError(f"A statement has at most {STATEMENT_LETTERS:,} bytes.")
        text = body.decode("utf-8", errors="replace")
        told = await self._pool.run(lambda: rows_apart(self._pool.location, text))
        return Response(told, media_type="application/json")


async def _document(made: Callable[[], object]) -> Response:
    return await asyncio.to_thread(lambda: JSONResponse(made()))


def _named(request: Request) -> str:
    return str(request.path_params["reference"]).partition(".")[0]
