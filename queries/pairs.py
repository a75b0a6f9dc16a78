"""Answers about pairs from several statements, and the sentence on the winner."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from queries.errors.spreads import OTHERS, WHOSE
from queries.judging.confidence import ratio_at
from queries.judging.subjects import SERVING
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS

if TYPE_CHECKING:
    from queries.asking.question import Answer
    from queries.errors.expected import ExpectedError
    from queries.scoping.scope import ResolvedScope

# What stands for the rate of each side: its throughput, and of a decode instance the time per token.
_ERRORS = {"aggregated": "output_tokens_per_s", "decode": "tpot_exclusive_ms"}


def by_engine(serving_models: Collection[str]) -> bool:
    return any(model not in FORMULA_MODELS for model in serving_models)


def by_formula(scope: ResolvedScope) -> bool:
    """Whether some rows may be paired by formulas: also those of an engine that lack a prompt's service."""
    predicted = bool(scope.formula_versions) and not scope.of_measured
    return not predicted or 1 in scope.formula_versions or bool({*FORMULA_MODELS} & {*scope.serving_models})


def values_of_best(report: str, best: Answer) -> dict[str, object]:
    if len(best.rows) > 1:
        raise InputError(
            f"{report} is about one model and workload; this scope holds {len(best.rows)}",
            hint="narrow it with `model` and `workload`",
        )
    row = best.dicts()[0]
    sizes = {f"{side}_size": row[f"{side}_num_devices"] for side in ("prefill", "decode")}
    return {**row, **sizes, "served": row["users"] is not None}


def verdicts(answer: Answer, surely: Answer | None = None) -> Iterator[str]:
    """The better deployment of `compare`, and whether errors leave it open.

    Errors of both rates are independent, so medians add as squares; a smaller advantage is open. `surely` asks the
    same at `SURELY` (None: impossible); another winner there is open, too."""
    sure = {} if surely is None else _by_group(surely)
    groups = _by_group(answer)
    for number, (group, modes) in enumerate(sorted(groups.items(), key=lambda item: str(item[0]))):
        where = f" ({answer.scope[number]})" if len(groups) > 1 and number < len(answer.scope) else ""
        read = None if surely is None else _Read(best=_winner(sure.get(group, {})))
        if len(modes) < 2:
            (only,) = modes
            yield f"{SERVING[str(only)]} alone satisfies the limits{where}{_alone(str(only), read)}"
            continue
        winner, gain = _winner(modes) or ("", 0.0)
        other = "aggregated" if winner == "pd" else "pd"
        found = {phase: _median(_of_phase(answer.expected_error, phase)) for phase in _ERRORS}
        yield (
            f"{SERVING[winner]} carries {gain:.2f} x the requests/s per device of {SERVING[other].lower()}{where}:"
            f" {judged(gain, found)}{_at_limits(winner, read)}"
        )


_MIDDLE_HALF = (0.25, 0.75)
SURELY = 0.8  # confidence at which limits are read once more
_Modes = Mapping[object, Mapping[str, object]]
_Winner = tuple[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The winner with a confidence; its advantage is None where it is alone."""

    best: _Winner | None


def _by_group(answer: Answer) -> dict[object, dict[object, Mapping[str, object]]]:
    groups: dict[object, dict[object, Mapping[str, object]]] = {}
    for row in answer.dicts():
        groups.setdefault(row["question_group"], {})[row["mode"]] = row
    return groups


def _winner(modes: _Modes) -> _Winner | None:
    """With its advantage as a factor."""
    if len(modes) < 2:
        return next(((str(mode), None) for mode in modes), None)
    whole, split = (_number(modes[mode]["requests_per_s_per_device"]) for mode in ("aggregated", "pd"))
    return ("pd", split / whole) if split >= whole else ("aggregated", whole / split)


def judged(gain: float | None, errors: Mapping[str, float | None]) -> str:
    known = {name: error for name, error in errors.items() if error is not None}
    if gain is None or len(known) < len(errors):
        return "no measured points say how far off that may be"
    together = math.sqrt(sum(error**2 for error in known.values()))
    said = f"expected errors of {' and '.join(f'{error:.0f} % ({name})' for name, error in known.items())}"
    return f"{said} {'leave open which is better' if 100 * (gain - 1) < together else 'do not change which is better'}"


def _at_limits(winner: str, read: _Read | None) -> str:
    """How it fares with a confidence."""
    if read is None:
        return ""
    at = f"with limits kept at {SURELY:.0%}".replace("%", " %")
    if read.best is None:
        return f"; {at} neither satisfies them, which leaves it open"
    name, gain = read.best
    if name != winner:
        how = "alone satisfies them" if gain is None else f"carries {gain:.2f} x"
        return f"; {at} {SERVING[name].lower()} {how}, which leaves it open"
    return f"; {at} it alone satisfies them" if gain is None else f"; {at} it carries {gain:.2f} x"


def _alone(only: str, read: _Read | None) -> str:
    if read is None or (read.best is not None and read.best[0] == only):
        return ""
    return f", and not at {SURELY:.0%}".replace("%", " %")


def _of_phase(errors: Sequence[ExpectedError], phase: str, *about: str) -> list[ExpectedError]:
    return [one for one in errors if one.metric == _ERRORS[phase] and {phase, *about} <= set(one.subject.split(", "))]


def _median(found: Sequence[ExpectedError]) -> float | None:
    """Of tuned servers: what a server's points share moves both alike."""
    return max((one.median_ape_percent for one in found if one.servers != OTHERS), default=None)


def rate_error(answer: Answer, device: str, mode: str) -> float | None:
    """Largest median percent error of the rate."""
    return _median(_of_phase(answer.expected_error, "decode" if mode == "pd" else "aggregated", device))


def rate_spans(answer: Answer, device: str, mode: str, rate: float) -> Iterator[str]:
    """In words, where half of measured rates lie, by kind of servers: the widest."""
    phase = "decode" if mode == "pd" else "aggregated"
    by_servers: dict[str, list[tuple[float, float]]] = {}
    for one in _of_phase(answer.expected_error, phase, device):
        low, high = (ratio_at(one, share) for share in _MIDDLE_HALF)
        if phase == "decode":  # a time: a rate is its inverse
            low, high = 1 / high, 1 / low
        by_servers.setdefault(one.servers, []).append((rate * low, rate * high))
    for servers, spans in by_servers.items():
        least, most = min(low for low, _ in spans), max(high for _, high in spans)
        yield f"{WHOSE[servers]} between {least:,.0f} and {most:,.0f}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("-inf")
