"""Draws pictures without a browser, where vl-convert is installed.

It ends its process at characters that XML lacks, so it has its own and never gets one."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Literal

from store.errors import InputError, SweepdbError
from store.texts import escaped
from store.whole_files import written_whole
from sweepdb.reporting.drawn_apart import HEAD

if TYPE_CHECKING:
    from types import ModuleType

    from queries.asking import Json

_LONGEST_S = 120.0
_TOLD = 300
_OTHERWISE = "The same question with `format=vl` writes the specification, with `format=csv` the numbers."
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def drawing_engine() -> ModuleType:
    try:
        return import_module("vl_convert")
    except ImportError:
        raise InputError(
            "pictures need vl-convert, which is not installed",
            hint="pip install 'sweepdb[pictures]'; query `format=vl` needs nothing and opens in any Vega-Lite editor",
        ) from None


Form = Literal["svg", "png", "pdf"]


def drawn(spec: Mapping[str, Json], form: Form, *, scale: float = 1.0) -> bytes:
    """A failure is an error, whatever becomes of the drawing process.

    The process stays: starting it takes as long as some ten pictures."""
    drawing_engine()
    asked = json.dumps({"form": form, "scale": scale, "spec": drawable(dict(spec))}) + "\n"
    return _DRAWER.draw(asked.encode())


def drawable(value: Json) -> Json:
    """Characters beyond the first plane are escaped: shortening cuts them in half."""
    if isinstance(value, str):
        return _BEYOND.sub(lambda found: f"\\U{ord(found[0]):08x}", escaped(value))
    if isinstance(value, dict):
        return {str(drawable(key)): drawable(item) for key, item in value.items()}
    return [drawable(item) for item in value] if isinstance(value, list) else value


class _Drawer:
    """Its pipe closes when this process ends."""

    def __init__(self) -> None:
        self._turn = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def draw(self, asked: bytes) -> bytes:
        with self._turn:
            process = self._running()
            stops = Timer(_LONGEST_S, process.kill)
            stops.start()
            answer = None
            try:
                answer = _exchanged(process, asked)
            finally:
                stops.cancel()
                if answer is None:  # it ended, or this was interrupted and its answer would come for the next picture
                    self.close()
        if answer is None:
            raise InputError("The picture could not be drawn: the process that drew it ended.", hint=_OTHERWISE)
        is_drawn, content = answer
        if not is_drawn:
            said = " ".join(content.decode("utf-8", "replace").split())[:_TOLD]
            raise InputError(f"The picture could not be drawn: {said}", hint=_OTHERWISE)
        return content

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            program = [sys.executable, "-P", str(Path(__file__).with_name("drawn_apart.py"))]
            self._process = subprocess.Popen(  # noqa: S603  our own program
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            atexit.register(self.close)
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):  # what was written to it and not read
                process.communicate()
        atexit.unregister(self.close)


def _exchanged(process: subprocess.Popen[bytes], asked: bytes) -> tuple[bool, bytes] | None:
    """Drawn or why not; None where the process ended."""
    if process.stdin is None or process.stdout is None:
        return None
    try:
        process.stdin.write(asked)
        process.stdin.flush()
    except OSError:
        return None
    head = process.stdout.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    is_drawn, length = HEAD.unpack(head)
    content = process.stdout.read(length)
    return (is_drawn, content) if len(content) == length else None


_DRAWER = _Drawer()


@cache
def vega_script() -> str:
    """As the installed vl-convert has it.

    Bundling takes over a second, so it is cached by version and digest."""
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
