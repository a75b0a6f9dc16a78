"""The worth of predictions for a choice: errors, orders, and regret."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evaluator.ledger.scoring import Comparison, Figures, figures

Whose = Literal["ours", "peer"]
LEAST_OF_A_RANKING = 3
MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Order by tokens/s/device, averaged over `groups`.

    Regret: percent that the predicted best lacks of the measured best."""

    kendall_tau: float
    regret: float
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Predictions of some points, ours or a peer's.

    `plans` are groups of equal concurrency that differ in nothing else."""

    rows: int
    e2e: Figures
    choices: Choices | None
    plans: Choices | None


@dataclass(frozen=True, slots=True)
class _Whole:
    """End-to-end ms of a point, measured and predicted."""

    point: Comparison
    measured_ms: float
    predicted_ms: float

    def rates(self) -> tuple[float, float]:
        """(measured, predicted) tokens/s/device of a closed loop."""
        point = self.point
        scale = MS * point.users * point.output_length / point.num_devices
        return scale / self.measured_ms, scale / self.predicted_ms


def ranking_agreement(comparisons: Iterable[Comparison]) -> tuple[float, int] | None:
    """Mean Kendall tau, and number of groups.

    Points of a group differ in plan or batch alone; at least three."""
    found = _choices(_wholes(comparisons, "ours"), least=LEAST_OF_A_RANKING)
    return None if found is None else (found.kendall_tau, found.groups)


def standing_of(comparisons: Sequence[Comparison], whose: Whose) -> Standing | None:
    """None without a point that has both latencies."""
    wholes = list(_wholes(comparisons, whose))
    e2e = figures(one.predicted_ms / one.measured_ms - 1.0 for one in wholes)
    if e2e is None:
        return None
    return Standing(
        rows=len(wholes),
        e2e=e2e,
        choices=_choices(wholes, least=LEAST_OF_A_RANKING),
        plans=_choices(wholes, least=2, equal_users=True),
    )


def _wholes(comparisons: Iterable[Comparison], whose: Whose) -> Iterable[_Whole]:
    by_record: dict[str, dict[str, Comparison]] = defaultdict(dict)
    for one in comparisons:
        by_record[one.record_key][one.metric] = one
    for found in by_record.values():
        ttft, tpot = found.get("ttft"), found.get("tpot")
        if ttft is None or tpot is None:
            continue
        first, each = (one.predicted if whose == "ours" else one.peer for one in (ttft, tpot))
        if first is not None and each is not None:
            more = ttft.output_length - 1
            yield _Whole(ttft, ttft.measured + more * tpot.measured, first + more * each)


def _choices(wholes: Iterable[_Whole], *, least: int, equal_users: bool = False) -> Choices | None:
    groups: Mapping[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for one in wholes:
        point = one.point
        group = (point.model, point.device, point.engine, point.mode, point.input_length, point.output_length)
        groups[group, point.users if equal_users else None].append(one.rates())
    pairs = [(tau, _regret(rates)) for rates in groups.values() if len(rates) >= least
             if (tau := kendall_tau(rates)) is not None]  # fmt: skip
    if not pairs:
        return None
    tau, regret = np.mean(pairs, axis=0).tolist()
    return Choices(kendall_tau=tau, regret=regret, groups=len(pairs))


def _regret(rates: Sequence[tuple[float, float]]) -> float:
    """Percent of the best measured rate."""
    # Measured 100 and 80 tokens/s, predicted 70 and 90: the second is chosen, 20 % are lost.
    chosen = max(rates, key=lambda rate: rate[1])[0]
    return 100.0 * (1.0 - chosen / max(measured for measured, _ in rates))


def kendall_tau(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Tau-b, corrected for ties (Kendall 1945). None where one order is all ties."""
    left, right = (np.asarray(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    upper = np.triu_indices(left.size, 1)
    one = np.sign(left[:, None] - left[None, :])[upper]
    other = np.sign(right[:, None] - right[None, :])[upper]
    untied = float(np.sqrt(np.abs(one).sum() * np.abs(other).sum()))
    return float((one * other).sum() / untied) if untied else None
