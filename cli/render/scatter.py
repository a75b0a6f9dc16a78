"""A validation as one HTML file that needs nothing else: predicted against measured as SVG, then the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from cli.render.rows import cell
from cli.render.validation import COLUMNS, SHOWN_GROUPS, flat_rows
from sweepdb.measuring import Comparison, Validation

UNITS = {"ttft": "ms", "tpot": "ms"}
# Okabe and Ito's colours, told apart by people who see colours differently.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5195", "#a05a2c")
SIZE, MARGIN = 400.0, 56.0
WITHIN = 0.3
Scale = Callable[[float], float]  # a value to its place on the axis
_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 76em; padding: 0 1em; color: #222 }
figure { display: inline-block; margin: 0 1em 1em 0 } figcaption { font-weight: 600 }
svg { background: #fff; border: 1px solid #ddd } svg text { font: 11px system-ui, sans-serif; fill: #444 }
table { border-collapse: collapse; margin: 0.5em 0 1.5em } th, td { padding: 0.15em 0.7em; text-align: right }
th { border-bottom: 1px solid #888 } th:first-child, td:first-child { text-align: left }
tr:nth-child(even) td { background: #f5f5f5 } .key { margin-right: 1.2em; white-space: nowrap }
.dot { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.35em }
"""


def page(validation: Validation, *, against: str | None) -> Iterator[str]:
    """The whole file, piece by piece."""
    devices = sorted({one.device for one in validation.of("asked")})
    colours = {device: COLOURS[index % len(COLOURS)] for index, device in enumerate(devices)}
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f"<title>Predicted against measured</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    yield "<h1>Predicted against measured</h1>\n"
    yield "<p>Each dot is a measured value; on the diagonal the prediction is right,"
    yield f" between the dashed lines it is off by at most {WITHIN:.0%}. Both axes are logarithmic.</p>\n<p>"
    yield from (_legend(device, colour) for device, colour in colours.items())
    yield "</p>\n"
    for metric in validation.metrics():
        found = [one for one in validation.of("asked") if one.metric == metric]
        yield from _panel(metric, found, colours)
    yield from _tables(validation, against)
    yield "</body>\n</html>\n"


def _legend(device: str, colour: str) -> str:
    return f'<span class="key"><span class="dot" style="background:{colour}"></span>{escape(device)}</span>'


def _panel(metric: str, found: Sequence[Comparison], colours: dict[str, str]) -> Iterator[str]:
    low, high = _decades(value for one in found for value in (one.measured, one.predicted))
    scale = (SIZE - 2 * MARGIN) / (high - low)

    def across(value: float) -> float:
        return MARGIN + (math.log10(value) - low) * scale

    def up(value: float) -> float:
        return SIZE - across(value)

    unit = UNITS.get(metric, metric.rsplit("_", 1)[-1] if metric.endswith("_ms") else "1/s")
    yield f"<figure><figcaption>{escape(metric)} ({escape(unit)}), {len(found)} points</figcaption>\n"
    yield f'<svg width="{SIZE:.0f}" height="{SIZE:.0f}" viewBox="0 0 {SIZE:.0f} {SIZE:.0f}" role="img">\n'
    yield from _axes(low, high, across)
    for share, dashed in ((1.0, ""), (1 + WITHIN, "4 3"), (1 - WITHIN, "4 3")):
        yield _line(low, high, share, across, dashed)
    for one in found:
        yield f'<circle cx="{across(one.measured):.1f}" cy="{up(one.predicted):.1f}" r="2.6"'
        yield f' fill="{colours[one.device]}"'
        yield f' fill-opacity="0.55"><title>{escape(_tooltip(one))}</title></circle>\n'
    yield "</svg></figure>\n"


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """Whole powers of ten around all values."""
    powers = [math.log10(value) for value in values]
    low = math.floor(min(powers))
    return low, max(low + 1, math.ceil(max(powers)))


def _axes(low: int, high: int, across: Scale) -> Iterator[str]:
    inner, outer = MARGIN, SIZE - MARGIN
    for power in range(low, high + 1):
        at = across(10.0**power)
        mark = f"{10.0**power:g}"
        yield f'<path d="M{at:.1f} {inner}V{outer}M{inner} {SIZE - at:.1f}H{outer}" stroke="#e4e4e4" fill="none"/>\n'
        yield f'<text x="{at:.1f}" y="{outer + 16}" text-anchor="middle">{mark}</text>\n'
        yield f'<text x="{inner - 6}" y="{SIZE - at + 4:.1f}" text-anchor="end">{mark}</text>\n'
    middle = SIZE / 2
    yield f'<text x="{middle}" y="{SIZE - 14}" text-anchor="middle">measured</text>\n'
    yield f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">predicted</text>\n'


def _line(low: int, high: int, share: float, across: Scale, dashed: str) -> str:
    """predicted = share * measured, as far as both lie inside the frame."""
    first, last = 10.0**low, 10.0**high
    start, stop = max(first, first / share), min(last, last / share)
    ends = ((across(one), SIZE - across(one * share)) for one in (start, stop))
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)
    return f'<path d="M{path}" stroke="#777" fill="none" stroke-dasharray="{dashed}"/>\n'


def _tooltip(one: Comparison) -> str:
    return (
        f"{one.model} on {one.num_devices} x {one.device} ({one.plan}), {one.engine}, {one.mode}\n"
        f"{one.users} users, {one.input_length}/{one.output_length} tokens\n"
        f"measured {cell(one.measured)}, predicted {cell(one.predicted)} ({one.error:+.0%})"
    )


def _tables(validation: Validation, against: str | None) -> Iterator[str]:
    columns, rows = flat_rows(validation, against=against)
    heads = columns[2:]
    yield "<h2>Errors in percent</h2>\n"
    yield from _table(["", *heads], [["all", *row[2:]] for row in rows if row[0] == "all"])
    for by in SHOWN_GROUPS:
        name = " + ".join(by)
        found = [row[1:] for row in rows if row[0] == name]
        yield f"<h2>By {escape(name.replace('_', ' '))}</h2>\n"
        yield from _table([name, *heads], found)
    for title, repaired in (("Points left out, by rule", False), ("Points repaired and kept, by rule", True)):
        counted = [[one.rule, one.rows] for one in validation.excluded if one.repaired is repaired]
        if counted:
            yield f"<h2>{title}</h2>\n"
            yield from _table(["rule", COLUMNS[3]], counted)
    if (ranking := validation.ranking()) is not None:
        yield f"<p>Ranking: mean Kendall tau {ranking[0]:.2f} of predicted against measured tokens/s/device over"
        yield f" {ranking[1]} groups that differ in plan or batch.</p>\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>\n"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>\n"
    yield "</table>\n"
