"""Pictures of answers as files: Vega-Lite, SVG, PNG or one HTML page. Needs vl-convert for all but the first.

Not here: what a picture shows (queries/pictures)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import say, write_text
from store.errors import InputError
from sweepdb.asking import picture_of
from sweepdb.reporting import drawing_engine
from sweepdb.stores import written_whole

if TYPE_CHECKING:
    from sweepdb.asking import Answer

_SCALE = 2.0
_PAGE = (
    "<style>body { font-family: sans-serif; margin: 1em; overflow-x: auto; color-scheme: light dark }</style></head>"
)


def write_picture(answer: Answer, format_: str, output: Path | None) -> None:
    """Write the picture of an answer to a file, or as text to stdout."""
    if format_ == "png" and output is None:
        raise InputError("--format png needs --output FILE", hint="a PNG is not text; --format svg is")
    spec = picture_of(answer)
    if format_ == "vl":
        write_text((json.dumps(spec, ensure_ascii=False, indent=1), "\n"), output)
        return
    drawing = drawing_engine()
    if format_ == "png" and output is not None:
        drawn: bytes = drawing.vegalite_to_png({**spec, "background": "white"}, scale=_SCALE)
        with written_whole(output) as temporary:
            temporary.write_bytes(drawn)
        say(f"written to {output}")
        return
    text: str = drawing.vegalite_to_svg(spec) if format_ == "svg" else drawing.vegalite_to_html(spec, bundle=True)
    write_text((text.replace("</head>", _PAGE, 1) if format_ == "html" else text, "\n"), output)
