"""Showing something in the reader's browser, where there is one."""

from __future__ import annotations

import webbrowser

from cli.output import say, tell


def browse(address: str, *, shown: str | None = None) -> None:
    """Open an address in a browser, and say `shown`; where none can be started, say what to open."""
    if not webbrowser.open(address):
        tell(f"no browser can be started here; this is what it would show: {address}")
    elif shown is not None:
        say(shown)
