"""The parts of a report in words: the answer, what moves it, its cost, how far off it may be, where it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from queries.errors import METRIC_NAMES, WHOSE
from queries.pairs import rate_error, rate_spans
from store.schema import short_plan
from store.texts import Html, counted, element, html_of
from sweepdb.planning import deployment_label, readable_row
from sweepdb.reporting.page_text import amount, cell_text, listed, paragraph, preformatted, table_text

if TYPE_CHECKING:
    from queries.asking import Answer
    from store.texts import Html
    from sweepdb.reporting.contents import Contents
    from sweepdb.reporting.stops import Slider, Stops


_FIRST = ("Its first tokens", "Next comes", "Near its limit")  # sentences of a plan that belong to the answer
_SPLIT = re.compile(r"\b(TP|DP|PP|EP)\d")
_WORDS = (
    ("TP", "TP 2 (tensor parallelism): two devices share every layer of one instance."),
    ("DP", "DP 2 (data parallelism): one instance holds two copies, each with requests of its own."),
    ("PP", "PP 2 (pipeline parallelism): two groups of devices hold half of the layers each."),
    ("EP", "EP 2 (expert parallelism): the experts of a layer are spread over two devices."),
)
_KINDS = {
    "aggregated": "Aggregated: every instance reads prompts and writes answers.",
    "pd": "Disaggregated: some instances read prompts (prefill), others write the answers (decode), and each"
    " prompt's keys and values travel between them.",
}
_TIMES = (
    "TTFT: the time until the first token of an answer. TPOT: the time for each further token.",
    "End to end: the time until the last token.",
    "In flight: requests that are served at the same moment.",
)


def answer_part(decision: Contents, best: Sequence[Row], spoken: Callable[[str], str]) -> Iterator[Html]:
    yield paragraph(_subject(decision), kind="scope")
    first, *others = map(spoken, decision.plan.sentences())
    yield paragraph(first, kind="lead", id_="sentence")
    yield paragraph(_limits(decision.answer), kind="scope", id_="limits")
    told = [*_sure(decision, best[0]), *_money(best)] if best else []
    yield listed([*told, *(one for one in others if one.startswith(_FIRST))])


def words_part(rows: Sequence[Row]) -> Html:
    """The words that a report uses, for people who do not speak them every day."""
    plans = " ".join(short_plan(str(row[name])) for row in rows for name in _PLANS if row[name] is not None)
    used = set(_SPLIT.findall(plans))
    kinds = dict.fromkeys(str(row["mode"]) for row in rows)
    return listed([*(_KINDS[kind] for kind in kinds), *(told for name, told in _WORDS if name in used), *_TIMES])


_PLANS = ("plan", "prefill_plan", "decode_plan")


def _subject(decision: Contents) -> str:
    if decision.lengths is None:
        return decision.answer.scope[0]
    prompt, answer = decision.lengths
    return f"{decision.answer.scope[0]}. Prompts of {prompt:,.0f} tokens, answers of {answer:,.0f}."


def _sure(decision: Contents, row: Row) -> Iterator[str]:
    tokens = amount(row["output_tokens_per_s"])
    spans = "; ".join(rate_spans(decision.answer, str(row["device"]), str(row["mode"]), tokens))
    yield f"These numbers are predicted. Half of measured tokens/s lie {spans}."


def _money(best: Sequence[Row]) -> Iterator[str]:
    row = best[0]
    if row["usd_per_hour"] is None:
        yield f"What it costs is not known: no price of {row['device']} is stored."
        return
    least = min((one for one in best if one["usd_per_hour"] is not None), key=_a_token)
    yield f"It costs {amount(row['usd_per_hour']):,.2f} USD an hour, {_a_token(row):,.3g} USD a million output tokens."
    if least is not row and _a_token(least) < _a_token(row):
        kind = "aggregated" if least["mode"] == "aggregated" else "disaggregated"
        yield (
            f"For less money a token: {least['device']}, {kind}, {_a_token(least):,.3g} USD a million output tokens,"
            f" with {amount(least['system_requests_per_s']) / amount(row['system_requests_per_s']):.2f} x the rate."
        )


def _a_token(row: Row) -> float:
    return amount(row["usd_per_million_output_tokens"])


def _limits(answer: Answer) -> str:
    limits, pairs = answer.question.limits, answer.question.pairs
    told = [*limits.told(), *limits.surely, f"{limits.reserved_gib:g} GiB of each device kept free"]
    if pairs.num_devices is not None:
        told.append(counted(pairs.num_devices, "device"))
    if pairs.target_qps is not None:
        told.append(f"{pairs.target_qps:g} requests/s to carry")
    if pairs.target_users is not None:
        told.append(f"{counted(pairs.target_users, 'user')} at once")
    return f"Asked: {', '.join(told)}."


Row = Mapping[str, object]
CELLS = (  # of the table that moves: columns of the report, and what they are called
    ("device", "device"), ("deployment", "deployment"), ("devices_used", "devices"),
    ("system_requests_per_s", "requests/s"),
    ("output_tokens_per_s", "tokens/s"), ("users", "concurrency"), ("ttft_ms", "TTFT ms"), ("tpot_ms", "TPOT ms"),
    ("e2e_ms", "end to end ms"), ("memory_free_gib", "free GiB"), ("usd_per_hour", "USD/h"),
    ("usd_per_million_output_tokens", "USD/M output tokens"),
)  # fmt: skip
_COST = (
    ("device", "device"), ("deployment", "deployment"), ("usd_per_device_hour", "USD/device/h"),
    ("price_from", "price since"), ("usd_per_hour", "USD/h"), ("usd_per_month", "USD/month"),
    ("usd_per_million_input_tokens", "USD/M prompt tokens"), ("usd_per_million_output_tokens", "USD/M output tokens"),
)  # fmt: skip
_TOLD = ("tpot", "ttft", "e2e", "devices")  # in this order
_SPOKEN = {"e2e": "the end-to-end time"}
_STEP_HEADS = ("device", "deployment", "devices", "requests/s", "to the asked")
_NO_BIAS_PERCENT = 0.5


def page_parts(
    decision: Contents, best: Sequence[Row], *, command: str, spoken: Callable[[str], str], still: str | None
) -> list[tuple[str, Html]]:
    return [
        ("What to deploy", html_of(answer_part(decision, best, spoken))),
        ("The deployments, and other limits", html_of(_moving(decision, best))),
        ("The frontier", html_of(_frontier(decision, still))),
        ("What it costs", html_of(_costs(decision, best, spoken))),
        ("How far off it may be", html_of(_errors(decision, best))),
        ("What would change it", html_of(_changes(decision, best, spoken))),
        ("What is assumed", html_of(_assumed(decision.answer, decision, spoken))),
        ("What the words mean", words_part(() if decision.stops is None else decision.stops.rows)),
        ("Where it comes from", html_of(_source(decision, command))),
    ]


def cells_of(row: Row) -> list[object]:
    return [readable_row(row)[name] for name, _ in CELLS]


def _moving(decision: Contents, best: Sequence[Row]) -> Iterator[Html]:
    stops = decision.stops
    if stops is None:
        yield paragraph("No deployment fits these devices, whatever the limits on time: nothing to move.")
        return
    devices = dict.fromkeys(str(row["device"]) for row in stops.rows)
    prices = {str(row["device"]): row["usd_per_device_hour"] for row in stops.rows}
    fields = [*map(_slider, stops.sliders), *(_price(place, one, prices[one]) for place, one in enumerate(devices))]
    reset = element("button", "as asked", type="reset")
    yield html_of([element("form", "\n", *fields, reset, "\n", id="sliders", hidden=True), "\n"])
    yield html_of([element("p", id="moved", role="status", hidden=True), "\n"])
    yield table_text([called for _, called in CELLS], map(cells_of, best), id_="deployments", named="Deployments")
    yield paragraph(_reach(stops), kind="note reach")


def _slider(slider: Slider) -> Html:
    called = f"{slider.called[0].upper()}{slider.called[1:]} at most "
    told = element("output", id=f"{slider.name}-told")
    moved = element("input", type="range", id=slider.name, min=0, step=1)
    return html_of([element("label", called, told, moved, for_=slider.name), "\n"])


def _price(number: int, device: str, price: object) -> Html:
    value = f"{price:g}" if isinstance(price, int | float) else None
    field = element("input", type="number", min=0, step="any", data_device=number, value=value)
    return html_of([element("label", f"USD an hour of a {cell_text(device)}", field, class_="price"), "\n"])


def _reach(stops: Stops) -> str:
    spans = []
    for slider in stops.sliders:
        limits = [one for one in slider.stops if one is not None]
        if slider.is_time:
            spans.append(f"{slider.called} of {limits[0]:,g} to {limits[-1]:,g} ms and no limit")
        else:
            spans.append(f"{limits[0]:,g} to {limits[-1]:,g} devices")
    timeless = "" if any(one.name == "e2e" for one in stops.sliders) else (" None moves the end-to-end time here.")
    return (
        f"The sliders end at {', '.join(spans)}: {len(stops.rows)} deployments that win at one of their {len(stops):,}"
        " combinations are kept in this file, and what lies beyond or between needs the store. Prices change costs"
        f" alone, and nothing is evaluated here.{timeless}"
    )


def _frontier(decision: Contents, still: str | None) -> Iterator[Html]:
    if still is None:
        yield paragraph("No point fits the devices' memory.")
        return
    told = (
        "Each step is a stored configuration that none beats at its speed, whatever its TTFT and however many devices"
        " it takes: so a line may lie above a deployment that wins within the limits. Half of measured points"
        f" {WHOSE[decision.answer.question.limits.servers]} lie within the band."
        " Diamonds are the deployments above, the dashed line is the TPOT limit."
    )
    picture = element(
        "img",
        id="still",
        src=still,
        alt="tokens/s of a device over tokens/s of a user, aggregated and disaggregated; the tables beside"
        " it have the numbers",
    )
    live = element("div", id="live")
    yield html_of([element("figure", live, picture, "\n", element("figcaption", told), id="frontier"), "\n"])


def _costs(decision: Contents, best: Sequence[Row], spoken: Callable[[str], str]) -> Iterator[Html]:
    priced = [row for row in best if row["usd_per_hour"] is not None]
    if priced:
        chosen = [(name, called) for name, called in _COST if any(row[name] is not None for row in priced)]
        yield table_text(
            [called for _, called in chosen],
            [[readable_row(row)[name] for name, _ in chosen] for row in priced],
            named="Costs",
        )
        yield listed(_break_even(priced, decision))
    for device in dict.fromkeys(str(row["device"]) for row in best if row["usd_per_hour"] is None):
        yield paragraph(
            spoken(f"No price of {device} is stored: sweepdb prices set {device} `usd_per_device_hour=USD`")
        )


def _break_even(priced: Sequence[Row], decision: Contents) -> Iterator[str]:
    cheapest = min(priced, key=lambda row: amount(row["usd_per_million_output_tokens"]))
    least = amount(cheapest["usd_per_million_output_tokens"])
    yield (
        f"The least money for a token: {cheapest['device']}, {deployment_label(cheapest)}, at"
        f" {least:,.3g} USD a million output tokens{_cost_band(decision, cheapest)}."
    )
    seen = {str(cheapest["device"])}
    for row in sorted(priced, key=lambda row: amount(row["usd_per_million_output_tokens"])):
        if row["device"] in seen:
            continue
        seen.add(str(row["device"]))
        price = least / amount(row["usd_per_million_output_tokens"]) * amount(row["usd_per_device_hour"])
        yield f"{row['device']} would cost as little a token at {price:,.3g} USD a device and hour."


def _cost_band(decision: Contents, row: Row) -> str:
    error = rate_error(decision.answer, str(row["device"]), str(row["mode"]))
    if error is None:
        return ""
    cost, off = amount(row["usd_per_million_output_tokens"]), error / 100
    return f" ({cost / (1 + off):,.3g} to {cost * (1 + off):,.3g} by the errors below)"


def _errors(decision: Contents, best: Sequence[Row]) -> Iterator[Html]:
    if best:
        row = best[0]
        tokens = amount(row["output_tokens_per_s"])
        spans = "; ".join(rate_spans(decision.answer, str(row["device"]), str(row["mode"]), tokens))
        yield paragraph(f"{tokens:,.0f} tokens/s are predicted. Half of measured ones lie {spans}.", kind="lead")
    heads = ["predicted", "servers", "half are within", "nine in ten within", "mostly", "measured points", "nearest"]
    rows = [
        [
            f"{METRIC_NAMES[one.metric]} ({one.subject})",
            WHOSE[one.servers].removeprefix("on "),
            _percent(one.median_ape_percent),
            _percent(one.p90_ape_percent),
            _bias(one.bias_percent),
            one.points,
            one.region if one.note is None else f"{one.region} ({one.note})",
        ]
        for one in decision.answer.expected_error
    ]
    yield table_text(heads, rows, named="Expected errors")


def _bias(percent: float) -> str:
    if abs(percent) < _NO_BIAS_PERCENT:
        return "neither"
    return f"{abs(percent):.0f} % too {'high' if percent > 0 else 'low'}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"±{value:.0f} %"


def _changes(decision: Contents, best: Sequence[Row], spoken: Callable[[str], str]) -> Iterator[Html]:
    said = [spoken(one) for one in decision.plan.sentences()]
    yield listed(one for one in said if one.startswith("A ") and " limit of " in one)
    stops = decision.stops
    if stops is None:
        return
    base = amount(best[0]["system_requests_per_s"]) if best else 0.0
    for slider in sorted(stops.sliders, key=lambda one: _TOLD.index(one.name)):
        named = "With another number of devices alone"
        if slider.is_time:
            named = f"With another limit on {_SPOKEN.get(slider.name, slider.called)} alone"
        yield paragraph(f"{named}:")
        heads = [f"{slider.called} ms" if slider.is_time else "at most", *_STEP_HEADS]
        yield table_text(heads, _steps(stops, slider, base), named=named)


def _steps(stops: Stops, slider: Slider, base: float) -> Iterator[list[object]]:
    line = stops.line(slider.name)
    merged: list[tuple[float | None, int | None]] = []
    for limit, places in line:
        winner = places[0] if places else None
        if not merged or merged[-1][1] != winner:
            merged.append((limit, winner))
    ends = [*(_before(line, following[0]) for _, following in pairwise(merged)), line[-1][0]]
    for (limit, winner), end in zip(merged, ends, strict=True):
        told = _span(limit, end, last=slider.is_time and (limit, winner) == merged[-1])
        if winner is None:
            yield [told, "nothing fits", None, None, None, None]
            continue
        row = stops.rows[winner]
        share = amount(row["system_requests_per_s"]) / base if base else None
        yield [told, row["device"], deployment_label(row), row["devices_used"], row["system_requests_per_s"],
               None if share is None else f"x {share:.2f}"]  # fmt: skip


def _before(line: Sequence[tuple[float | None, tuple[int, ...]]], following: float | None) -> float | None:
    limits = [limit for limit, _ in line]
    return limits[limits.index(following) - 1]


def _span(first: float | None, end: float | None, *, last: bool) -> str:
    if first is None:
        return "no limit"
    if last:
        return f"{first:,g} and more"
    return f"{first:,g}" if first == end else f"{first:,g} to {end:,g}"


def _assumed(answer: Answer, decision: Contents, spoken: Callable[[str], str]) -> Iterator[Html]:
    rules = answer.question.definitions
    predicted = (
        f"Predicted, not measured: cost model {answer.version('family')}, serving model"
        f" {answer.version('serving_model')}, formula version {answer.version('formula_version')}."
    )
    ruled = (
        f"Rules: TPOT {answer.tpot}, prefill rate {rules.prefill_qps}, decode rate {rules.decode_qps}, throughput"
        f" {rules.throughput}, KV charge {rules.kv_charge}."
    )
    looked_at = (
        f"{answer.probes_considered:,} stored {answer.counts} of {counted(answer.scenarios_considered, 'scenario')}"
    )
    yield listed(
        dict.fromkeys(
            [
                predicted,
                ruled,
                f"{looked_at} were looked at.",
                *map(spoken, decision.plan.notes),
                *map(spoken, decision.assumptions),
                *map(spoken, answer.notes),
                *([] if answer.left_out is None else [spoken(answer.left_out)]),
            ]
        )
    )


def _source(decision: Contents, command: str) -> Iterator[Html]:
    yield paragraph("This file again, from the store as it is then:")
    yield preformatted(command)
    yield paragraph(
        f"Store {decision.plan.store.display}, identity {decision.store_id}"
        + (f", sweep {decision.plan.sweep}" if decision.plan.sweep else "")
        + f". Written {decision.written:%Y-%m-%d %H:%M} UTC."
    )
    parameters = "\n".join(f"{name} = {value}" for name, value in decision.answer.parameters.items())
    heading = element("summary", "the SQL that chose the deployments, and what it was asked with")
    asked = preformatted(f"{decision.answer.sql.strip()}\n\n-- variables\n{parameters}")
    yield html_of([element("details", heading, "\n", asked), "\n"])
