"""Latencies of a deployment from the device profile, operators and an engine profile.

Not here: where deployments come from (evaluator.measured.deployments), and how wrong latencies are (scoring)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from evaluator.capture import CaptureRequest, capture
from evaluator.cost import CostModel
from evaluator.cost.calibrated import calibrated_cost
from evaluator.device import DeviceProfile
from evaluator.evaluate import capture_requests, cost_model
from evaluator.measured.deployments import Deployment
from evaluator.memory import transfer_bytes
from evaluator.operators import OperatorSet
from evaluator.scenario import Scenario
from evaluator.serving.closed_loop import ClosedLoop, decode_steps_s, simulate
from evaluator.serving.closed_pair import ClosedPair, pair_times
from evaluator.serving.engines import EngineProfile
from evaluator.serving.step_tables import StepTable, TableExtents, launched, step_table
from evaluator.workload import Workload

SERVED_ROUTING = "power_law_1.2"  # the skew that tools of the field assume for real prompts
MS = 1000.0
CENTRAL = ("mean", "", "p50")  # statistics of a measured metric that a prediction is compared with, best first
LONGEST_STEP = 16_384  # tokens of a step that tables reach; proportional beyond


def operators_of(
    deployment: Deployment, captured: Callable[[CaptureRequest], OperatorSet] | None = None
) -> Mapping[str, OperatorSet]:
    """Both operator sets of a deployment, by trace. `captured` looks them up; by default torch traces them."""
    scenario = Scenario(
        model=deployment.model,
        device=deployment.device,
        precision=deployment.precision,
        plan=deployment.plan,
        workload=Workload(input_length=deployment.input_length, output_length=deployment.output_length),
        phase="aggregated",
    )
    look_up = captured or _captured
    return {trace: look_up(request) for trace, request in capture_requests(scenario, compile_graphs=True).items()}


@lru_cache(maxsize=256)
def _captured(request: CaptureRequest) -> OperatorSet:
    return capture(request)


def serving_cost(device: DeviceProfile) -> CostModel:
    """The device's cost model with experts routed as real prompts do, where it was measured so."""
    if device.family == "theoretical":
        return cost_model(device, "physical")
    return calibrated_cost(device, routing=SERVED_ROUTING)


def table_of(
    deployment: Deployment, operators: Mapping[str, OperatorSet], *, sequences: int, cost: CostModel | None = None
) -> StepTable:
    """Step times of one replica, for up to `sequences` users of it."""
    mean = (1.0 + deployment.shortest) / 2
    windows = tuple(sorted({group.window for group in deployment.model.layers if group.window is not None}))
    extents = TableExtents(
        input_length=deployment.input_length,
        decode_keys=mean * (deployment.input_length + deployment.output_length / 2),
        sequences=sequences,
        tokens=LONGEST_STEP + sequences,
    )
    return step_table(
        operators,
        cost or serving_cost(deployment.device),
        extents,
        windows=windows,
        replicas=deployment.plan.dp,
    )


def tables_of(
    deployments: Sequence[Deployment], captured: Callable[[CaptureRequest], OperatorSet] | None = None
) -> list[StepTable]:
    """The table of each deployment; those that differ in users alone share one."""
    most: dict[object, int] = {}
    for one in deployments:
        most[_table_key(one)] = max(most.get(_table_key(one), 1), one.users_of_replica)
    costs: dict[str, CostModel] = {}
    tables: dict[object, StepTable] = {}
    for one in deployments:
        key = _table_key(one)
        if key not in tables:
            cost = costs.setdefault(one.device.name, serving_cost(one.device))
            tables[key] = table_of(one, operators_of(one, captured), sequences=most[key], cost=cost)
    return [tables[_table_key(one)] for one in deployments]


def _table_key(one: Deployment) -> object:
    return (one.model_name, one.device.name, one.precision, one.plan, one.input_length, one.output_length, one.shortest)


def prompt_tables_of(
    deployments: Sequence[Deployment], captured: Callable[[CaptureRequest], OperatorSet] | None = None
) -> list[StepTable | None]:
    """The table of what takes the prompts of each deployment whose sides are apart."""
    sides = [one.prefill_side() for one in deployments]
    made = iter(tables_of([side for side in sides if side is not None], captured))
    return [None if side is None else next(made) for side in sides]


def as_launched(deployment: Deployment, engine: EngineProfile) -> EngineProfile:
    """The engine with the launch flags that are known of a deployment."""
    return engine if deployment.token_budget is None else replace(engine, token_budget=deployment.token_budget)


def loop_of(deployment: Deployment) -> ClosedLoop:
    """The closed loop of one replica of a deployment, with its share of the users."""
    return ClosedLoop(
        users=deployment.users_of_replica,
        output_length=deployment.output_length,
        shortest=deployment.shortest,
        poll_steps=deployment.poll_steps,
        replicas=deployment.plan.dp,
    )


def central_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Measured metrics by their names in `predictions`, each once: its mean where there are mean and median."""
    statistics: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        head, _, tail = name.rpartition("_")
        known = tail in {"mean", "std"} or (tail[:1] == "p" and tail[1:].replace(".", "").isdigit())
        bare, statistic = (head, tail) if known else (name, "")
        statistics.setdefault(bare, {})[statistic] = value
    return {
        bare: next(found[one] for one in CENTRAL if one in found)
        for bare, found in statistics.items()
        if not found.keys().isdisjoint(CENTRAL)
    }


def predictions(
    deployment: Deployment, table: StepTable, engine: EngineProfile, prompts: StepTable | None = None
) -> dict[str, float]:
    """Every metric of a deployment that we can predict, by its name without a statistic. `prompts` is the table of
    what takes the prompts, where the sides are apart.

    Phases measured alone (`prefill`, `decode`) and batches that are all there at the start follow the batch's own
    definition; everything else is the closed loop."""
    users, outputs = deployment.users_of_replica, deployment.output_length
    engine = as_launched(deployment, engine)
    table = launched(table, engine.launch_s(deployment.layers))
    prefill, decode = prompt_batch_s(table, engine, users), decode_steps_s(table, engine)[users]
    transfer = kv_transfer_s(deployment)
    if deployment.mode in {"prefill", "decode"}:
        return {
            "prefill_latency_ms": MS * prefill,
            "ttft_ms": MS * (prefill + transfer * deployment.transferred) + engine.request_ms,
            "decode_step_ms": MS * decode,
            "tpot_exclusive_ms": MS * decode,
            "input_tokens_per_s": deployment.users * deployment.input_length / prefill,
            "output_tokens_per_s": deployment.users / decode,
        }
    ttft, tpot = _closed(deployment, table, engine, prompts)
    cycle = ttft + (outputs - 1) * tpot
    if deployment.requests is not None:
        return _all_at_once(deployment, table, engine, deployment.requests)
    return {
        "ttft_ms": MS * ttft,
        "tpot_exclusive_ms": MS * tpot,
        "e2e_ms": MS * (prefill + (outputs - 1) * decode) if deployment.batched else MS * cycle,
        "output_tokens_per_s": deployment.users * outputs / cycle,
        "requests_per_s": deployment.users / cycle,
        "kv_transfer_ms": MS * transfer,
    }


def _all_at_once(deployment: Deployment, table: StepTable, engine: EngineProfile, requests: int) -> dict[str, float]:
    """Rates of a run in which every request is there from the start and takes a place as one falls free. Latencies are
    left out: they hold the wait for a place."""
    of_replica = -(-requests // deployment.plan.dp)
    loop = replace(loop_of(deployment), users=min(deployment.users_of_replica, of_replica), prompts=of_replica)
    whole = simulate(table, engine, loop).makespan_s
    return {"requests_per_s": requests / whole, "output_tokens_per_s": requests * deployment.output_length / whole}


def _closed(
    deployment: Deployment, table: StepTable, engine: EngineProfile, prompts: StepTable | None
) -> tuple[float, float]:
    """(TTFT, exclusive TPOT) in a closed loop, of one instance that does both or of two sides."""
    if prompts is None or deployment.prefill_plan is None:
        times = simulate(table, engine, loop_of(deployment))
        waited = deployment.wait_steps * times.tpot_exclusive_s
        return times.ttft_s + waited, times.tpot_exclusive_s
    share = (1.0 + deployment.shortest) / 2
    pair = ClosedPair(
        users=deployment.users,
        output_length=share * deployment.output_length,
        prefill_servers=deployment.prefill_instances * deployment.prefill_plan.dp,
        decode_servers=deployment.instances * deployment.plan.dp,
        transfer_s=share * kv_transfer_s(deployment),
        share=share,
    )
    prompts = launched(prompts, engine.launch_s(deployment.layers))
    found = pair_times(prompts, table, engine, pair, alone_s=prompt_batch_s(prompts, engine, 1))
    return found.ttft_s, found.tpot_exclusive_s


def kv_transfer_s(deployment: Deployment) -> float:
    """Seconds to move a prompt's keys and values between instances, over the links between nodes of as many devices
    as hold them. Left out: what the transfer library adds, and layers sent while others are computed."""
    plan, link = deployment.prefill_plan or deployment.plan, deployment.device.links[0]
    bits = 8 if deployment.precision.attention == "FP8" else 16
    moved = transfer_bytes(deployment.model, bits, deployment.input_length)
    line_rate = deployment.transfer_bytes_per_s or plan.tp * plan.pp * link.bandwidth_bytes_per_s
    return link.latency_s + moved / (line_rate * link.efficiency)


def prompt_batch_s(table: StepTable, engine: EngineProfile, prompts: int) -> float:
    """Seconds until every prompt of a batch that is all there has its first token, in steps of the token budget."""
    tokens = prompts * table.input_length
    whole, rest = divmod(tokens, engine.token_budget)
    linear = whole * table.linear_s(engine.token_budget) + (table.linear_s(rest) if rest else 0.0)
    host = (whole + (rest > 0)) * (
        engine.step_s() + engine.prompt_step_s()
    ) + 1e-3 * engine.step_per_prompt_ms * prompts
    return host + engine.prefill_factor * (
        linear + prompts * table.attention_s(table.input_length) + float(table.decode_own[0])
    )
