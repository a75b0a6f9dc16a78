"""Pictures as files: Vega-Lite, SVG, PNG, PDF or one HTML page. Needs vl-convert for all but the first.

Not here: what a picture shows (queries/pictures)."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import say_written, write_text
from cli.render.rows import json_text
from store.errors import InputError
from sweepdb.asking import picture_of
from sweepdb.reporting import drawable, drawing_engine, drawn
from sweepdb.stores import written_whole

if TYPE_CHECKING:
    from sweepdb.asking import Answer, Json

PICTURES = ("svg", "png", "pdf", "html", "vl")
_BYTES = ("png", "pdf")
_SCALE = 2.0
_HEAD = (
    "<style>body { font-family: sans-serif; margin: 1em; overflow-x: auto; color-scheme: light dark }</style></head>"
)


def write_picture(answer: Answer, format_: str, output: Path | None) -> None:
    """Write the picture of an answer to a file, or as text to stdout."""
    check_picture(format_, output)
    write_specification(picture_of(answer), format_, output)


def check_picture(format_: str, output: Path | None) -> None:
    """Refuse bytes for a terminal."""
    if format_ in _BYTES and output is None:
        raise InputError(
            f"--format {format_} needs --output FILE",
            hint=f"a {format_.upper()} is not text; --output - sends it to a pipe, and --format svg is text",
        )


def write_specification(spec: dict[str, Json], format_: str, output: Path | None) -> None:
    """Write a Vega-Lite specification as it is, or drawn."""
    if format_ == "vl":
        write_text((json_text(spec, indent=1), "\n"), output)
        return
    if format_ in _BYTES and output is not None:
        picture = drawn({**spec, "background": "white"}, "pdf" if format_ == "pdf" else "png", scale=_SCALE)
        with written_whole(output) as temporary:
            temporary.write_bytes(picture)
        say_written(output)
        return
    write_text((drawn(spec, "svg").decode() if format_ == "svg" else _page(spec), "\n"), output)


def _page(spec: dict[str, Json]) -> str:
    """A page whose script holds the specification. No text in it may end that script: `<` is written as JavaScript's
    escape, for which a sign stands while vl-convert writes the page."""
    said = json.dumps(drawable(spec), ensure_ascii=False)
    sign = next(sign for sign in (f"\ue000{number}\ue001" for number in count()) if sign not in said)
    text: str = drawing_engine().vegalite_to_html(json.loads(said.replace("<", sign)), bundle=True)
    return text.replace(sign, "\\u003c").replace("</head>", _HEAD, 1)
