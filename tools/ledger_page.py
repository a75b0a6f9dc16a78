"""The reference page of expected errors.

The summary is tools.ledger_summary's; queries.errors.expected finds an answer's region."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping

from queries.errors import ANY, ENGINE, METRICS, SUMMARY

_INTRODUCTION = """# Expected errors by region

What the figures mean, and how an answer finds its group: [expected
errors](../explanation/expected-errors.md).

A cell has median / 90th percentile of the absolute error and the bias, in percent, for a pair of device and model that
nobody measured. Points and pairs are those measured in the group. Wider groups are left out.
"""
_HEADS = {
    "tpot_exclusive_ms": "TPOT",
    "tpot_inclusive_ms": "TPOT, inclusive",
    "ttft_ms": "TTFT",
    "output_tokens_per_s": "tokens/s",
}
_SHOWN = ("tpot_exclusive_ms", "tpot_inclusive_ms", "ttft_ms", "output_tokens_per_s")


def shipped_regions() -> list[dict[str, str]]:
    """By the names of Region."""
    with SUMMARY.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def ledger_page() -> str:
    variants: dict[tuple[str, str, str, str], list[Mapping[str, str]]] = {}
    for row in shipped_regions():
        if row["reach"] == "device" and row["kind"] != ANY and (row["engine"] != ANY or row["serving_model"] != ENGINE):
            key = (row["family"], row["convention"], row["serving_model"], row["basis"])
            variants.setdefault(key, []).append(row)
    return "\n".join([_INTRODUCTION, *(line for key, rows in sorted(variants.items()) for line in _section(key, rows))])


def _section(key: tuple[str, str, str, str], rows: list[Mapping[str, str]]) -> Iterator[str]:
    family, convention, serving_model, basis = key
    served = f"the engine that served the point, as {basis}" if serving_model == ENGINE else f"`{serving_model}`"
    yield f"## {family}, {convention}, {served}\n"
    columns = ["device", "models", "phase", *(["engine"] if serving_model == ENGINE else []), "points", "pairs"]
    yield f"| {' | '.join([*columns, *(_HEADS[name] for name in _SHOWN)])} |"
    yield "|---" * (len(columns) + len(_SHOWN)) + "|"
    places: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for row in rows:
        place = (row["device"], row["kind"], row["phase"], *([row["engine"]] if serving_model == ENGINE else []))
        places.setdefault(place, {})[row["metric"]] = row
    for place, found in sorted(places.items()):
        first = found[next(name for name in (*METRICS[place[2]], *_SHOWN) if name in found)]
        cells = [_cell(found.get(name)) for name in _SHOWN]
        yield f"| {' | '.join([*place, first['points'], first['pairs'], *cells])} |"
    yield ""


def _cell(row: Mapping[str, str] | None) -> str:
    if row is None:
        return ""
    median, p90, bias = (float(row[f"{name}_percent"]) for name in ("median_ape", "p90_ape", "bias"))
    return f"{median:.0f} / {p90:.0f}, {bias:+.0f}"
