"""A validation as a document, as tables and flat rows, and as one HTML file that needs nothing else.

The file shows predicted against measured as SVG, then the tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

from cli.render.rows import cell, table_lines
from store.texts import counted
from sweepdb.measuring import PEER_FIELDS, AtRate, Choices, Comparison, Figures, Group, Knowledge, Replay, Validation
from sweepdb.reporting import Html, element, embedded, html_of, html_page

FIGURES = ("rows", "median_ape", "mean_ape", "p90_ape", "bias")
COLUMNS = ("by", "group", "metric", *FIGURES)
ALONE, KNOWN = "from the question alone", "with the server's settings"
MOST_LISTED = 10  # points that are shown one by one
PEER_COLUMNS = ("rows_of_peer", *(f"{name}_{side}" for side in ("there", "of_peer") for name in FIGURES[1:]))
STANDING_COLUMNS = ("by", "group", "whose", "rows", "e2e_median_ape", "e2e_mean_ape", "tau", "regret", "groups",
                    "tau_of_plans", "regret_of_plans", "groups_of_plans")  # fmt: skip
SHOWN_GROUPS = (("device",), ("device", "model", "engine"), ("mode",), ("engine",), ("batch_region",),
                ("length_region",))  # fmt: skip


def as_document(validation: Validation, *, against: str | None) -> dict[str, object]:
    """The answer as plain values; errors, biases and shares in percent. Groups are of points as asked."""
    document: dict[str, object] = {
        "overall": {
            name: asdict(found) for name in validation.metrics() if (found := validation.figures_of(name)) is not None
        },
        "as_known": {
            name: asdict(found)
            for name in validation.metrics()
            if (found := validation.figures_of(name, "known")) is not None
        },
        "groups": [_group_document(group, against) for group in validation.groups()],
        "excluded": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if not one.repaired],
        "repaired": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if one.repaired],
        "twins": {"pairs": validation.twins, "further_than_1.25_apart": validation.noisy_twins},
    }
    if validation.at_rates:
        document["at_rates"] = [{**asdict(one), "error": one.error} for one in validation.at_rates]
    if validation.replays:
        document["replays"] = [asdict(one) for one in validation.replays]
    if (spans := validation.first_tokens()) is not None:
        document["ttft_intervals"] = asdict(spans)
    ranking = validation.ranking()
    if ranking is not None:
        document["ranking"] = {"kendall_tau_mean": ranking[0], "groups": ranking[1]}
    if against is not None:
        document["peer"] = _peer_document(validation)
    return document


def _group_document(group: Group, against: str | None) -> dict[str, object]:
    beside = {} if against is None or group.peer is None else {"peer": _beside(group.peer)}
    values = dict(zip(group.by, group.values, strict=True))
    return {**values, "by": list(group.by), "metric": group.metric, **asdict(group.ours), **beside}


def _beside(both: tuple[Figures, Figures]) -> dict[str, object]:
    return {**asdict(both[1]), "ours": asdict(both[0])}


def _peer_document(validation: Validation) -> dict[str, object]:
    coverage = validation.coverage_of_peer
    peer: dict[str, object] = {"coverage": None if coverage is None else 100.0 * coverage}
    for metric in PEER_FIELDS:
        both = validation.peer_figures(metric)
        if both is not None:
            peer[metric] = _beside(both)
    standings = [asdict(one) for one in validation.beside_peer()]
    return {**peer, "standings": standings} if standings else peer


def flat_rows(validation: Validation, *, against: str | None) -> tuple[Sequence[str], list[list[object]]]:
    """One row for every group and metric, the whole first, as asked and as known. Groups are of points as asked.

    With a peer, ours and its over the rows both predict."""
    rows: list[list[object]] = []
    whole: tuple[tuple[Knowledge, str], ...] = (("asked", "all"), ("known", f"all, {KNOWN}"))
    for knowledge, by in whole:
        for metric in validation.metrics():
            ours = validation.figures_of(metric, knowledge)
            if ours is not None:
                beside = _peer_cells(validation.peer_figures(metric, knowledge), against)
                rows.append([by, "all", metric, *_cells(ours), *beside])
    rows += [
        [" + ".join(group.by), ", ".join(group.values), group.metric, *_cells(group.ours),
         *_peer_cells(group.peer, against)]
        for group in validation.groups()
    ]  # fmt: skip
    return (COLUMNS if against is None else (*COLUMNS, *PEER_COLUMNS)), rows


def _cells(figures: Figures) -> list[object]:
    return [getattr(figures, name) for name in FIGURES]


def _peer_cells(both: tuple[Figures, Figures] | None, against: str | None) -> list[object]:
    if against is None:
        return []
    if both is None:
        return [None] * len(PEER_COLUMNS)
    ours, peer = both
    return [peer.rows, *_cells(ours)[1:], *_cells(peer)[1:]]


def table_text(validation: Validation, *, against: str | None) -> Iterator[str]:
    points = {one.record_key for one in validation.comparisons}
    if 0 < len(points) <= MOST_LISTED:
        yield from point_lines(validation)
    if len(points) > 1 or against is not None:
        yield from _figure_lines(validation, against)
    yield from _first_token_lines(validation)
    yield from _rate_lines(validation.at_rates)
    yield from _replay_lines(validation.replays)
    yield from _left_out(validation)
    ranking = validation.ranking()
    if ranking is not None:
        of_groups = f"{counted(ranking[1], 'group')} of several plans or batches"
        yield f"\nranking: mean Kendall tau {ranking[0]:.2f} of tokens/s/device over {of_groups}\n"


def point_lines(validation: Validation) -> Iterator[str]:
    by_point: dict[tuple[str, str], dict[Knowledge, Comparison]] = defaultdict(dict)
    for one in validation.comparisons:
        by_point[one.record_key[:8], one.metric][one.knowledge] = one
    two = any(both["asked"].predicted != both["known"].predicted for both in by_point.values() if len(both) == 2)
    shown: tuple[tuple[Knowledge, str], ...] = (("asked", ALONE), ("known", KNOWN))
    rows = [
        [point, _called(metric), next(iter(both.values())).measured]
        + [value for one in found for value in ((None, None) if one is None else (one.predicted, _percent(one.error)))]
        for (point, metric), both in by_point.items()
        if (found := [both.get(knowledge) for knowledge, _ in shown[: 1 + two]])
    ]
    if two:
        yield f"predicted {ALONE}: model, device, plan, formats, mean lengths and users; {KNOWN}: the client and the\n"
        yield "launch that the source states, too\n\n"
    heads = [head for _, name in shown for head in (name, "difference")] if two else ["predicted", "difference"]
    yield from table_lines(("point", "metric", "measured", *heads), rows)


def _beside_measured(one: AtRate) -> tuple[float, float, str]:
    return one.measured, one.predicted, _percent(one.error)


def _called(metric: str) -> str:
    return {
        "ttft": "TTFT ms",
        "tpot": "TPOT ms",
        "requests_per_s": "requests/s",
        "output_tokens_per_s": "tokens/s",
    }.get(metric, metric.replace("_ms", " ms"))


def _percent(error: float) -> str:
    return f"{100 * error + 0.0:+.1f} %" if abs(error) >= 0.0005 else "0 %"


def _figure_lines(validation: Validation, against: str | None) -> Iterator[str]:
    _, rows = flat_rows(validation, against=against)
    yield "\nerrors in percent: median, mean and 90th percentile of |predicted - measured| / measured;"
    yield " bias: median of the signed error\n\n"
    yield f"{ALONE}: model, device, plan, formats, mean lengths and users\n"
    yield from table_lines(COLUMNS[2:], [row[2 : len(COLUMNS)] for row in rows if row[0] == "all"])
    known = [row[2 : len(COLUMNS)] for row in rows if row[0] == f"all, {KNOWN}"]
    if known != [row[2 : len(COLUMNS)] for row in rows if row[0] == "all"]:
        yield f"\n{KNOWN}: the client and launch that the source states, too\n"
        yield from table_lines(COLUMNS[2:], known)
    if against is not None:
        yield from _peer_lines(validation, against)
    for by in SHOWN_GROUPS:
        name = " + ".join(by)
        found = [row[1 : len(COLUMNS)] for row in rows if row[0] == name]
        if len({group for group, *_ in found}) > 1:  # one alone is all
            yield "\n"
            yield from table_lines((name, *COLUMNS[2:]), found)


def _first_token_lines(validation: Validation) -> Iterator[str]:
    found = validation.first_tokens()
    if found is None:
        return
    yield (
        f"\nTTFT of {counted(found.points, 'point')} is predicted as an interval, less if users drift apart, more if in"
        f" step: {100 * found.inside / found.points:.0f} % were measured inside\n"
    )
    ends = (("apart", found.apart), ("in step", found.in_step))
    yield from table_lines(("users", *FIGURES), [[name, *_cells(one)] for name, one in ends])


def _peer_lines(validation: Validation, against: str) -> Iterator[str]:
    both = [(metric, validation.peer_figures(metric)) for metric in PEER_FIELDS]
    rows = [
        [metric, whose, *_cells(one)]
        for metric, found in both
        if found is not None
        for whose, one in zip(("ours", against), found, strict=True)
    ]
    if not rows:
        yield f"\nno row carries values predicted by {against}\n"
        return
    yield f"\nrows that {against} predicts too"
    if validation.coverage_of_peer is not None:
        yield f" (of those that no rule takes out we predict {validation.coverage_of_peer:.1%})"
    yield "\n"
    yield from table_lines(("metric", "whose", *FIGURES), rows)
    yield from _standing_lines(validation, against)


def _standing_lines(validation: Validation, against: str) -> Iterator[str]:
    rows = [
        [found.by, found.value, whose, one.rows, one.e2e.median_ape, one.e2e.mean_ape, *_choice_cells(one.choices),
         *_choice_cells(one.plans)]
        for found in validation.beside_peer()
        for whose, one in (("ours", found.ours), (against, found.peer))
    ]  # fmt: skip
    if rows:
        yield "\nend to end over the same rows; mean Kendall tau and regret of tokens/s/device (percent of the best"
        yield " that the predicted best lacks)\n"
        yield "of groups that differ in plan or batch, and in plan alone at equal users\n"
        yield from table_lines(STANDING_COLUMNS, rows)


def _choice_cells(choices: Choices | None) -> list[object]:
    return [None] * 3 if choices is None else [f"{choices.kendall_tau:.3f}", choices.regret, choices.groups]


def _rate_lines(at_rates: Sequence[AtRate]) -> Iterator[str]:
    if at_rates:
        yield "\npoints that state a rate of requests, beside stored loads at that rate, or simulated: ms\n"
        rows = [
            (one.point[:8], one.requests_per_s, _called(one.metric), *_beside_measured(one), one.knowledge)
            for one in at_rates
        ]
        yield from table_lines(("point", "requests/s", "metric", "measured", "predicted", "difference", "how"), rows)


def _replay_lines(replays: Sequence[Replay]) -> Iterator[str]:
    if replays:
        yield "\nlogs of requests, replayed at their own times: ms measured and simulated, and the largest distance"
        yield " of the distributions (KS)\n"
        columns = [name for name in Replay.__slots__ if name != "requests_per_s"]
        yield from table_lines(columns, [[_short(getattr(one, name)) for name in columns] for one in replays])


def _short(value: object) -> object:
    return value[:12] if isinstance(value, str) else value


def _by_rule(validation: Validation) -> Iterator[tuple[str, list[list[object]]]]:
    for title, repaired in (("points left out, by rule", False), ("points kept, and what is said of them", True)):
        rows: list[list[object]] = [[one.rule, one.rows] for one in validation.excluded if one.repaired is repaired]
        if rows:
            yield title, rows


def _left_out(validation: Validation) -> Iterator[str]:
    for title, rows in _by_rule(validation):
        yield "\n"
        yield from table_lines((title, "rows"), rows)
    if validation.twins:
        yield f"\n{counted(validation.twins, 'pair')} of points with equal settings;"
        yield f" more than a factor of 1.25 apart, and kept all the same: {validation.noisy_twins}\n"


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
    return html_of(
        [element("figure", element("figcaption", f"{metric} ({unit}), {counted(len(found), 'point')}"), drawn), "\n"]
    )


def _decades(values: Iterable[float]) -> tuple[int, int]:
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
        f"{counted(one.users, 'user')}, {one.input_length}/{one.output_length} tokens\n"
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
    for title, rules in _by_rule(validation):
        yield element("h2", title.capitalize())
        yield _table(["rule", "rows"], rules)
    if (ranking := validation.ranking()) is not None:
        yield element(
            "p",
            f"Ranking: mean Kendall tau {ranking[0]:.2f} of predicted against measured tokens/s/device over"
            f" {counted(ranking[1], 'group')} of several plans or batches.",
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Html:
    head = element("tr", *(element("th", head) for head in heads))
    lines = (html_of(["\n", element("tr", *(element("td", cell(value)) for value in row))]) for row in rows)
    return html_of([element("table", head, *lines), "\n"])
