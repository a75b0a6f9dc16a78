"""Orders a plan's rows by money, rate, devices or time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from queries.asking import Answer

Row = Mapping[str, object]
RANKINGS: Mapping[str, str] = {  # what the first row is, in words
    "cost": "is the cheapest",
    "rate": "carries most",
    "devices": "takes the fewest devices",
    "latency": "has the shortest requests",
}
_LAST = 1e300
_BETWEEN = " · "  # parts of a group's title: model, workload, formats, and the rest


def ranked(answer: Answer, rank_by: str | None, published: str, *, narrower: bool) -> Answer:
    """Each with its format; engines and workloads stay apart.

    `narrower`: each device and kind keeps its best as published and its best in a narrower format."""
    rows = [{**row, "quantization": quantization_of(answer, row)} for row in answer.dicts()]
    by = rank_by or usual_ranking(rows)
    lots = {subject: number for number, subject in enumerate(subjects(answer))}
    placed = sorted((lots[subject_of(answer, row)], order_of(row, by), number) for number, row in enumerate(rows))
    kept: list[Row] = []
    seen: set[tuple[object, ...]] = set()
    counts: Counter[int] = Counter()
    for lot, _, number in placed:
        row = rows[number]
        kind = (lot, row["device"], row["mode"], row["quantization"] == published)
        if narrower and kind in seen:
            continue
        seen.add(kind)
        counts[lot] += 1
        kept.append({**row, "rank": counts[lot]})
    columns = (*answer.columns, "quantization")
    return replace(answer, columns=columns, rows=tuple(tuple(row[name] for name in columns) for row in kept))


def quantization_of(answer: Answer, row: Row) -> str:
    return parts_of_title(answer, row)[2]


def subject_of(answer: Answer, row: Row) -> str:
    return _without_format(parts_of_title(answer, row))


def subjects(answer: Answer) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_without_format(title.split(_BETWEEN)) for title in answer.scope))


def parts_of_title(answer: Answer, row: Row) -> list[str]:
    return answer.scope[int(number_of(row["question_group"]))].split(_BETWEEN)


def _without_format(parts: list[str]) -> str:
    return _BETWEEN.join([*parts[:2], *parts[3:]])


def usual_ranking(rows: Iterable[Row]) -> str:
    """Money of what carries the target, devices without prices, else rate."""
    carrying = [row for row in rows if row["carries_target"]]
    if not carrying:
        return "rate"
    return "devices" if any(row["usd_per_hour"] is None for row in carrying) else "cost"


def order_of(row: Row, by: str) -> tuple[object, ...]:
    """Winner first; rows that miss the target come last.

    A target costs its devices an hour; else cost is a generated token's."""
    cost = "usd_per_hour" if row["carries_target"] else "usd_per_million_output_tokens"
    measure = {
        "cost": number_of(row[cost], _LAST),
        "devices": number_of(row["devices_used"]),
        "latency": number_of(row["e2e_ms"], _LAST),
        "rate": 0.0,
    }[by]
    fewest = number_of(row["devices_used"]) if row["carries_target"] and by == "cost" else 0.0
    rate = -number_of(row["system_requests_per_s"])
    return row["carries_target"] is False, measure, fewest, rate, str(row["device"]), str(row["deployment"])


def number_of(value: object, missing: float = float("nan")) -> float:
    return float(value) if isinstance(value, int | float) else missing
