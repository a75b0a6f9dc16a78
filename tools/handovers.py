"""Handovers of engines whose prefill and decode instances were measured apart, for tools.engines.

Probes of both sides are evaluated once: a handover moves first tokens only, so that a grid of them is cheap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs import HANDOVER_MS, unfitted_engine
from evaluator.ledger import (
    Asked,
    Deployment,
    Evaluations,
    Probe,
    Unmatched,
    asked_of,
    deployment_of,
    evaluated,
    huber,
    lengths_of,
    sides_of,
    usable,
    values_of_sides,
)
from store.records import MeasurementRecord

HANDOVERS = tuple(float(value) for value in range(0, 301, 10))  # milliseconds
LEAST_PAIRS = 3  # of device and model: without any one of them two are left
FIRST_TOKEN = "ttft_ms"  # noqa: S105  a column


@dataclass(frozen=True, slots=True)
class HandoverPoint:
    """The log errors of a point's TTFT under each of HANDOVERS."""

    pair: tuple[str, str]
    errors: FloatArray


def handover_points(records: Iterable[MeasurementRecord], engine: str) -> list[HandoverPoint]:
    """The points of an engine whose sides are apart, with the client and seats that their source states."""
    found = [one for one in _apart(records) if one[1].engine == engine]
    if len({deployment.pair for _, deployment in found}) < LEAST_PAIRS:
        return []
    asked = [asked_of(deployment, "known", engine=unfitted_engine(engine)) for _, deployment in found]
    probes = evaluated(asked)
    return [
        HandoverPoint(deployment.pair, _errors(record, deployment, one, probes))
        for (record, deployment), one in zip(found, asked, strict=True)
        if one.scenario in probes and one.prompts in probes
    ]


def fitted_handover(points: Sequence[HandoverPoint], without: tuple[str, str] | None = None) -> float:
    """The handover with the least Huber loss over the points of other pairs; the usual one where there are none."""
    kept = [point.errors for point in points if point.pair != without]
    return HANDOVERS[int(huber(np.stack(kept)).sum(axis=0).argmin())] if kept else HANDOVER_MS


def _apart(records: Iterable[MeasurementRecord]) -> Iterable[tuple[MeasurementRecord, Deployment]]:
    for record in usable(records).records:
        if record.mode == "disaggregated" and f"{FIRST_TOKEN}_mean" in record.metrics:
            with suppress(Unmatched):
                yield record, deployment_of(record)


@dataclass(frozen=True, slots=True)
class _Sooner:
    """A probe whose first tokens come so much sooner."""

    probe: Probe
    sooner_ms: float

    def value(self, column: str, batch_size: int) -> float:
        """A number of the probe."""
        found = self.probe.value(column, batch_size)
        return found - self.sooner_ms if column == FIRST_TOKEN else found


def _errors(record: MeasurementRecord, deployment: Deployment, asked: Asked, probes: Evaluations) -> FloatArray:
    sides, lengths = sides_of(deployment, "known", asked, probes), lengths_of(deployment, "known")
    engine = sides.prompts_scenario.engine
    if engine is None:
        raise TypeError("evaluated under a shipped profile")
    predicted = []
    for handover in HANDOVERS:
        moved = replace(
            sides,
            prompts=_Sooner(sides.prompts, 0.5 * (engine.handover_ms - handover)),
            prompts_scenario=replace(sides.prompts_scenario, engine=replace(engine, handover_ms=handover)),
        )
        predicted.append(values_of_sides(deployment, lengths, moved)[FIRST_TOKEN])
    return np.asarray(np.log(np.asarray(predicted) / record.metrics[f"{FIRST_TOKEN}_mean"]))
