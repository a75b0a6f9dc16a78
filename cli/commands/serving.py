"""serve: a page over the stored probes. mcp: the same questions as tools. Not here: what is served (sweepdb.web)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import tell
from cli.shared_options import StoreOption, TimeoutOption
from store.errors import InputError


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
) -> int:
    """Serve a page with sliders over the stored rows, and the same answers as REST. Read-only."""
    _require("starlette", "uvicorn", "vl_convert", extra="serve")
    from sweepdb.stores import parse_url
    from sweepdb.web import Served, bound_socket
    from sweepdb.web import serve as serve_until_interrupted

    served = Served(
        location=parse_url(store),
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

    with bound_socket(served) as listening:
        serve_until_interrupted(served, listening, ready)
    return 0


def mcp(
    sql: Annotated[bool, typer.Option("--sql", help="a tool for read-only SQL too: 10 s, 1 GiB")] = False,
    timeout: TimeoutOption = 30.0,
    store: StoreOption = None,
) -> int:
    """Answer an assistant's questions about the stored rows, as tools of the Model Context Protocol over stdio."""
    _require("mcp", extra="mcp")
    from sweepdb.stores import parse_url
    from sweepdb.web import run_assistant

    run_assistant(parse_url(store), sql=sql, timeout_s=timeout)
    return 0


def _require(*packages: str, extra: str) -> None:
    """Refuse a command whose packages are not installed, before it does anything."""
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        listed = ", ".join(name.replace("_", "-") for name in missing)
        raise InputError(f"{listed} is not installed", hint=f"pip install 'sweepdb[{extra}]'")
