"""Pictures as files: Vega-Lite, SVG, PNG, PDF or one HTML page. Needs vl-convert for all but the first.

Not here: what a picture shows (queries/pictures)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import say_written, write_text
from store.errors import InputError
from sweepdb.asking import picture_of
from sweepdb.reporting import drawing_engine
from sweepdb.stores import written_whole

if TYPE_CHECKING:
    from sweepdb.asking import Answer, Json

PICTURES = ("svg", "png", "pdf", "html", "vl")
_BYTES = ("png", "pdf")
_SCALE = 2.0
_PAGE = (
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
        write_text((json.dumps(spec, ensure_ascii=False, indent=1), "\n"), output)
        return
    drawing = drawing_engine()
    if format_ in _BYTES and output is not None:
        paper = {**spec, "background": "white"}
        drawn: bytes = (
            drawing.vegalite_to_pdf(paper) if format_ == "pdf" else drawing.vegalite_to_png(paper, scale=_SCALE)
        )
        with written_whole(output) as temporary:
            temporary.write_bytes(drawn)
        say_written(output)
        return
    text: str = drawing.vegalite_to_svg(spec) if format_ == "svg" else drawing.vegalite_to_html(spec, bundle=True)
    write_text((text.replace("</head>", _PAGE, 1) if format_ == "html" else text, "\n"), output)
