"""Pages of the site beside the documents, and graphs. Run by mkdocs.

Mermaid graphs (`graph TD`, names, arrows) become SVG, since the site loads no script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```mermaid\ngraph TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LETTER, _PAD, _HIGH = 7.4, 24, 30  # pixels of a letter, beside a name, and of a box
_ACROSS, _DOWN = 18, 44  # between boxes
_SWEEPS = 8
_MOST_ACROSS = 7

Arrows = Mapping[str, Sequence[str]]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Graphs become pictures, and links point into the site; unreadable graphs stay.

    Documents name pages by their place in the repository, one folder up."""
    for name in BESIDE:
        markdown = markdown.replace(f"](../../{name}", f"](../{name}")
    return _FENCE.sub(lambda found: _picture(found[1]) or found[0], markdown)


def _picture(text: str) -> str | None:
    arrows: dict[str, list[str]] = {}
    for line in text.splitlines():
        names = [name.strip() for name in line.split("-->")]
        if len(names) > 2 or not all(re.fullmatch(r"\w+", name) for name in names):
            return None
        for name in names:
            arrows.setdefault(name, [])
        if len(names) == 2:
            arrows[names[0]].append(names[1])
    return None if not arrows else svg(arrows)


def svg(arrows: Arrows) -> str:
    """In the colours of the text around it."""
    rows = _rows(arrows)
    places: dict[str, tuple[float, float, float]] = {}  # name -> middle, top, width
    widest = max(sum(map(_width, row)) + _ACROSS * (len(row) - 1) for row in rows)
    for number, row in enumerate(rows):
        left = (widest - sum(map(_width, row)) - _ACROSS * (len(row) - 1)) / 2
        for name in row:
            places[name] = (left + _width(name) / 2, number * (_HIGH + _DOWN) + 1, _width(name))
            left += _width(name) + _ACROSS
    high = len(rows) * (_HIGH + _DOWN) - _DOWN + 2
    lines = [_arrow(places[name], places[other]) for name, others in arrows.items() for other in others]
    boxes = [
        f'<rect x="{middle - width / 2:.0f}" y="{top:.0f}" width="{width:.0f}" height="{_HIGH}" rx="5" class="box"/>'
        f'<text x="{middle:.0f}" y="{top + 20:.0f}" text-anchor="middle">{escape(name)}</text>'
        for name, (middle, top, width) in places.items()
    ]
    told = "; ".join(f"{name} imports {', '.join(others)}" for name, others in arrows.items() if others)
    style = (
        ".graph .box{fill:var(--md-code-bg-color,#f5f5f5);stroke:currentColor;stroke-opacity:.5}"
        ".graph .arrow{fill:none;stroke:currentColor;stroke-opacity:.45;marker-end:url(#head)}"
        ".graph text{fill:currentColor;font:13px monospace}"
    )
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor" fill-opacity=".6"/></marker></defs>'
    )
    return (
        f'<svg class="graph" role="img" aria-label="{escape(told)}" viewBox="-2 0 {widest + 4:.0f} {high:.0f}"'
        f' style="max-width:{widest + 4:.0f}px;width:100%" xmlns="http://www.w3.org/2000/svg">'
        f"<style>{style}</style>{head}{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _rows(arrows: Arrows) -> list[list[str]]:
    """Each name below what points at it, long rows cut, few arrows crossing."""
    depth = dict.fromkeys(arrows, 0)
    for _ in arrows:
        for name, others in arrows.items():
            for other in others:
                depth[other] = max(depth[other], min(depth[name] + 1, len(arrows)))
    alone = [name for name, others in arrows.items() if not others and not any(name in one for one in arrows.values())]
    rows: list[list[str]] = []
    for level in range(max(depth.values()) + 1):
        row = [name for name in arrows if depth[name] == level and name not in alone]
        rows += [row[start : start + _MOST_ACROSS] for start in range(0, len(row), _MOST_ACROSS)]
    if alone:
        rows.append(alone)
    beside: dict[str, set[str]] = {name: set(others) for name, others in arrows.items()}
    for name, others in arrows.items():
        for other in others:
            beside[other].add(name)
    for sweep in range(_SWEEPS):
        where = {name: place / max(len(row) - 1, 1) for row in rows for place, name in enumerate(row)}
        for row in rows if sweep % 2 else reversed(rows):
            row.sort(key=lambda name: sum(where[one] for one in beside[name]) / max(len(beside[name]), 1))
            where |= {name: place / max(len(row) - 1, 1) for place, name in enumerate(row)}
    return rows


def _arrow(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    """From a box's lower edge to another's upper edge."""
    (x, top, _), (to_x, to_top, _) = start, end
    y, to_y = top + _HIGH, to_top
    bend = max(_DOWN / 2, (to_y - y) / 2)
    return (
        f'<path class="arrow" d="M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f}'
        f' {to_x:.0f} {to_y:.0f}"/>'
    )


def _width(name: str) -> float:
    return len(name) * _LETTER + _PAD


ROOT = Path(__file__).parents[1]
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md")


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401  of mkdocs, which the program does not need
    """Links are as from the folder of documents."""
    from mkdocs.structure.files import File

    from tools.reference_pages import REFERENCE_PAGES

    for name, page in REFERENCE_PAGES.items():
        files.append(File.generated(config, f"reference/{name}", content=page()))
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files
