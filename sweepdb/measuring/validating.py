"""Predicts measured points and compares; rules and figures: evaluator.ledger.scoring."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evaluator import ledger
from evaluator.evaluate import unsupported
from evaluator.inputs import EngineProfile
from evaluator.scenario import Scenario
from store.records import MeasurementRecord
from sweepdb.measuring.log_scoring import Replay
from sweepdb.measuring.open_loops import AtRate

# Metric as columns name it -> name in the answer. Others keep their own.
SHORT = {"ttft_ms": "ttft", "tpot_exclusive_ms": "tpot"}
PEER_FIELDS = {"ttft": "aic_ttft_ms", "tpot": "aic_tpot_ms"}
GROUPS = (("device",), ("device", "model", "engine"), ("mode",), ("engine",), ("model",), ("batch_region",),
          ("length_region",), ("region",))  # fmt: skip

STANDINGS = ("all", "device", "engine", "kind")  # of both sides, where there is a peer

FEW_REQUESTS = 100
FEWER_THAN_STAGES = "fewer users than stages of the pipeline: rows hold one a stage"
SHORT_RUN = f"run of fewer than {FEW_REQUESTS} requests: its times hold warm-up and first compiles, predictions do not"

Progress = Callable[[int, int], None]  # (scenarios evaluated, scenarios)
Point = tuple[MeasurementRecord, ledger.Deployment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Comparisons that share `values` of `by`, the peer's beside ours."""

    by: tuple[str, ...]
    values: tuple[str, ...]
    metric: str
    ours: ledger.Figures
    peer: tuple[ledger.Figures, ledger.Figures] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePeer:
    """On points that both predict; "all" of them."""

    by: str
    value: str
    ours: ledger.Standing
    peer: ledger.Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldIntervals:
    """TTFT intervals: errors of both ends, and measured values inside."""

    points: int
    inside: int
    apart: ledger.Figures  # users drift as far as their engine's do
    in_step: ledger.Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Comparisons as asked and as known, and what was left out."""

    comparisons: tuple[ledger.Comparison, ...]
    excluded: tuple[ledger.Exclusion, ...]
    noisy_twins: int
    twins: int
    coverage_of_peer: float | None  # share of the points which the peer predicts and no rule takes out
    points: Mapping[str, ledger.Deployment] = field(default_factory=dict)  # by the key of the measured record
    asked: Mapping[tuple[ledger.Knowledge, str], ledger.Asked] = field(
        default_factory=dict
    )  # what was evaluated for each
    probes: Mapping[Scenario, ledger.Evaluated] = field(default_factory=dict)
    replays: tuple[Replay, ...] = ()  # of points that have a log of their requests
    at_rates: tuple[AtRate, ...] = ()  # of points that state a rate, beside loads

    def of(self, knowledge: ledger.Knowledge) -> tuple[ledger.Comparison, ...]:
        """As asked, or as known."""
        return tuple(one for one in self.comparisons if one.knowledge == knowledge)

    def metrics(self) -> tuple[str, ...]:
        found = {one.metric for one in self.comparisons}
        return (*(name for name in SHORT.values() if name in found), *sorted(found - set(SHORT.values())))

    def figures_of(self, metric: str, knowledge: ledger.Knowledge = "asked") -> ledger.Figures | None:
        return ledger.figures(one.error for one in self.of(knowledge) if one.metric == metric)

    def peer_figures(
        self, metric: str, knowledge: ledger.Knowledge = "asked"
    ) -> tuple[ledger.Figures, ledger.Figures] | None:
        """(ours, the peer's) over rows that both predict."""
        return _beside_peer([one for one in self.of(knowledge) if one.metric == metric])

    def groups(self, knowledge: ledger.Knowledge = "asked") -> tuple[Group, ...]:
        return tuple(
            Group(by=by, values=values, metric=metric, ours=ours, peer=_beside_peer(found))
            for by in GROUPS
            for (values, metric), found in sorted(_grouped(self.of(knowledge), by).items())
            if (ours := ledger.figures(one.error for one in found)) is not None
        )

    def beside_peer(self, knowledge: ledger.Knowledge = "asked") -> tuple[BesidePeer, ...]:
        """Errors, orders and regret, by each of STANDINGS."""
        shared = [one for one in self.of(knowledge) if one.peer is not None]
        return tuple(
            BesidePeer(by=by, value=value, ours=ours, peer=peer)
            for by in STANDINGS
            for value, found in sorted(_split(shared, by).items())
            if (ours := ledger.standing_of(found, "ours")) is not None
            and (peer := ledger.standing_of(found, "peer")) is not None
        )

    def first_tokens(self, knowledge: ledger.Knowledge = "asked") -> HeldIntervals | None:
        """Where there are any."""
        found = []
        for one in self.of(knowledge):
            asked = self.asked.get((knowledge, one.record_key))
            if one.metric == SHORT["ttft_ms"] and asked is not None and one.mode == "aggregated":
                in_step = self.probes[asked.scenario].value("ttft_in_step_ms", asked.batch_size)
                if not math.isnan(in_step):
                    found.append((one.measured, one.predicted, in_step))
        apart, together = (ledger.figures(row[end] / row[0] - 1.0 for row in found) for end in (1, 2))
        if apart is None or together is None:
            return None
        inside = sum(min(row[1:]) <= row[0] <= max(row[1:]) for row in found)
        return HeldIntervals(points=len(found), inside=inside, apart=apart, in_step=together)

    def ranking(self, knowledge: ledger.Knowledge = "asked") -> tuple[float, int] | None:
        """Mean Kendall tau, and number of groups."""
        return ledger.ranking_agreement(self.of(knowledge))


def _grouped(
    comparisons: Iterable[ledger.Comparison], by: tuple[str, ...]
) -> Mapping[tuple[tuple[str, ...], str], list[ledger.Comparison]]:
    groups: dict[tuple[tuple[str, ...], str], list[ledger.Comparison]] = defaultdict(list)
    for one in comparisons:
        groups[tuple(field_of(one, name) for name in by), one.metric].append(one)
    return groups


def _split(comparisons: Iterable[ledger.Comparison], by: str) -> Mapping[str, list[ledger.Comparison]]:
    groups: dict[str, list[ledger.Comparison]] = defaultdict(list)
    for one in comparisons:
        groups["all" if by == "all" else field_of(one, by)].append(one)
    return groups


def field_of(one: ledger.Comparison, name: str) -> str:
    if name == "kind":
        return "mixture of experts" if one.moe else "dense"
    return str(getattr(one, name))


def _beside_peer(found: Sequence[ledger.Comparison]) -> tuple[ledger.Figures, ledger.Figures] | None:
    shared = [(one.error, one.peer_error) for one in found if one.peer_error is not None]
    ours, peer = ledger.figures(one for one, _ in shared), ledger.figures(one for _, one in shared if one is not None)
    return None if ours is None or peer is None else (ours, peer)


def compare(
    records: Sequence[MeasurementRecord],
    captured: ledger.LookUp | None = None,
    *,
    engine: EngineProfile | None = None,
    on_progress: Progress = lambda _done, _all: None,
    evaluate: ledger.Evaluate = ledger.evaluated_or_why,
    mine: Callable[[str], bool] | None = None,
    most_ttft: float = ledger.LARGEST_TTFT_SHARE,
) -> Validation:
    """By rules of evaluator.ledger.scoring, as asked and as known.

    Fitted pairs are predicted by the fit without them; `engine` replaces profiles. `captured` looks operators up,
    `evaluate` says where, `mine` which points; rules see all."""
    chosen = ledger.usable(records, most_ttft=most_ttft)
    if mine is not None:
        chosen = replace(chosen, records=tuple(record for record in chosen.records if mine(record.key)))
    points, unmatched, repairs = _matched(chosen.records)
    asked = {
        (knowledge, record.key): ledger.asked_of(deployment, knowledge, engine=engine)
        for knowledge in ledger.KNOWLEDGE
        for record, deployment in points
    }
    probes, failures = evaluate(ledger.sizes_of(asked.values()), captured, on_progress)
    comparisons = tuple(
        comparison
        for knowledge in ledger.KNOWLEDGE
        for record, deployment in points
        for comparison in _comparisons(record, deployment, knowledge, asked[knowledge, record.key], probes, captured)
    )
    covered = {one.record_key for one in comparisons}
    for record, _ in points:
        if record.key not in covered:
            unmatched[_not_covered(asked["asked", record.key], probes, failures)] += 1
    return Validation(
        comparisons=comparisons,
        excluded=(
            *chosen.excluded,
            *(ledger.Exclusion(rule=rule, rows=rows) for rule, rows in sorted(unmatched.items()) if rows),
            *(ledger.Exclusion(rule=rule, rows=rows, repaired=True) for rule, rows in sorted(repairs.items()) if rows),
        ),
        noisy_twins=chosen.noisy_twins,
        twins=chosen.twins,
        coverage_of_peer=_coverage(chosen, covered),
        points={record.key: deployment for record, deployment in points if record.key in covered},
        asked={key: one for key, one in asked.items() if key[1] in covered},
        probes=probes,
    )


def _not_covered(asked: ledger.Asked, probes: Mapping[Scenario, ledger.Evaluated], failures: ledger.Failures) -> str:
    for scenario in (asked.scenario, asked.prompts):
        if scenario is not None and scenario in failures:
            return f"not evaluated: {failures[scenario]}"
    refused = None if asked.scenario in probes else unsupported(asked.scenario)
    return "metric not predicted for this phase" if refused is None else f"not served: {refused.message}"


def _matched(records: Iterable[MeasurementRecord]) -> tuple[list[Point], Counter[str], Counter[str]]:
    points: list[Point] = []
    rules: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    for record in records:
        try:
            deployment = ledger.deployment_of(record)
        except ledger.Unmatched as reason:
            rules[reason.rule] += 1
            continue
        if record.mode != "prefill" and deployment.users_of_replica < deployment.plan.pp:
            rules[FEWER_THAN_STAGES] += 1
            continue
        points.append((record, deployment))
        repairs.update(deployment.repairs)
        repairs[SHORT_RUN] += 0 < (record.run.completed_requests or 0) < FEW_REQUESTS
    return points, rules, repairs


def _coverage(chosen: ledger.Usable, covered: set[str]) -> float | None:
    wanted = [record.key for record in chosen.records if _peer_value(record, "tpot") is not None]
    return sum(key in covered for key in wanted) / len(wanted) if wanted else None


def _comparisons(  # noqa: PLR0917  one of each
    record: MeasurementRecord,
    deployment: ledger.Deployment,
    knowledge: ledger.Knowledge,
    asked: ledger.Asked,
    probes: Mapping[Scenario, ledger.Evaluated],
    captured: ledger.LookUp | None,
) -> Iterable[ledger.Comparison]:
    found = ledger.predicted(deployment, knowledge, asked, probes, captured)
    for bare, measured in sorted(ledger.central_metrics(record.metrics).items()):
        if bare not in found:
            continue
        metric = SHORT.get(bare, bare)
        yield ledger.Comparison(
            knowledge=knowledge,
            metric=metric,
            measured=measured,
            predicted=found[bare],
            peer=_peer_value(record, metric),
            device=deployment.device.name,
            model=deployment.model_name,
            engine=deployment.engine or "unstated",
            mode=deployment.mode,
            moe=deployment.moe,
            plan=ledger.plan_label(deployment),
            num_devices=deployment.num_devices,
            users=deployment.users,
            input_length=deployment.input_length,
            output_length=deployment.output_length,
            batch_size=ledger.batch_size_of(deployment, knowledge, asked, probes),
            record_key=record.key,
        )


def _peer_value(record: MeasurementRecord, metric: str) -> float | None:
    text = json.loads(record.extra).get(PEER_FIELDS.get(metric, ""))
    try:
        value = math.nan if text in {None, ""} else float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and value > 0 else None
