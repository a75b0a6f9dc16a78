"""Pictures as Vega-Lite, SVG, PNG, PDF or HTML, and as terminal characters.

Files but Vega-Lite need vl-convert; characters need plotext and two numeric axes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from cli.output import say_written, write_text
from cli.render.rows import json_text
from cli.render.screen import screen_width
from store.errors import InputError
from sweepdb.asking import picture_of
from sweepdb.reporting import drawable, drawing_engine, drawn
from sweepdb.stores import written_whole

if TYPE_CHECKING:
    from types import ModuleType

    from sweepdb.asking import Answer, Json


PICTURES = ("svg", "png", "pdf", "html", "vl")
_BYTES = ("png", "pdf")
_SCALE = 2.0
_HEAD = (
    "<style>body { font-family: sans-serif; margin: 1em; overflow-x: auto; color-scheme: light dark }</style></head>"
)


def write_picture(answer: Answer, format_: str, output: Path | None) -> None:
    check_picture(format_, output)
    write_specification(picture_of(answer), format_, output)


def check_picture(format_: str, output: Path | None) -> None:
    if format_ in _BYTES and output is None:
        raise InputError(
            f"--format {format_} needs --output FILE",
            hint=f"a {format_.upper()} is not text; --output - sends it to a pipe, and --format svg is text",
        )


def write_specification(spec: dict[str, Json], format_: str, output: Path | None) -> None:
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
    """Text cannot end the page's script: `<` is escaped, behind a placeholder while vl-convert writes."""
    said = json.dumps(drawable(spec), ensure_ascii=False)
    sign = next(sign for sign in (f"\ue000{number}\ue001" for number in count()) if sign not in said)
    text: str = drawing_engine().vegalite_to_html(json.loads(said.replace("<", sign)), bundle=True)
    return text.replace(sign, "\\u003c").replace("</head>", _HEAD, 1)


_HEIGHT = 24
_NARROWEST, _WIDEST = 60, 140


def chart_lines(answer: Answer) -> Iterator[str]:
    spec = picture_of(answer)
    rows = [row for row in _listed(_mapping(spec["data"])["values"]) if isinstance(row, dict)]
    x, y, series = _axes(spec)
    plot = _plotext()
    for group in dict.fromkeys(str(row["group"]) for row in rows):
        mine = [row for row in rows if row["group"] == group]
        yield f"\n{_drawn(plot, mine, x, y, series, group)}\n"


def _drawn(  # noqa: PLR0917  an axis each
    plot: ModuleType,
    rows: Sequence[Mapping[str, Json]],
    x: Mapping[str, Json],
    y: Mapping[str, Json],
    series: Sequence[str],
    title: str,
) -> str:
    plot.clear_figure()
    plot.theme("clear")
    plot.plotsize(min(max(screen_width(), _NARROWEST), _WIDEST), _HEIGHT)
    lines: dict[str, list[Mapping[str, Json]]] = {}
    for row in rows:
        lines.setdefault(", ".join(str(row.get(name, "")) for name in series), []).append(row)
    for name, points in lines.items():
        pairs = [(row[str(x["field"])], row[str(y["field"])]) for row in points]
        known = [pair for pair in pairs if None not in pair]
        if known:
            plot.scatter([at for at, _ in known], [value for _, value in known], label=name or None, marker="dot")
    if _mapping(x.get("scale", {})).get("type") == "log":
        plot.xscale("log")
    plot.title(title)
    plot.xlabel(str(x.get("title", x["field"])))
    plot.ylabel(str(y.get("title", y["field"])))
    built = plot.build()
    return str(built if sys.stdout.isatty() else plot.uncolorize(built))


def _axes(spec: Mapping[str, Json]) -> tuple[Mapping[str, Json], Mapping[str, Json], Sequence[str]]:
    views = [spec, *map(_mapping, _listed(spec.get("vconcat", [])))]
    views += [_mapping(layer) for view in views for layer in _listed(view.get("layer", []))]
    found: dict[str, Mapping[str, Json]] = {}
    for view in views:
        for name, channel in _mapping(view.get("encoding", {})).items():
            if isinstance(channel, dict) and "field" in channel:
                found.setdefault(name, channel)
    numbers = [found.get(name, {}) for name in ("x", "y")]
    if any(one.get("type") != "quantitative" for one in numbers):
        raise InputError(
            "the picture of this report has no two axes of numbers, so no characters draw it",
            hint="--format svg draws it as a file",
        )
    return numbers[0], numbers[1], [str(found[name]["field"]) for name in ("color", "strokeDash") if name in found]


def _plotext() -> ModuleType:
    try:
        return import_module("plotext")
    except ImportError:
        raise InputError(
            "--plot needs plotext, which is not installed",
            hint="pip install 'sweepdb[plot]'; --format svg does without",
        ) from None


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else []
