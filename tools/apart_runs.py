"""Measured disaggregated points as runs beside predictions, one of each pool.

Questions read the same by SQL (queries/learning/sides.sql). Priors: tools.learning_priors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evaluator.ledger import Sides, asked_of, evaluated, lengths_of, prefill_side_of, sides_of
from evaluator.serving.pairs import DecodeSide, PairLoad, PrefillSide, pair_times
from queries.learning import OwnPoint, Run, log_factor
from sweepdb.own_runs import group_of, plan_name, point_or_reason
from tools.ledger_summary import Point


def apart_groups_of(points: Sequence[Point]) -> dict[tuple[str, ...], list[Run]]:
    """By server; both pools of a point have one key."""
    apart = [point for point in points if point.deployment.prefill_plan is not None]
    asked = {id(point): asked_of(point.deployment, "asked") for point in apart}
    probes = evaluated(asked.values())
    found: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for point in apart:
        own, wanted = point_or_reason(point.record), asked[id(point)]
        if isinstance(own, OwnPoint) and {wanted.scenario, wanted.prompts} <= probes.keys():
            sides = sides_of(point.deployment, "asked", wanted, probes)
            found[group_of(point.deployment)] += _runs(point, own, sides)
    return dict(found)


def _runs(point: Point, own: OwnPoint, sides: Sides) -> Iterator[Run]:
    one, prompts = point.deployment, own.prompts
    if prompts is None or one.prefill_plan is None:
        return
    tpot, plan = own.measured["tpot_exclusive_ms"], one.prefill_plan
    told = sides.tokens.value("tpot_exclusive_ms", min(own.batch_size, sides.most))
    at = own.setting._replace(plan=f"decode {own.setting.plan}")
    yield Run(key=own.key, setting=at, tpot=math.log(tpot / told), version=own.version)
    side, load = prefill_side_of(one, lengths_of(one, "asked"), sides)
    decode = DecodeSide(decoding=prompts.requests_per_s * prompts.answer_ms / 1000.0, tpot_ms=tpot)
    factor = longer_prompts(side, decode, load, own.measured["ttft_ms"])
    place = at._replace(
        users=float(plan.dp * plan.pp), num_devices=float(plan.num_devices), dp=float(plan.dp), ep=float(plan.ep),
        plan=f"prefill {plan_name(plan)}",
    )  # fmt: skip
    yield Run(key=own.key, setting=place, ttft=factor, version=own.version)


def longer_prompts(prefill: PrefillSide, decode: DecodeSide, load: PairLoad, ttft_ms: float) -> float:
    """Log of how much longer prompts must take for the measured TTFT."""

    def longer_than_measured(longer: float) -> bool:
        side = replace(
            prefill, alone_ms=longer * prefill.alone_ms, service_ms=longer * prefill.service_ms,
            request_ms=longer * prefill.request_ms,
        )  # fmt: skip
        pair = pair_times(side, decode, load)
        return pair is None or pair.ttft_ms > ttft_ms

    return log_factor(longer_than_measured)
