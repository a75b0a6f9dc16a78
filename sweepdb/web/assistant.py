"""Questions as tools of an assistant, over stdio: what is stored, reports, operators, SQL where it is switched on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from importlib.metadata import version
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from queries.asking import asked_reports, old_name_note, question_of, question_report
from queries.dictionary import dictionary
from queries.scope_list import ScopeEntry, stored_scopes
from store.errors import InputError, SweepdbError
from store.location import StoreLocation
from store.reading import read_store_id
from store.texts import escaped
from sweepdb.deciding import BUDGET, GAIN, MODE, REPORT, Mode
from sweepdb.web.documents import answer_document, table_document
from sweepdb.web.listings import Listing, decision_document, regress_listing, trend_listing
from sweepdb.web.pool import SessionPool
from sweepdb.web.statements_apart import rows_apart

MOST_ROWS = 100
MOST_BYTES = 32_000  # as they are sent: the document is a text within another
_MOST_LETTERS = 1_000  # of a text, where an answer is too long
_MOST_SAID = 1_500  # letters of a refusal
_SAID = 300  # letters of what is repeated of a wrong call
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_KEPT = ("report", "summary", "columns", "rows", "groups", "nearest", "limits", "rules", "versions", "expected_error",
         "ttft_intervals", "verdict", "notes", "left_out", "considered")  # fmt: skip
_ABOUT = (
    "Answers about serving large language models, from rows that are stored: every parallel plan at every batch size,"
    " predicted by an analytic model, and measured points. Nothing is evaluated or written. Call scope first; ask"
    " takes a report (best, pareto, deployments, pd-ratio, sensitivity ...) and options: tpot_limit (ms),"
    " ttft_limit (ms), by (goodput: requests that arrive), num_devices, model, device, workload, top."
    " Say the expected error with every number."
)
Options = dict[str, Any]
Document = dict[str, Any]
_Tool = Callable[..., Awaitable[Document]]


class Assistant:
    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool

    async def scope(self) -> Document:
        """Models, devices, workloads and formats that are stored, the newest first; and the reports there are."""
        rows = await self._pool.run(lambda: stored_scopes(self._pool.location))
        reports = {one.name: one.summary for one in asked_reports().values()}
        return _short({**table_document(ScopeEntry._fields, rows), "reports": reports})

    async def ask(self, report: str, options: Options | None = None) -> Document:
        """The answer of a report under options: limits in ms, scope, a device budget; an unknown one names the nearest.

        Rows come with units, rules and the expected error; where nothing satisfies the limits, the nearest misses."""
        question_report(report)
        told = await self._pool.ask(question_of(report, options or {}))
        document = answer_document(told, note=old_name_note(report, told.answer.question.options.rank_by))
        return _short({name: document[name] for name in _KEPT})

    async def why(self, first: str, second: str, options: Options | None = None) -> Document:
        """Two stored rows side by side, such as a1b2c3d4:18: which limits each meets, and where steps spend time."""
        return await self.ask("why", {**(options or {}), "probes": (first, second)})

    async def decide(
        self, options: Options | None = None, budget: int = BUDGET, gain: float = GAIN, mode: Mode = MODE
    ) -> Document:
        """The deployment to choose on what is known now, how sure that is, and the run worth most for it.

        Options are those of the report deployments: limits in ms, num_devices, concurrency or target_rate, scope."""
        question = question_of(REPORT, options or {})
        own = {"budget": budget, "gain": gain, "mode": mode}
        told = await self._pool.run(lambda: decision_document(self._pool.location, question, own))
        return _short({name: value for name, value in told.items() if name != "bands"})

    async def regress(
        self, baseline: str, against: str, model: str | None = None, device: str | None = None
    ) -> Document:
        """Changes from one side to the other, the surely worse first: a tag, an engine's version, days or a sweep.

        Days are written 2026-05-01 or 2026-05-01..2026-05-31. A sweep is predicted: it has no interval of repeats."""
        asked = {"baseline": baseline, "against": against, "model": model, "device": device}
        return await self._listed(regress_listing, asked)

    async def trend(self, model: str | None = None, device: str | None = None) -> Document:
        """On which day, and with which version of the engine, a measured setting's level stepped."""
        return await self._listed(trend_listing, {"model": model, "device": device})

    async def _listed(
        self, listing: Callable[[StoreLocation, Mapping[str, str]], Listing], asked: Mapping[str, str | None]
    ) -> Document:
        given = {name: value for name, value in asked.items() if value is not None}
        found = await self._pool.run(lambda: listing(self._pool.location, given))
        return _short({**table_document(found.columns, found.rows), "verdict": list(found.told)})

    async def coverage(self, options: Options | None = None) -> Document:
        """Everything that is stored: how densely, and with how many failures."""
        return await self.ask("coverage", options)

    async def explain(self, probe: str, other: str | None = None) -> Document:
        """The operators of a stored row's steps with their times, the longest first; or of two rows, side by side."""
        from sweepdb.explaining import explain_probes

        asked = [probe] if other is None else [probe, other]
        found = await self._pool.run(lambda: explain_probes(asked, self._pool.location.url, step=None))
        columns, rows = found.side_by_side(None) if other is not None else found.rows(None)
        return _short({**table_document(columns, rows), "stored": [line for line in found.headline() if line]})

    async def sql_schema(self, relation: str | None = None) -> Document:
        """Relations of SQL with what they are; the columns of one by its name."""
        known = {one.name: one for one in await self._pool.run(dictionary)}
        if relation is None:
            return _short(table_document(("relation", "meaning"), [(one.name, one.meaning) for one in known.values()]))
        if relation not in known:
            raise InputError(f"there is no relation {relation!r}", hint="without a name, every relation is listed")
        rows = [(one.name, one.type, one.unit, one.meaning) for one in known[relation].columns]
        return _short(table_document(("column", "type", "unit", "meaning"), rows))

    async def sql(self, statement: str) -> Document:
        """The rows of one read-only SELECT of DuckDB's dialect over the stored relations."""
        return _short(await self._pool.run(lambda: json.loads(rows_apart(self._pool.location, statement))))


def _short(document: Document) -> Document:
    """A document of at most 100 rows and 32 kB, with how many rows it leaves out. Texts that are cut end in dots."""
    rows = document["rows"]
    kept = {**document, "rows": rows[:MOST_ROWS], "more_rows": len(rows)}
    if _bytes_of(kept) > MOST_BYTES:
        kept = _cut(kept)
    while _bytes_of(kept) > MOST_BYTES and len(kept["rows"]) > 1:
        kept["rows"] = kept["rows"][: len(kept["rows"]) // 2]
    while _bytes_of(kept) > MOST_BYTES:  # one row, or columns without end
        longest = max(
            (name for name in kept if kept[name] and name != "report"), key=lambda name: _bytes_of(kept[name])
        )
        held = kept[longest]
        kept[longest] = held[: len(held) // 2] if isinstance(held, list | str) else None
    left = len(rows) - len(kept["rows"])
    return {name: value for name, value in kept.items() if name != "more_rows"} | ({"more_rows": left} if left else {})


def _bytes_of(value: object) -> int:
    """Bytes of a document as it is sent: a text of JSON, as a value of JSON."""
    return len(json.dumps(_text_of(value), ensure_ascii=False).encode(errors="replace"))


def _text_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any) -> Any:  # noqa: ANN401  of JSON
    if isinstance(value, str):
        return value if len(value) <= _MOST_LETTERS else f"{value[:_MOST_LETTERS]} ..."
    if isinstance(value, dict):
        return {_cut(name): _cut(item) for name, item in value.items()}
    return [_cut(item) for item in value] if isinstance(value, list) else value


def _told(work: _Tool) -> Callable[..., Awaitable[str]]:
    @wraps(work)
    async def tool(*arguments: Any, **named: Any) -> str:  # noqa: ANN401  those of the tool
        try:
            return _text_of(await work(*arguments, **named))
        except SweepdbError as error:
            raise ToolError(str(error)) from error

    return tool


class _Server(MCPServer):
    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; what is wrong with the call is its result, as a sentence."""
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            text = escaped(_sentence(name, error))
            text = text if len(text) <= _MOST_SAID else f"{text[: _MOST_SAID // 2]} ... {text[-_SAID:]}"
            return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _sentence(name: str, error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        wrong = cause.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the call"
        return f"`{place[:_SAID]}` of {name}: {wrong['msg'][:_SAID]}."
    if cause is not None:
        return str(cause)
    return f"There is no tool {name[:_SAID]!r}."


def assistant_server(pool: SessionPool, *, sql: bool) -> MCPServer:
    """A server with its tools; all of them only read."""
    server = _Server("sweepdb", instructions=_ABOUT, version=version("sweepdb"), log_level="ERROR")
    tools = Assistant(pool)
    offered: list[_Tool] = [
        tools.scope,
        tools.ask,
        tools.decide,
        tools.why,
        tools.regress,
        tools.trend,
        tools.coverage,
        tools.explain,
        tools.sql_schema,
    ]
    for work in (*offered, tools.sql) if sql else offered:
        server.add_tool(_told(work), name=work.__name__, annotations=_READS, structured_output=False)
    return server


def run_assistant(location: StoreLocation, *, sql: bool = False, timeout_s: float = 30.0) -> None:
    """Answer over standard input and output until the assistant goes."""
    read_store_id(location)
    pool = SessionPool(location, timeout_s=timeout_s)
    try:
        asyncio.run(assistant_server(pool, sql=sql).run_stdio_async())
    finally:
        pool.close()
