"""A validation as one HTML file that needs nothing else: predicted against measured as SVG, then the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from cli.render.rows import cell
from cli.render.validation import COLUMNS, SHOWN_GROUPS, flat_rows
from sweepdb.measuring import Comparison, Validation
from sweepdb.reporting import Html, element, embedded, html_of, html_page

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


def page(validation: Validation, *, against: str | None) -> str:
    """The whole file."""
    devices = sorted({one.device for one in validation.of("asked")})
    colours = {device: COLOURS[index % len(COLOURS)] for index, device in enumerate(devices)}
    title = "Predicted against measured"
    told = (
        "Each dot is a measured value; on the diagonal the prediction is right, between the dashed lines it is off by"
        f" at most {WITHIN:.0%}. Both axes are logarithmic."
    )
    panels = (
        _panel(metric, [one for one in validation.of("asked") if one.metric == metric], colours)
        for metric in validation.metrics()
    )
    legend = element("p", *(_legend(device, colour) for device, colour in colours.items()))
    head: list[Html | str] = [element("title", title), "\n", embedded("style", _STYLE), "\n"]
    return str(
        html_page(head, [element("h1", title), element("p", told), legend, *panels, *_tables(validation, against)])
    )


def _legend(device: str, colour: str) -> Html:
    return element("span", element("span", class_="dot", style=f"background:{colour}"), device, class_="key")


def _panel(metric: str, found: Sequence[Comparison], colours: dict[str, str]) -> Html:
    low, high = _decades(value for one in found for value in (one.measured, one.predicted))
    scale = (SIZE - 2 * MARGIN) / (high - low)

    def across(value: float) -> float:
        return MARGIN + (math.log10(value) - low) * scale

    def up(value: float) -> float:
        return SIZE - across(value)

    unit = UNITS.get(metric, metric.rsplit("_", 1)[-1] if metric.endswith("_ms") else "1/s")
    lines = (_line(low, high, *one, across) for one in ((1.0, ""), (1 + WITHIN, "4 3"), (1 - WITHIN, "4 3")))
    dots = (
        element("circle", element("title", _tooltip(one)), cx=f"{across(one.measured):.1f}",
                cy=f"{up(one.predicted):.1f}", r=2.6, fill=colours[one.device], fill_opacity=0.55)
        for one in found
    )  # fmt: skip
    size = f"{SIZE:.0f}"
    drawn = element("svg", *_axes(low, high, across), *lines, *dots, width=size, height=size,
                    viewBox=f"0 0 {size} {size}", role="img")  # fmt: skip
    return html_of([element("figure", element("figcaption", f"{metric} ({unit}), {len(found)} points"), drawn), "\n"])


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """Whole powers of ten around all values."""
    powers = [math.log10(value) for value in values]
    low = math.floor(min(powers))
    return low, max(low + 1, math.ceil(max(powers)))


def _axes(low: int, high: int, across: Scale) -> Iterator[Html]:
    inner, outer = MARGIN, SIZE - MARGIN
    for power in range(low, high + 1):
        at = across(10.0**power)
        mark = f"{10.0**power:g}"
        lines = f"M{at:.1f} {inner}V{outer}M{inner} {SIZE - at:.1f}H{outer}"
        yield element("path", d=lines, stroke="#e4e4e4", fill="none")
        yield element("text", mark, x=f"{at:.1f}", y=outer + 16, text_anchor="middle")
        yield element("text", mark, x=inner - 6, y=f"{SIZE - at + 4:.1f}", text_anchor="end")
    middle = SIZE / 2
    yield element("text", "measured", x=middle, y=SIZE - 14, text_anchor="middle")
    turned = f"rotate(-90 14 {middle})"
    yield element("text", "predicted", x=14, y=middle, text_anchor="middle", transform=turned)


def _line(low: int, high: int, share: float, dashed: str, across: Scale) -> Html:
    """predicted = share * measured, as far as both lie inside the frame."""
    first, last = 10.0**low, 10.0**high
    start, stop = max(first, first / share), min(last, last / share)
    ends = ((across(one), SIZE - across(one * share)) for one in (start, stop))
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)
    return element("path", d=f"M{path}", stroke="#777", fill="none", stroke_dasharray=dashed)


def _tooltip(one: Comparison) -> str:
    return (
        f"{one.model} on {one.num_devices} x {one.device} ({one.plan}), {one.engine}, {one.mode}\n"
        f"{one.users} users, {one.input_length}/{one.output_length} tokens\n"
        f"measured {cell(one.measured)}, predicted {cell(one.predicted)} ({one.error:+.0%})"
    )


def _tables(validation: Validation, against: str | None) -> Iterator[Html]:
    columns, rows = flat_rows(validation, against=against)
    heads = columns[2:]
    yield element("h2", "Errors in percent")
    yield _table(["", *heads], [["all", *row[2:]] for row in rows if row[0] == "all"])
    for by in SHOWN_GROUPS:
        name = " + ".join(by)
        found = [row[1:] for row in rows if row[0] == name]
        yield element("h2", f"By {name.replace('_', ' ')}")
        yield _table([name, *heads], found)
    for title, repaired in (("Points left out, by rule", False), ("Points repaired and kept, by rule", True)):
        counted = [[one.rule, one.rows] for one in validation.excluded if one.repaired is repaired]
        if counted:
            yield element("h2", title)
            yield _table(["rule", COLUMNS[3]], counted)
    if (ranking := validation.ranking()) is not None:
        yield element(
            "p",
            f"Ranking: mean Kendall tau {ranking[0]:.2f} of predicted against measured tokens/s/device over"
            f" {ranking[1]} groups that differ in plan or batch.",
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Html:
    head = element("tr", *(element("th", head) for head in heads))
    lines = (html_of(["\n", element("tr", *(element("td", cell(value)) for value in row))]) for row in rows)
    return html_of([element("table", head, *lines), "\n"])
