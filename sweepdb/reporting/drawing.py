"""The package that draws pictures, where it is installed: its bundle of JavaScript, and SVG without a browser."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import InputError, SweepdbError
from store.whole_files import written_whole

if TYPE_CHECKING:
    from types import ModuleType


def drawing_engine() -> ModuleType:
    """The module vl_convert, or an error that says how to install it."""
    try:
        return import_module("vl_convert")
    except ImportError:
        raise InputError(
            "pictures need vl-convert, which is not installed",
            hint="pip install 'sweepdb[pictures]'; query `format=vl` needs nothing and opens in any Vega-Lite editor",
        ) from None


@cache
def vega_script() -> str:
    """The JavaScript that draws pictures in a browser, as the installed vl-convert has it.

    Bundling it takes a second and more: it is kept in the user's cache under the version and its digest. A file that is
    not of its digest is none."""
    engine = drawing_engine()
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweepdb"
    begins = f"vega-{version('vl-convert-python')}-"
    with suppress(OSError, UnicodeError):
        for path in sorted(kept.glob(f"{begins}*.js")):
            text = path.read_bytes().decode()
            if path.stem == begins + _digest(text) and path.stat().st_uid == os.getuid():  # nobody else's program
                return text
    made = str(engine.javascript_bundle())
    with suppress(OSError, SweepdbError):  # a home that cannot be written to costs the second again
        kept.mkdir(parents=True, exist_ok=True)
        with written_whole(kept / f"{begins}{_digest(made)}.js") as temporary:
            temporary.write_text(made, encoding="utf-8", newline="")
    return made


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
