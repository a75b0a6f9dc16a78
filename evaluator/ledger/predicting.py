"""Predictions of measured points, from probes as `evaluate` makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from evaluator.evaluate import batch_source, capture_requests, cost_of, evaluate_scenario, unsupported
from evaluator.graph.capture import CaptureRequest
from evaluator.graph.operators import OperatorSet
from evaluator.graph.shipped import operators_of_request
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.scenarios import Knowledge, lengths_of, mean_output_of, prompts_scenario_of, scenario_of
from evaluator.ledger.sides import Probe, Sides, Values, decoding_of, values_of_sides
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.engine.closed_run import whole_run_tokens_per_s
from evaluator.serving.interface import Run
from store.errors import SweepdbError

MS = 1000.0
LookUp = Callable[[CaptureRequest], OperatorSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One point's scenario and batch size; `prompts` is its prefill pool's scenario."""

    scenario: Scenario
    batch_size: int  # of one replica and pipeline stage: the fullest; the largest where sides are apart
    prompts: Scenario | None = None

    def sizes(self) -> dict[Scenario, range]:
        if self.prompts is None:
            return {self.scenario: range(self.batch_size, self.batch_size + 1)}
        return {self.scenario: range(1, self.batch_size + 1), self.prompts: range(1, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    block: ProbeBlock

    def value(self, column: str, batch_size: int) -> float:
        index = int(np.searchsorted(self.block.batch_size, batch_size))
        return float(getattr(self.block, column)[index])


Evaluations = Mapping[Scenario, Evaluated]
Evaluate = Callable[
    [Mapping[Scenario, Sequence[int]], LookUp | None, Callable[[int, int], None]], "tuple[Evaluations, Failures]"
]
Failures = Mapping[Scenario, str]  # why some could not be evaluated


def asked_of(deployment: Deployment, knowledge: Knowledge, *, engine: EngineProfile | None = None) -> Asked:
    scenario = scenario_of(deployment, knowledge, engine=engine)
    return Asked(
        scenario=scenario,
        batch_size=-(-deployment.users_of_replica // deployment.plan.pp),
        prompts=prompts_scenario_of(deployment, knowledge, engine=engine),
    )


def evaluated(asked: Iterable[Asked], captured: LookUp | None = None) -> Evaluations:
    """Only those that their serving model covers, at all sizes asked."""
    return {
        scenario: Evaluated(block=evaluate_scenario(scenario, np.asarray(sizes), operators_of(scenario, captured)))
        for scenario, sizes in sizes_of(asked).items()
    }


def evaluated_or_why(
    sizes: Mapping[Scenario, Sequence[int]],
    captured: LookUp | None = None,
    on_scenario: Callable[[int, int], None] = lambda _done, _all: None,
) -> tuple[Evaluations, Failures]:
    found: dict[Scenario, Evaluated] = {}
    failures: dict[Scenario, str] = {}
    for done, (scenario, some) in enumerate(sizes.items(), start=1):
        operators = operators_of(scenario, captured)
        try:
            found[scenario] = Evaluated(block=evaluate_scenario(scenario, np.asarray(some), operators))
        except Exception as error:  # noqa: BLE001  one scenario's failure is named, not the end of the others
            failures[scenario] = f"{type(error).__name__}: {error}"
        on_scenario(done, len(sizes))
    return found, failures


def sizes_of(asked: Iterable[Asked]) -> dict[Scenario, list[int]]:
    sizes: dict[Scenario, set[int]] = defaultdict(set)
    for one in asked:
        for scenario, some in one.sizes().items():
            sizes[scenario].update(some)
    return {scenario: sorted(wanted) for scenario, wanted in sizes.items() if unsupported(scenario) is None}


def operators_of(scenario: Scenario, captured: LookUp | None = None) -> dict[str, OperatorSet]:
    look_up = captured or _known
    return {trace: look_up(request) for trace, request in capture_requests(scenario).items()}


@lru_cache(maxsize=1024)
def _known(request: CaptureRequest) -> OperatorSet:
    return operators_of_request(request)


def predicted(
    deployment: Deployment, knowledge: Knowledge, asked: Asked, probes: Evaluations, captured: LookUp | None = None
) -> Values:
    """By name without a statistic; nothing where refused. Rates of a run whose length is known hold its emptying."""
    probe, lengths = probes.get(asked.scenario), lengths_of(deployment, knowledge)
    if probe is None or (asked.prompts is not None and asked.prompts not in probes):
        return {}
    if asked.prompts is not None:
        return values_of_sides(deployment, lengths, sides_of(deployment, knowledge, asked, probes))
    found = values_of(deployment, knowledge, probe, asked.batch_size)
    client = asked.scenario.client
    if client is None or deployment.mode != "aggregated" or not (deployment.prompts_per_user or deployment.batched):
        return found
    operators = operators_of(asked.scenario, captured)
    tokens = whole_run_rate(asked.scenario, asked.batch_size, operators, deployment.users)
    if tokens is None:
        return found
    mean = mean_output_of(deployment, knowledge)
    return {**found, "output_tokens_per_s": tokens, "requests_per_s": tokens / mean}


def whole_run_rate(
    scenario: Scenario, batch_size: int, operators: Mapping[str, OperatorSet], users: int
) -> float | None:
    """Output tokens/s of all these users from the first prompt to the last answer; None under formulas."""
    engine = serving_engine(scenario)
    if engine is None:
        return None
    run = Run(
        scenario=scenario,
        operators=operators,
        source=batch_source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([batch_size], dtype=np.int64),
    )
    of_replica = int(run.requests[0])
    return whole_run_tokens_per_s(run, engine, of_replica) * users / of_replica


def steady_share(deployment: Deployment) -> float | None:
    """Tokens/s of a server that stays full over those of this run, whose last users wait for nobody.

    None where either is not predicted."""
    prompt, output = lengths_of(deployment, "asked")
    usual = replace(deployment, input_length=prompt, output_length=output, client=None, prompts_per_user=None)
    points = [(one, asked_of(one, "known")) for one in (usual, deployment)]
    try:
        probes = evaluated(asked for _, asked in points)
    except SweepdbError:  # as validation says of such a point
        return None
    full, run = (predicted(one, "known", asked, probes).get("output_tokens_per_s") for one, asked in points)
    return full / run if full and run else None


def batch_size_of(deployment: Deployment, knowledge: Knowledge, asked: Asked, probes: Evaluations) -> int:
    if asked.prompts is None or asked.scenario not in probes or asked.prompts not in probes:
        return asked.batch_size
    sides = sides_of(deployment, knowledge, asked, probes)
    return decoding_of(deployment, lengths_of(deployment, knowledge), sides)[0]


def values_of(deployment: Deployment, knowledge: Knowledge, probe: Probe, batch_size: int) -> Values:
    lengths = lengths_of(deployment, knowledge)
    if deployment.mode == "decode":
        return _of_tokens(deployment, probe, batch_size)
    if deployment.mode == "prefill":
        return _of_prompts(deployment, lengths, probe, batch_size)
    return _of_requests(deployment, lengths[1], mean_output_of(deployment, knowledge), probe, batch_size)


def sides_of(deployment: Deployment, knowledge: Knowledge, asked: Asked, probes: Evaluations) -> Sides:
    prompts = asked.prompts
    if prompts is None or deployment.prefill_plan is None:
        raise TypeError("sides are not apart")
    return Sides(
        prompts_scenario=prompts,
        prefill_plan=deployment.prefill_plan,
        prompts=probes[prompts],
        tokens=probes[asked.scenario],
        most=asked.batch_size,
        seats=deployment.decode_seats if knowledge == "known" else None,
    )


def _of_prompts(deployment: Deployment, lengths: Sequence[int], probe: Probe, size: int) -> Values:
    last = probe.value("makespan_ms", size)
    found = {"prefill_latency_ms": last, "input_tokens_per_s": MS * deployment.users * lengths[0] / last}
    if not deployment.transferred:  # no probe moves keys and values
        found["ttft_ms"] = probe.value("ttft_ms", size)
    return found


def _of_tokens(deployment: Deployment, probe: Probe, size: int) -> Values:
    tpot = probe.value("tpot_exclusive_ms", size)
    return {"decode_step_ms": tpot, "tpot_exclusive_ms": tpot, "output_tokens_per_s": MS * deployment.users / tpot}


def _of_requests(deployment: Deployment, named: int, output: float, probe: Probe, size: int) -> Values:
    """Each user gets its output once an end-to-end time.

    Clients measure means; a probe's answers have the named length."""
    ttft, tpot = probe.value("ttft_ms", size), probe.value("tpot_exclusive_ms", size)
    whole = probe.value("e2e_ms", size) - (named - output) * tpot  # 0.9 of 500 tokens at 10 ms: 500 ms less
    return {
        "ttft_ms": ttft,
        "tpot_exclusive_ms": tpot,
        "e2e_ms": whole,
        "tpot_inclusive_ms": whole / output,
        "output_tokens_per_s": MS * deployment.users * output / whole,
        "requests_per_s": MS * deployment.users / whole,
    }
