"""Predict measured points, compare, keep both. No Typer, no printing; rules and figures: evaluator.scoring."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from evaluator.capture import CaptureRequest, capture
from evaluator.deployments import Deployment, Unmatched, deployment_of
from evaluator.measurements import read_measurements
from evaluator.measurements.building import Problem
from evaluator.operators import OperatorSet, from_json, to_json
from evaluator.prediction import predictions, tables_of
from evaluator.scoring import (
    Comparison,
    Exclusion,
    Figures,
    figures,
    grouped,
    plan_label,
    ranking_agreement,
    usable,
)
from evaluator.serving.engines import STARTS, EngineProfile, engine_profile
from store.location import parse_url
from store.measurements import get_measurements, put_measurements
from store.migrating import create_if_missing
from store.opening import Store, open_store
from store.operators import get_operators, put_operators
from store.records import MeasurementRecord, OperatorSetRecord

# Statistic-free metric -> name in the answer. Others keep their own.
SHORT = {"ttft_ms": "ttft", "tpot_exclusive_ms": "tpot"}
PEER_FIELDS = {"ttft": "aic_ttft_ms", "tpot": "aic_tpot_ms"}
CENTRAL = {"mean", "p50", ""}
GROUPS = (("device",), ("model",), ("engine",), ("mode",), ("device", "model", "engine"), ("region",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought."""

    read: int
    added: int
    formats: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Figures of the comparisons that share `values` of the fields `by`."""

    by: tuple[str, ...]
    values: tuple[str, ...]
    metric: str
    ours: Figures
    peer: Figures | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Every comparison, and what was left out of them."""

    comparisons: tuple[Comparison, ...]
    excluded: tuple[Exclusion, ...]
    noisy_twins: int
    twins: int
    coverage_of_peer: float | None  # share of the points which the peer predicts and no rule takes out

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics compared, latencies of serving first."""
        found = {one.metric for one in self.comparisons}
        return (*(name for name in SHORT.values() if name in found), *sorted(found - set(SHORT.values())))

    def figures_of(self, metric: str) -> Figures | None:
        """Ours over every comparison of a metric."""
        return figures(one.error for one in self.comparisons if one.metric == metric)

    def peer_figures(self, metric: str) -> tuple[Figures, Figures] | None:
        """(ours, the peer's) over the rows both predict."""
        both = [(one.error, one.peer_error) for one in self.comparisons if one.metric == metric]
        shared = [(ours, peer) for ours, peer in both if peer is not None]
        ours, peer = figures(one for one, _ in shared), figures(one for _, one in shared)
        return None if ours is None or peer is None else (ours, peer)

    def groups(self) -> tuple[Group, ...]:
        """Figures by device, model, engine, mode, the three together, and region."""
        return tuple(
            Group(by=by, values=values, metric=metric, ours=ours, peer=_peer(found))
            for by in GROUPS
            for (values, metric), found in _by(self.comparisons, by)
            if (ours := figures(one.error for one in found)) is not None
        )

    def ranking(self) -> tuple[float, int] | None:
        """Mean Kendall tau and its groups."""
        return ranking_agreement(self.comparisons)


def _by(
    comparisons: Iterable[Comparison], by: tuple[str, ...]
) -> Iterable[tuple[tuple[tuple[str, ...], str], list[Comparison]]]:
    for key, found in grouped(comparisons, (*by, "metric")).items():
        yield (key[:-1], key[-1]), found


def _peer(found: Sequence[Comparison]) -> Figures | None:
    return figures(one.peer_error for one in found if one.peer_error is not None)


def import_measurements(paths: Sequence[Path], store_url: str | None) -> Imported:
    """Read files and store what is new. A bad line is a problem; the rest goes in."""
    results = [read_measurements(path) for path in paths]
    records = [record for result in results for record in result.records]
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        added = put_measurements(store, records)
    return Imported(
        read=len(records),
        added=added,
        formats=tuple(dict.fromkeys(result.format for result in results if result.format)),
        problems=tuple(problem for result in results for problem in result.problems),
    )


def validate(paths: Sequence[Path], store_url: str | None) -> Validation:
    """Compare the points of files (stored on the way), or every stored point where no file is given."""
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        if paths:
            records = [record for path in paths for record in read_measurements(path).records]
            put_measurements(store, records)
        else:
            records = get_measurements(store)
        return compare(records, _remembered(store))


def compare(
    records: Sequence[MeasurementRecord],
    captured: Callable[[CaptureRequest], OperatorSet] = capture,
    *,
    engine: EngineProfile | None = None,
) -> Validation:
    """Comparisons of records under the rules of evaluator.scoring. Pairs that an engine was fitted to are predicted
    by the fit that left them out; `engine` replaces the shipped profiles."""
    chosen = usable(records)
    matched: list[tuple[MeasurementRecord, Deployment]] = []
    rules: Counter[str] = Counter()
    repairs: Counter[str] = Counter()
    for record in chosen.records:
        try:
            matched.append((record, deployment_of(record)))
            repairs.update(matched[-1][1].repairs)
        except Unmatched as reason:
            rules[reason.rule] += 1
    tables = tables_of([deployment for _, deployment in matched], captured)
    comparisons: list[Comparison] = []
    for (record, deployment), table in zip(matched, tables, strict=True):
        found = predictions(deployment, table, engine or _profile(deployment))
        made = list(_comparisons(record, deployment, found))
        comparisons += made
        rules["metric not predicted for this phase"] += not made
    covered = {one.record_key for one in comparisons}
    wanted = [record.key for record in chosen.records if _peer_value(record, "tpot") is not None]
    return Validation(
        comparisons=tuple(comparisons),
        excluded=(
            *chosen.excluded,
            *(Exclusion(rule=rule, rows=rows) for rule, rows in sorted(rules.items()) if rows),
            *(Exclusion(rule=rule, rows=rows, repaired=True) for rule, rows in sorted(repairs.items())),
        ),
        noisy_twins=chosen.noisy_twins,
        twins=chosen.twins,
        coverage_of_peer=sum(key in covered for key in wanted) / len(wanted) if wanted else None,
    )


def _profile(deployment: Deployment) -> EngineProfile:
    if deployment.engine is None:  # whoever served it: no host time, nothing fitted
        return replace(STARTS["trtllm"], step_ms=0.0, step_per_decode_ms=0.0, step_per_prompt_ms=0.0,
                       prompt_step_ms=0.0, request_ms=0.0)  # fmt: skip
    return engine_profile(deployment.engine, unseen=deployment.pair)


def _comparisons(record: MeasurementRecord, deployment: Deployment, found: Mapping[str, float]) -> Iterable[Comparison]:
    for name, measured in sorted(record.metrics.items()):
        bare, statistic = _split(name)
        if bare not in found or statistic not in CENTRAL:
            continue
        metric = SHORT.get(bare, bare)
        yield Comparison(
            metric=metric,
            measured=measured,
            predicted=found[bare],
            peer=_peer_value(record, metric),
            device=deployment.device.name,
            model=deployment.model_name,
            engine=deployment.engine or "unstated",
            mode=deployment.mode,
            moe=deployment.moe,
            plan=plan_label(deployment),
            num_devices=deployment.plan.num_devices,
            users=deployment.users,
            input_length=deployment.input_length,
            output_length=deployment.output_length,
            record_key=record.key,
        )


def _split(metric: str) -> tuple[str, str]:
    head, _, tail = metric.rpartition("_")
    known = tail in {"mean", "std"} or (tail[:1] == "p" and tail[1:].replace(".", "").isdigit())
    return (head, tail) if known else (metric, "")


def _peer_value(record: MeasurementRecord, metric: str) -> float | None:
    text = json.loads(record.extra).get(PEER_FIELDS.get(metric, ""))
    value = math.nan if text in {None, ""} else float(text)
    return value if math.isfinite(value) and value > 0 else None


def _remembered(store: Store) -> Callable[[CaptureRequest], OperatorSet]:
    """Operators from the store, traced and stored where it has none."""
    known: dict[str, OperatorSet] = {}

    def look_up(request: CaptureRequest) -> OperatorSet:
        key = request.key
        if key not in known:
            stored = get_operators(store, [key])
            if key in stored:
                known[key] = from_json(stored[key])
            else:
                known[key] = _captured(store, request)
        return known[key]

    return look_up


def _captured(store: Store, request: CaptureRequest) -> OperatorSet:
    import torch

    traced = capture(request)
    put_operators(store, [OperatorSetRecord(key=request.key, payload=to_json(traced), torch_version=torch.__version__)])
    return traced


def as_document(validation: Validation, *, against: str | None) -> dict[str, object]:
    """The answer as plain values; percentages as numbers."""
    document: dict[str, object] = {
        "overall": {
            name: asdict(found) for name in validation.metrics() if (found := validation.figures_of(name)) is not None
        },
        "groups": [
            {
                **dict(zip(group.by, group.values, strict=True)),
                "by": list(group.by),
                "metric": group.metric,
                **asdict(group.ours),
                **({"peer": asdict(group.peer)} if against and group.peer is not None else {}),
            }
            for group in validation.groups()
        ],
        "excluded": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if not one.repaired],
        "repaired": [{"rule": one.rule, "rows": one.rows} for one in validation.excluded if one.repaired],
        "twins": {"pairs": validation.twins, "further_than_1.25_apart": validation.noisy_twins},
    }
    ranking = validation.ranking()
    if ranking is not None:
        document["ranking"] = {"kendall_tau_mean": ranking[0], "groups": ranking[1]}
    if against is not None:
        document["peer"] = _peer_document(validation)
    return document


def _peer_document(validation: Validation) -> dict[str, object]:
    peer: dict[str, object] = {"coverage": validation.coverage_of_peer}
    for metric in PEER_FIELDS:
        both = validation.peer_figures(metric)
        if both is not None:
            peer[metric] = {**asdict(both[1]), "ours": asdict(both[0])}
    return peer
