"""serve, mcp and watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli.derived import as_typed
from cli.output import FORMATS, check_format, say, tell, typed, write_rows, write_text
from cli.shared_options import OutputOption, StoreOption, TimeoutOption
from store.errors import Drifted, InputError
from sweepdb import stores, watching, web


def serve(  # noqa: PLR0917  one parameter an option
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes one that is free")] = 8787,
    host: Annotated[str, typer.Option(help="beyond this machine it needs --token-file")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="another name that it is asked under; may be repeated")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="file of a token that every request must bring")] = None,
    sql: Annotated[bool, typer.Option("--sql", help="take read-only SQL too: 10 s, 1 GiB, 10,000 rows")] = False,
    timeout: TimeoutOption = 30.0,
    open_: Annotated[bool, typer.Option("--open", help="open the page in a browser")] = False,
    store: StoreOption = None,
) -> None:
    """Serve a page with sliders over the stored rows, and the same answers as REST. Read-only."""
    _require("starlette", "uvicorn", "vl_convert", extra="serve")
    served = web.Served(
        location=stores.parse_url(store),
        host=host,
        port=port,
        allow_host=tuple(allow_host or ()),
        token_file=token_file,
        sql=sql,
        timeout_s=timeout,
    )

    def ready(address: str) -> None:
        tell(f"serving {served.location.display} at {address} (^C ends it)")
        if open_:
            import threading

            from cli.output import browse

            threading.Thread(target=browse, args=(address,), daemon=True).start()  # some return when they are closed

    with web.bound_socket(served) as listening:
        web.serve(served, listening, ready)


def mcp(
    sql: Annotated[bool, typer.Option("--sql", help="a tool for read-only SQL too: 10 s, 1 GiB")] = False,
    timeout: TimeoutOption = 30.0,
    store: StoreOption = None,
) -> None:
    """Answer an assistant's questions about the stored rows, as tools of the Model Context Protocol over stdio."""
    _require("mcp", extra="mcp")
    web.run_assistant(stores.parse_url(store), sql=sql, timeout_s=timeout)


_Server = Annotated[
    list[str] | None,
    typer.Argument(
        help="stored row (a1b2c3d4:19), both rows of a disaggregated server, or folder of launch; default: the only one"
    ),
]
_Metrics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL|FILE",
        help="its metrics; several files: pages in their order; prefill=URL and decode=URL where these are apart",
    ),
]
_Every = Annotated[
    float | None, typer.Option(help="seconds between two readings; of files: how far apart they were read")
]
_During = Annotated[float | None, typer.Option("--for", help="seconds to read for; default: two readings")]
_Model = Annotated[str | None, typer.Option(help="a part of the stored model's name, if the server has another")]
_Device = Annotated[str | None, typer.Option(help="a part of the device's name")]
_ServedAs = Annotated[str | None, typer.Option(help="the model's name on a page that has several")]
_Ttft = Annotated[float | None, typer.Option(help="mean time to first token to keep, ms")]
_Tpot = Annotated[float | None, typer.Option(help="mean time per output token to keep, ms")]
_Arrivals = Annotated[
    str, typer.Option(help="poisson: requests come at random moments; users: as many always ask, as in a benchmark")
]
_Tolerance = Annotated[float, typer.Option(help="percent up to which a difference is as planned")]
_Baseline = Annotated[Path | None, typer.Option(help="JSON of an earlier answer, from when the server was as planned")]
_Keep = Annotated[Path | None, typer.Option(help="add what was seen to this CSV of measured points, and import it")]


def watch(  # noqa: PLR0917  one parameter an option
    server: _Server = None,
    metrics: _Metrics = None,
    every: _Every = None,
    during: _During = None,
    model: _Model = None,
    device: _Device = None,
    served_as: _ServedAs = None,
    ttft_limit: _Ttft = None,
    tpot_limit: _Tpot = None,
    arrivals: _Arrivals = "poisson",
    tolerance: _Tolerance = 5.0,
    baseline: _Baseline = None,
    keep: _Keep = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv, json, jsonl or parquet")] = "table",
    output: OutputOption = None,
    store: StoreOption = None,
) -> None:
    """Compare the metrics of a server that runs with its stored row at that load. Exit 5 when it has drifted.

    Reads Prometheus pages of vLLM, SGLang and TensorRT-LLM. Drift: slower, other lengths, or a limit that is missed."""
    check_format(format_, output, known=FORMATS)
    if not metrics:
        raise InputError(
            "watch needs --metrics", hint="sweepdb watch --metrics http://127.0.0.1:8000/metrics --every 60"
        )
    found = watching.watch(
        _by_side(metrics), server or None, every=every, during=during, model=model, device=device, served_as=served_as,
        ttft_limit=ttft_limit, tpot_limit=tpot_limit, arrivals=arrivals, tolerance=tolerance, baseline=baseline,
        keep=keep, store=store,
    )  # fmt: skip
    _write_watched(found, format_, output)
    if found.drifted:
        raise Drifted(f"{found.probe} is not as planned", hint="the lines above say how")


def _write_watched(found: watching.Watched, format_: str, output: Path | None) -> None:
    if format_ == "table":
        from cli.render.decisions import watched_lines

        write_text(typed(watched_lines(found)), output)
        return
    write_rows(found.columns, found.rows, format_, output)
    for line in found.sentences():
        say(as_typed(line))


def _by_side(metrics: Sequence[str]) -> Sequence[str] | Mapping[str, list[str]]:
    """One server's pages, or prefill's and decode's."""
    found: dict[str, list[str]] = {}
    for one in metrics:
        side, separator, page = one.partition("=")
        if separator and side in {"prefill", "decode"}:
            found.setdefault(side, []).append(page)
    if found and sum(map(len, found.values())) < len(metrics):
        raise InputError("some `metrics` name their side, and some do not", hint="`metrics=prefill=URL`")
    return {side: found[side] for side in ("prefill", "decode") if side in found} if found else metrics


def _require(*packages: str, extra: str) -> None:
    """Refuses a command before it starts."""
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        listed = ", ".join(name.replace("_", "-") for name in missing)
        raise InputError(f"{listed} is not installed", hint=f"pip install 'sweepdb[{extra}]'")
