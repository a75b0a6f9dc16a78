"""Whether disaggregation pays, by goodput, and under which limits that turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from queries.judging.subjects import SERVING
from store.light_dataclass import NamedTuple
from store.schema import short_plan

if TYPE_CHECKING:
    import duckdb

    from queries.asking.question import Answer, Question

_SEPARATION = Path(__file__).with_name("separation.sql").read_text(encoding="utf-8")
_ASKED = {
    "prefills": "prefill_instances", "decodes": "decode_instances", "copies": "colocated_instances",
    "question_group": "question_group", "prefill": "prefill_settings", "decode": "decode_settings",
    "colocated": "colocated_settings",
}  # fmt: skip
_AXES = {"both": "both limits", "ttft": "TTFT", "tpot": "TPOT"}
_Row = Mapping[str, object]


class _Compared(NamedTuple):
    """Requests/s of a pair and of the aggregated plan, by factor on the limits."""

    scale: float
    apart: float
    together: float

    @property
    def pays(self) -> bool | None:
        """None where neither carries anything."""
        return None if max(self.apart, self.together) <= 0.0 else self.apart > self.together


def separation_lines(
    answer: Answer, connection: duckdb.DuckDBPyConnection, ready: Callable[[str], str]
) -> Iterator[str]:
    rows = [row for row in answer.dicts() if row["rank"] == 1]
    for row in rows:
        where = _group(answer, row) if len(rows) > 1 else ""
        if row["goodput"] is None:
            yield f"No pair of instances carries any rate at these limits{where}."
        elif str(row["said"]).startswith(">="):
            yield f"Whether separation pays is open{where}: a side of the best pair was simulated at no higher rate."
        elif row["colocated_plan"] is None:
            yield f"No plan that does both was simulated on as many devices: nothing to compare a pair with{where}."
        else:
            yield f"{_here(row)}{where}; {_turns(answer.question, row, connection, ready)}."


def _group(answer: Answer, row: _Row) -> str:
    group = row["question_group"]
    return f" ({answer.scope[group]})" if isinstance(group, int) and group < len(answer.scope) else ""


def _here(row: _Row) -> str:
    sides = (f"{row[f'{side}_instances']} x {short_plan(str(row[f'{side}_plan']))}" for side in ("prefill", "decode"))
    pair = " + ".join(sides)
    beside = f"{row['colocated_instances']} x {short_plan(str(row['colocated_plan']))} for both on as many devices"
    advantage = row["advantage"]
    if not isinstance(advantage, float):
        return f"Separation pays here: {pair} carries {_number(row['goodput']):.3g} requests/s, {beside} none"
    said = "pays" if advantage > 1 else "does not pay"
    return f"Separation {said} here: {pair} carries {advantage:.2f} x what {beside} carry"


def _turns(question: Question, row: _Row, connection: duckdb.DuckDBPyConnection, ready: Callable[[str], str]) -> str:
    """Limits at which the two deployments change places: both, and each by itself."""
    limits = {"ttft": question.limits.ttft_ms, "tpot": question.limits.tpot_ms}
    if question.limits.tbt_ms is not None:
        return "where that turns is not looked for under a limit of the time between tokens"
    if all(limit is None for limit in limits.values()):
        return "without a limit nothing can turn it"
    found: dict[str, list[_Compared]] = defaultdict(list)
    asked = {name: row[column] for name, column in _ASKED.items()}
    for axis, *compared in connection.execute(ready(_SEPARATION), asked).fetchall():
        found[str(axis)].append(_Compared(*map(float, compared)))
    given = {name: limit for name, limit in limits.items() if limit is not None}
    axes = ("both", *given) if len(given) > 1 else tuple(given)
    joined = row["combined"] != "shares multiplied"
    pays = _number(row["advantage"]) > 1.0 or row["advantage"] is None if joined else None
    turned = {axis: _nearest(found[axis], pays) for axis in axes}
    told = [_told(axis, scale, given) for axis, scale in turned.items() if scale is not None]
    never = [_AXES[axis] for axis, scale in turned.items() if scale is None]
    way = ", shares multiplied," if joined else ""
    parts = [f"that turns{way} at about {', or '.join(told)}"] if told else []
    if never:
        parts.append(f"from an eighth to eight times {' or '.join(never)} it does not turn")
    return ", and ".join(parts)


def _told(axis: str, scale: float, given: Mapping[str, float]) -> str:
    moved = [f"{_AXES[name]} {_length(scale * limit)} ms" for name, limit in given.items() if axis in {"both", name}]
    alone = " alone" if axis != "both" and len(given) > 1 else ""
    return f"{' and '.join(moved)}{alone}"


def _length(limit_ms: float) -> str:
    return f"{limit_ms:,.0f}" if limit_ms >= 100 else f"{limit_ms:.3g}"


def _nearest(compared: list[_Compared], pays: bool | None) -> float | None:
    """The factor nearest to 1 at which the other carries more; None: never.

    `pays` decides where the curves do not."""
    here = next((one.pays for one in compared if one.scale == 1.0), None) if pays is None else pays
    turned = [one.scale for one in compared if one.pays is not None and one.pays is not here and one.scale != 1.0]
    return min(turned, key=lambda scale: (abs(log(scale)), scale), default=None)


def goodput_verdicts(answer: Answer) -> Iterator[str]:
    """Which carries more requests within limits, and whether errors leave it open."""
    groups: dict[object, dict[object, _Row]] = {}
    for row in answer.dicts():
        groups.setdefault(row["question_group"], {})[row["mode"]] = row
    for number, modes in enumerate(groups.values()):
        where = f" ({answer.scope[number]})" if len(groups) > 1 and number < len(answer.scope) else ""
        if len(modes) < 2:
            (only,) = modes
            yield f"{SERVING[str(only)]} alone carries requests within the limits{where}"
            continue
        gain = _number(modes["pd"]["system_goodput"]) / _number(modes["aggregated"]["system_goodput"])
        winner, other = ("pd", "aggregated") if gain >= 1 else ("aggregated", "pd")
        yield (
            f"{SERVING[winner]} carries {max(gain, 1 / gain):.2f} x the requests/s within the limits of"
            f" {SERVING[other].lower()}{where}: {_in_spite(modes, winner)}"
        )


def _in_spite(modes: Mapping[object, _Row], winner: str) -> str:
    other = "aggregated" if winner == "pd" else "pd"
    names = ("goodput_slower", "goodput_faster")
    if any(modes[mode][name] is None for mode in modes for name in names):
        return "no measured points say how far off that may be, or steps so much longer leave neither any"
    turned = [name for name in names if _number(modes[winner][name]) < _number(modes[other][name])]
    if turned:
        return f"steps {turned[0].removeprefix('goodput_')} by their expected error leave open which is better"
    return "steps slower or faster by their expected error do not change which is better"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
